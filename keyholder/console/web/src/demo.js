// The demo: all roles on one page, and decrypted results beside the truth, which only a demo has.
import uPlot from 'uplot';
import { get } from './api.js';
import { color, stamps, ticks } from './chart.js';
import { el, fill, number, measured, error, bytes, withUnit } from './dom.js';
import { proofLink } from './results.js';

const shownTime = 120; // seconds of the charts
const maxTrail = 120; // samples of a sensor's line
const maxMessages = 2; // of each sender

export function demo(place) {
  const said = el('p', { class: 'verdict', role: 'status' });
  const flow = el('ol', { class: 'flow' });
  const grid = el('div', { class: 'compared' });
  fill(place, el('div', { class: 'line' }, el('h1', {}, 'The whole job, on this machine'), said), flow,
    el('div', { class: 'line' }, el('h2', {}, 'Decrypted results beside the truth'),
      el('p', { class: 'note' }, el('span', { class: 'key mine' }), 'decrypted ', el('span', { class: 'key truth' }),
        'truth, which no key holder has: the demo keeps it aside')), grid);
  let roles = null;
  let charts = new Map();
  let last = 0;
  let waiting = null; // events that came while the page asks for earlier ones
  let gone = false;

  async function load() {
    if (waiting) return;
    waiting = [];
    try {
      show(await get('demo'));
    } finally {
      waiting = null;
    }
  }

  function show(got) {
    if (gone) return;
    charts.forEach((c) => c.destroy());
    charts = new Map(got.cast.programs.map((p) => [p.name, new Compared(p)]));
    roles = new Roles(got.cast);
    fill(flow, roles.nodes);
    fill(grid, [...charts.values()].map((c) => c.node));
    charts.forEach((c) => c.draw());
    got.events.forEach(take);
    last = got.last;
    follow(waiting);
    paint();
  }

  // follow takes new events. It returns false if some were skipped.
  function follow(events) {
    for (const e of events) {
      if (e.n > last + 1) return false;
      if (e.n === last + 1) take(e);
      last = Math.max(last, e.n);
    }
    return true;
  }

  function take(e) {
    roles[e.name]?.(e.data);
    if (e.name === 'compared') charts.get(e.data.program)?.take(e.data);
  }

  function paint() {
    roles.paint();
    charts.forEach((c) => c.paint());
    const s = roles.sum;
    said.className = `verdict ${s.bad ? 'bad' : 'good'}`;
    said.dataset.windows = s.windows;
    said.textContent = s.results === 0 ? 'Waiting for the first result.' : s.bad ? `${s.bad} of ${s.results} results are outside ` +
      'their promised error.' : `${s.results} results of ${s.windows} windows: every error is within its promise, the largest at ` +
      `${number(100 * s.worst, 2)} %.`;
  }

  const ready = load();
  return {
    ready,
    hear(name, data) {
      if (name === 'hello' && roles) load().catch(() => {});
      if (name !== 'demo' || (!roles && !waiting)) return;
      if (waiting) waiting.push(...data.events);
      else if (!follow(data.events)) load().catch(() => {});
      else paint();
    },
    theme() { charts.forEach((c) => c.draw()); },
    leave() {
      gone = true;
      charts.forEach((c) => c.destroy());
    },
  };
}

// Roles are the four places that data passes.
class Roles {
  constructor(cast) {
    this.cast = cast;
    this.sum = { windows: 0, results: 0, bad: 0, worst: 0 };
    this.newest = null;
    this.messages = { board: [], evaluator: [] };
    this.rows = new Map();
    this.took = new Map();
    this.trails = cast.channels.map(() => []);
    this.sensors = cast.channels.map((c) => ({ value: el('b', {}), line: spark(), c }));
    this.under = { board: el('p', {}), broker: el('p', {}), evaluator: el('p', {}), holder: el('p', {}) };
    this.wire = el('div', { class: 'wire' });
    this.programs = el('dl', { class: 'work' });
    this.read = el('dl', { class: 'work' });
    const role = (name, title, text, what) => el('li', { 'data-role': name }, el('h2', {}, title), el('p', {}, text), what,
      this.under[name]);
    this.nodes = [
      role('board', 'Board', 'reads sensors and encrypts them with a public key', el('ul', { class: 'sensors' }, this.sensors.map((s) =>
        el('li', {}, el('span', {}, s.c.name), s.value, s.line)))),
      role('broker', 'On the way', 'all that somebody sees who listens at the broker', this.wire),
      role('evaluator', 'Evaluator', `computes on ciphertexts, without a key that reads; ${cast.backend}, ${cast.params}`,
        this.programs),
      role('holder', 'Key holder', 'alone has the secret key', this.read),
    ];
  }

  window(w) {
    this.newest = w;
    w.values.forEach((v, i) => {
      const t = this.trails[i];
      t?.push(...v);
      t?.splice(0, Math.max(0, t.length - maxTrail));
    });
  }

  up(m) { this.note(m, 'board'); }

  res(m) { this.note(m, 'evaluator'); }

  note(m, from) {
    const list = this.messages[from];
    list.push({ ...m, from });
    if (list.length > maxMessages) list.shift();
  }

  evaluated(e) { this.took.set(e.program, e); }

  compared(r) {
    this.sum = { windows: r.window, ...r.sum };
    this.rows.set(r.program, r);
    this.row = r;
  }

  paint() {
    const w = this.newest;
    this.sensors.forEach((s, i) => {
      const t = this.trails[i];
      s.value.textContent = t.length ? withUnit(number(t[t.length - 1], 4), s.c.unit) : '–';
      s.line.firstChild.setAttribute('d', path(t));
    });
    this.under.board.textContent = w ? `${w.samples} samples encrypted in ${number(w.encrypt_ms, 2)} ms: ${bytes(w.bytes)}` : '';
    fill(this.wire, [...this.messages.board, ...this.messages.evaluator].map((m) => el('div', { class: m.from },
      el('span', {}, `${m.topic.split('/').slice(2).join('/')}, ${bytes(m.bytes)}`), el('code', {}, m.hex.replace(/(..)/g, '$1 ')))));
    this.under.broker.textContent = 'ciphertext over MQTT, with mutual TLS';
    fill(this.programs, this.cast.programs.map((p) => [el('dt', { title: p.expr }, p.name),
      el('dd', {}, this.took.has(p.name) ? `${number(this.took.get(p.name).evaluate_ms, 3)} ms` : '–')]));
    this.under.evaluator.textContent = this.row ? `each result is ${bytes(this.row.result_bytes)} of ciphertext again` : '';
    const r = this.row;
    fill(this.read, this.cast.programs.map((p) => {
      const of = this.rows.get(p.name);
      return [el('dt', {}, p.name), el('dd', {}, of ? withUnit(number(of.decrypted[0], 5), of.unit) : '–')];
    }));
    this.under.holder.textContent = r ? `${number(r.latency_ms, 3)} ms from the last sample to the decrypted result` : '';
  }
}
// Compared is a program's decrypted results over the truth.
class Compared {
  constructor(p) {
    this.p = p;
    this.data = [[], [], []];
    this.value = el('span', { class: 'value' });
    this.truth = el('span', { class: 'soft' });
    this.error = el('span', { class: 'soft' });
    this.proof = el('a', { href: '#/', hidden: true, 'aria-label': `Proof of the last result of ${p.name}` }, 'proof');
    this.meter = el('meter', { min: '0', max: '1', high: '0.999', 'aria-label': `Error of ${p.name}, as a share of its promise` });
    this.place = el('div', { class: 'chart', role: 'img' });
    this.node = el('article', { class: 'card', 'data-program': p.name, 'aria-label': p.name },
      el('div', { class: 'head' }, el('h3', {}, p.name), this.proof), el('p', { class: 'now' }, this.value),
      el('p', {}, this.truth), this.place, this.meter, el('p', {}, this.error));
    this.sizes = new ResizeObserver(() => {
      if (this.plot && this.place.clientWidth > 0) this.plot.setSize(this.size());
    });
    this.sizes.observe(this.place);
  }

  size() { return { width: Math.max(this.place.clientWidth, 120), height: 104 }; }

  // range leaves room around the values, and shows no noise below the promised error large.
  range(low, high) {
    if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
    const room = Math.max((high - low) * 0.15, Math.abs(high) * 0.01, 20 * this.p.bound);
    return [low - room, high + room];
  }

  draw() {
    if (!this.place.isConnected) return;
    this.plot?.destroy();
    const grid = { stroke: color('--grid'), width: 1 };
    const axis = { stroke: color('--soft'), grid, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    this.plot = new uPlot({
      ...this.size(), legend: { show: false }, cursor: { show: false }, padding: [6, 4, 0, 0],
      axes: [{ ...axis, values: stamps, space: 90, size: 22 },
        { ...axis, size: 46, space: 24, splits: ticks, values: (_, v) => v.map((x) => number(x, 4)) }],
      scales: { y: { range: (_, low, high) => this.range(low, high) } },
      series: [{}, { stroke: color('--truth'), width: 7, points: { size: 9, fill: color('--truth'), stroke: color('--truth') } },
        { stroke: color('--line'), width: 2, points: { size: 4, fill: color('--line') } }],
    }, this.data, this.place);
    this.paint();
  }

  take(r) {
    this.row = r;
    [r.end / 1000, r.truth[0], r.decrypted[0]].forEach((v, i) => this.data[i].push(v));
    const first = this.data[0].findIndex((t) => t >= r.end / 1000 - shownTime);
    if (first > 0) this.data.forEach((l) => l.splice(0, first));
  }

  paint() {
    const r = this.row;
    if (!r || !this.plot) return;
    const t = this.data[0];
    const min = Math.min(t[0], t[t.length - 1] - 20);
    this.plot.setData(this.data, false);
    this.plot.setScale('x', { min, max: t[t.length - 1] + 0.5 });
    this.value.textContent = withUnit(measured(r.decrypted[0], r.bound), r.unit);
    this.truth.textContent = `truth ${withUnit(measured(r.truth[0], r.bound), r.unit)}`;
    this.meter.value = r.bound > 0 ? Math.min(1, r.error / r.bound) : Number(r.error > 0);
    this.error.textContent = `error ${error(r.error)} of ${error(r.bound)} promised`;
    this.proof.hidden = false;
    this.proof.href = proofLink({ program: r.program, start_ns: r.start_ns });
    this.place.setAttribute('aria-label', `${r.program}: ${this.value.textContent}, ${this.truth.textContent}`);
  }

  destroy() {
    this.sizes.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }
}

// spark is a small line without axes.
function spark() {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  for (const [k, v] of Object.entries({ viewBox: '0 0 100 24', preserveAspectRatio: 'none', 'aria-hidden': 'true' })) svg.setAttribute(k, v);
  svg.append(document.createElementNS('http://www.w3.org/2000/svg', 'path'));
  return svg;
}

function path(values) {
  if (values.length < 2) return '';
  const low = Math.min(...values);
  const high = Math.max(...values);
  const y = (v) => (high > low ? 22 - ((v - low) / (high - low)) * 20 : 12);
  return values.map((v, i) => `${i ? 'L' : 'M'}${((100 * i) / (values.length - 1)).toFixed(1)} ${y(v).toFixed(1)}`).join('');
}
