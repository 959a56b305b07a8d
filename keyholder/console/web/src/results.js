// The first view: a card for each program.
import { get, now } from './api.js';
import { Chart } from './chart.js';
import { el, fill, refill, number, measured, error, at, span, time, table, row, keyed, withUnit } from './dom.js';

const ranges = [['15 min', 900], ['1 hour', 3600], ['1 day', 86400], ['7 days', 604800], ['all', 0]];

export const proofLink = (r) => `#/proof?${new URLSearchParams({ program: r.program, device: r.device ?? '',
  start_ns: r.start_ns })}`;

export function results(place) {
  const cards = new Map();
  const grid = el('div', { class: 'cards' });
  const note = el('p', { class: 'note' });
  fill(place, el('h1', {}, 'Results'), note, grid);

  async function list() {
    const { programs } = await get('programs');
    note.textContent = programs.length ? '' : 'There is no result yet. Each program gets a card with its first one.';
    for (const p of programs) {
      if (cards.has(p.program)) {
        cards.get(p.program).meet(p.newest);
        continue;
      }
      const card = new Card(p);
      cards.set(p.program, card);
      const after = [...grid.children].find((c) => c.dataset.program > p.program) ?? null;
      grid.insertBefore(card.node, after);
      card.start();
    }
  }
  const ready = list();
  const clock = setInterval(() => cards.forEach((c) => c.tick()), 1000);
  return {
    ready,
    hear(name, data) {
      if (name === 'hello') {
        list().then(() => cards.forEach((c) => c.chart.load().catch(c.failed)), () => {});
      }
      if (name !== 'results') return;
      if (data.results.some((r) => !cards.has(r.program))) list().catch(() => {});
      for (const [program, card] of cards) card.take(data.results.filter((r) => r.program === program), data.skipped);
    },
    theme() { cards.forEach((c) => c.chart.draw()); },
    leave() {
      clearInterval(clock);
      cards.forEach((c) => c.chart.destroy());
    },
  };
}

let counter = 0;

// Card is what is known of a program: its newest value, its chart and its last results.
class Card {
  constructor(p) {
    const id = `card${counter++}`;
    this.p = p;
    this.device = p.device ?? '';
    this.newest = p.newest;
    this.value = el('span', { class: 'value' });
    this.bound = el('span', { class: 'bound' });
    this.age = el('span', { class: 'age' });
    this.place = el('div', { class: 'chart', tabindex: '0', role: 'img', 'aria-describedby': `${id}k` });
    this.under = el('output', { class: 'under' });
    this.message = el('p', { class: 'error', role: 'alert', hidden: true });
    this.rows = el('div', {});
    this.buttons = ranges.map(([text, last]) => el('button', { type: 'button', 'aria-pressed': String(last === 3600),
      onclick: () => this.range(last) }, text));
    this.live = el('button', { type: 'button', hidden: true, onclick: () => this.chart.reset() }, 'back to now');
    const details = el('details', { ontoggle: () => details.open && this.list() },
      el('summary', {}, 'Last results as a table'), this.rows);
    this.details = details;
    this.failed = (e) => {
      this.message.textContent = e.message;
      this.message.hidden = false;
    };
    this.node = el('article', { class: 'card', 'data-program': p.program, 'aria-labelledby': id },
      el('div', { class: 'head' }, el('h2', { id }, p.program), p.devices > 0 ? this.chooser(id) : null),
      el('p', { class: 'now' }, this.value, ' ', this.bound, ' ', this.age),
      el('div', { class: 'ranges', role: 'group', 'aria-label': `Time shown of ${p.program}` }, this.buttons, this.live),
      this.place, this.under, this.message,
      el('p', { id: `${id}k`, class: 'hidden-text' }, 'Chart. Arrow keys move, plus and minus zoom, 0 goes back to now, ',
        'Home shows all. The table below has the values.'),
      details);
  }

  // chooser picks the device of a program for a class.
  chooser(id) {
    const names = el('datalist', { id: `${id}d` });
    const box = el('input', { list: `${id}d`, value: this.device, autocomplete: 'off', spellcheck: 'false',
      'aria-label': `Device of ${this.p.program}, of ${this.p.devices}` });
    const search = async () => {
      const { devices } = await get('devices', { program: this.p.program, q: box.value });
      fill(names, devices.map((d) => el('option', { value: d.device })));
      const hit = devices.find((d) => d.device === box.value);
      if (hit && hit.device !== this.device) {
        this.device = hit.device;
        this.newest = hit;
        this.tell();
        this.chart.reset();
        if (this.details.open) this.list();
      }
    };
    box.addEventListener('input', () => search().catch(this.failed));
    box.addEventListener('focus', () => {
      box.select();
      search().catch(this.failed);
    });
    return el('span', { class: 'chooser' }, box, names, ` of ${this.p.devices}`);
  }

  start() {
    this.chart = new Chart(this.place, {
      now: () => now() / 1000, failed: this.failed,
      load: async (from, to, points) => {
        const q = { program: this.p.program, device: this.device, points };
        if (from !== null) q.from = Math.floor(from * 1000);
        if (to !== null) q.to = Math.ceil(to * 1000);
        if (from !== null && to === null) q.to = Math.ceil(now() + 86400000);
        const got = await get('series', q);
        this.message.hidden = true;
        return got;
      },
      point: (p) => {
        this.under.textContent = p === null || p.v === null ? '' :
          `${at(p.t * 1000)}: ${withUnit(number(p.v), this.p.unit)}, band ${number(p.low)} to ${number(p.high)}`;
      },
      moved: (away) => {
        this.live.hidden = !away;
        this.press();
      },
    });
    this.tell();
    this.chart.load().catch(this.failed);
  }

  range(last) {
    this.chart.reset(last);
    this.press();
  }

  press() {
    this.buttons.forEach((b, i) =>
      b.setAttribute('aria-pressed', String(!this.chart.window && ranges[i][1] === this.chart.last)));
  }

  take(list, skipped) {
    const mine = list.filter((r) => (r.device ?? '') === this.device).sort((a, b) => a.start - b.start);
    if (mine.length === 0) return;
    this.newest = mine[mine.length - 1];
    this.tell();
    if (skipped > 0) this.chart.load().catch(this.failed);
    else this.chart.append(mine);
    if (this.details.open) this.list();
  }

  // meet takes the newest result, which came while nobody listened.
  meet(r) {
    if ((r.device ?? '') !== this.device || r.start <= this.newest.start) return;
    this.newest = r;
    this.tell();
    if (this.details.open) this.list();
  }

  tell() {
    const r = this.newest;
    this.value.textContent = withUnit(measured(r.value, r.bound), r.unit);
    this.bound.textContent = `± ${error(r.bound)}${r.values > 1 ? `, first of ${r.values} values` : ''}`;
    this.place.setAttribute('aria-label', `${this.p.program}: ${this.value.textContent} ${this.bound.textContent}`);
    this.tick();
  }

  tick() {
    const age = now() - this.newest.end;
    this.age.textContent = age < 1500 ? 'just now' : `${span(age)} ago`;
    this.chart?.tick();
  }

  async list() {
    try {
      const { results: all } = await get('results', { program: this.p.program, device: this.device, limit: 10 });
      refill(this.rows, table(`Last results of ${this.p.program}`, ['Window ends', 'Value', 'Promised error', 'Proof'],
        all.reverse().map((r) => keyed(r.start_ns, row(
          time(r.end), withUnit(measured(r.value, r.bound), r.unit), error(r.bound),
          el('a', { href: proofLink(r), 'aria-label': `Proof of the result of ${at(r.end)}` }, 'proof'))))));
    } catch (e) {
      this.failed(e);
    }
  }
}
