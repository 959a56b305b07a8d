// What the views share: building elements, and writing numbers and times for people.

const kept = (c) => c !== null && c !== undefined && c !== false;

// hears has the listeners of elements by the names of events, so that refill can exchange them.
const hears = new WeakMap();

// el builds an element. Attributes that begin with "on" are listeners; null ones are left out.
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on')) {
      hears.set(node, { ...hears.get(node), [name.slice(2)]: value });
      node.addEventListener(name.slice(2), (e) => hears.get(node)[e.type](e));
    } else if (value === true) node.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter(kept));
  return node;
}

// fill replaces what an element holds.
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter(kept));
}

// refill makes of what an element holds what fill would have put there, and keeps each part that stays the same one: a
// reader's focus, choices, and how far a table was scrolled. A listener must look for other parts in the page: those
// that were built with it may have been left out.
export function refill(node, ...children) {
  const active = document.activeElement;
  const within = active !== node && node.contains(active);
  become(node, children.flat(Infinity).filter(kept).map((c) => (c instanceof Node ? c : document.createTextNode(c))));
  if (!within || (document.activeElement === active && !active.disabled)) return;
  const next = active.isConnected && !active.disabled ? active : node.querySelector('.scroll, button:not(:disabled)');
  next?.focus({ preventScroll: true });
}

// alike returns what two parts have in common that are the same one, earlier and later.
const alike = (n) => (n instanceof Element ? [n.tagName, n.id, n.dataset.key, n.getAttribute('aria-label'),
  Object.keys(hears.get(n) ?? {})].join('\n') : n.nodeName);

// become makes the children of an element those of a list. What goes is removed first, since an element that is moved
// loses the focus.
function become(node, list) {
  const old = new Map();
  for (const n of node.childNodes) old.set(alike(n), [...(old.get(alike(n)) ?? []), n]);
  const pairs = list.map((n) => [n, old.get(alike(n))?.shift()]);
  for (const rest of old.values()) rest.forEach((n) => n.remove());
  let at = node.firstChild;
  for (const [n, same] of pairs) {
    if (same) update(same, n);
    if (same && same === at) at = at.nextSibling;
    else node.insertBefore(same ?? n, at);
  }
}

// update makes of a part what it is later.
function update(old, now) {
  if (!(old instanceof Element)) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  if (hears.has(now)) hears.set(old, hears.get(now));
  for (const name of old.getAttributeNames()) if (!now.hasAttribute(name)) old.removeAttribute(name);
  for (const name of now.getAttributeNames()) {
    if (old.getAttribute(name) !== now.getAttribute(name)) old.setAttribute(name, now.getAttribute(name));
  }
  become(old, [...now.childNodes]);
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

// keyed names a row, so that refill finds it again wherever it comes to stand.
export function keyed(key, tr) {
  tr.dataset.key = key;
  return tr;
}

export const row = (...cells) => el('tr', {}, cells.map((c, i) =>
  (i === 0 ? el('th', { scope: 'row' }, c) : el('td', {}, c))));

// announce tells screen readers.
export function announce(text) {
  document.getElementById('news').textContent = text;
}

// failing returns what says in an element why nothing can be shown, and clearing what shows something again.
export const failing = (message) => (e) => {
  message.textContent = e.message;
  message.dataset.load = '';
};

export const clearing = (message, show) => (got) => {
  if ('load' in message.dataset) message.textContent = '';
  delete message.dataset.load;
  show(got);
};
