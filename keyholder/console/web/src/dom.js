// What the views share: building elements, and writing numbers and times for people.

// el builds an element. Attributes that begin with "on" are listeners; null ones are left out.
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

// fill replaces what an element holds.
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
}

export const withUnit = (text, unit) => (unit && unit !== '1' ? `${text} ${unit}` : text);

// number writes a value with as many digits as it has use for.
export function number(v, digits = 8) {
  if (v === null || v === undefined || Number.isNaN(v)) return 'no number';
  const size = Math.abs(v);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return v.toExponential(Math.min(digits - 1, 3));
  return String(Number(v.toPrecision(digits)));
}

// measured writes a value with one digit more than its promised error lets it have.
export function measured(v, bound) {
  if (v === null || v === undefined || !(bound > 0) || Math.abs(v) >= 1e9) return number(v);
  const places = Math.ceil(-Math.log10(bound)) + 1;
  return places > 12 || (v !== 0 && Math.abs(v) < 1e-4) ? number(v) : v.toFixed(Math.max(0, places)).replace(/^-(0\.?0*)$/, '$1');
}

export const error = (v) => (v === null || v === undefined ? 'unknown' : Number(v.toPrecision(2)).toString());

// bytes writes a size.
export function bytes(n) {
  return n < 1024 ? `${n} bytes` : n < 1048576 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / 1048576).toFixed(1)} MiB`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
const full = new Intl.DateTimeFormat(undefined,
  { year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });

// at writes a point in time, given as Unix milliseconds or text.
export function at(when) {
  const t = new Date(when);
  return t.toDateString() === new Date().toDateString() ? clock.format(t) : full.format(t);
}

// span writes a length of time in milliseconds.
export function span(ms) {
  if (ms === null || ms === undefined) return '–';
  const s = Math.abs(ms) / 1000;
  const sign = ms < -500 ? '−' : '';
  if (s < 1) return `${sign}${Math.round(s * 1000)} ms`;
  if (s < 100) return `${sign}${Math.round(s)} s`;
  if (s < 6000) return `${sign}${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${sign}${Math.round(s / 3600)} h`;
  return `${sign}${Math.round(s / 86400)} days`;
}

// times returns a table's cell with a time that a reader can also have in full.
export const time = (when) => el('time', { datetime: new Date(when).toISOString(), title: full.format(new Date(when)) }, at(when));

const calendar = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric' });

// date returns a day that a reader can also have in full.
export const date = (when) => el('time', { datetime: new Date(when).toISOString(), title: full.format(new Date(when)) },
  calendar.format(new Date(when)));

// table returns a table that scrolls sideways on small screens.
export function table(label, heads, rows) {
  return el('div', { class: 'scroll', role: 'region', 'aria-label': label, tabindex: '0' },
    el('table', {}, el('thead', {}, el('tr', {}, heads.map((h) => (h instanceof Node ? h : el('th', { scope: 'col' }, h))))),
      el('tbody', {}, rows)));
}

export const row = (...cells) => el('tr', {}, cells.map((c, i) =>
  (i === 0 ? el('th', { scope: 'row' }, c) : el('td', {}, c))));

// announce tells screen readers.
export function announce(text) {
  document.getElementById('news').textContent = text;
}
