// A chart of one series: its values, and around them a band that is as wide as the promised
// error. Where a point stands for many results the band also holds the least and the largest.
import uPlot from 'uplot';

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// stamps writes the times of the axis, as exact as their distance asks for.
export function stamps(_, times, __, ___, distance) {
  const two = (n) => String(n).padStart(2, '0');
  let day = null;
  return times.map((s) => {
    const t = new Date(s * 1000);
    const date = t.toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
    if (distance >= 86400) return date;
    const clock = `${two(t.getHours())}:${two(t.getMinutes())}${distance < 60 ? `:${two(t.getSeconds())}` : ''}`;
    const first = day !== null && day !== date;
    day = date;
    return first ? `${clock}\n${date}` : clock;
  });
}

// ticks places those of an axis of numbers, at most 100: uPlot's own never end where a step is lost in
// rounding.
export function ticks(_, __, min, max, step) {
  const out = [];
  const first = Math.ceil(min / step);
  for (let i = 0; i < 100; i += 1) {
    const v = Number(((first + i) * step).toPrecision(15)) + 0;
    if (!(v <= max)) break;
    out.push(v);
  }
  return out;
}

// empty is a series without points: seconds, values, upper and lower end of the band.
const empty = () => [[], [], [], []];

export class Chart {
  // o.unit, o.load(from, to, points) returns the lines between two times in seconds,
  // o.point(text) shows the point below the cursor.
  constructor(place, o) {
    this.o = o;
    this.place = place;
    this.data = empty();
    this.first = 0; // when the series begins, in seconds
    this.last = 3600; // seconds that are shown up to now; 0: all
    this.window = null; // [from, to] that was zoomed to; null: follows
    this.plot = null;
    this.draw();
    this.sizes = new ResizeObserver(() => {
      if (this.plot && place.clientWidth > 0) this.plot.setSize(this.size());
    });
    this.sizes.observe(place);
    place.addEventListener('keydown', (e) => this.key(e));
    place.addEventListener('wheel', (e) => {
      if (!e.ctrlKey && !e.shiftKey) return;
      e.preventDefault();
      if (e.shiftKey) this.pan(Math.sign(e.deltaY || e.deltaX) * 0.15);
      else this.zoom(e.deltaY > 0 ? 1.3 : 1 / 1.3);
    }, { passive: false });
  }

  size() { return { width: Math.max(this.place.clientWidth, 120), height: 180 }; }

  // draw makes the plot anew, in the colours of the theme.
  draw() {
    this.plot?.destroy();
    const line = color('--line');
    const text = color('--soft');
    const grid = { stroke: color('--grid'), width: 1 };
    const axis = { stroke: text, grid, ticks: grid, font: '12px system-ui, sans-serif' };
    this.plot = new uPlot({
      ...this.size(),
      legend: { show: false },
      scales: { x: { time: true } },
      cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
      axes: [{ ...axis, values: stamps, space: 70 }, { ...axis, size: 64, splits: ticks, values: (_, v) => v.map((x) => Number(x.toPrecision(6)).toString()) }],
      bands: [{ series: [2, 3], fill: color('--band') }],
      series: [{},
        { stroke: line, width: 2, points: { size: 4, fill: line } },
        { stroke: color('--band-edge'), width: 1, points: { show: false } },
        { stroke: color('--band-edge'), width: 1, points: { show: false } }],
      hooks: {
        setSelect: [(u) => {
          if (u.select.width < 4) return;
          const from = u.posToVal(u.select.left, 'x');
          const to = u.posToVal(u.select.left + u.select.width, 'x');
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          this.show(from, to);
        }],
        setCursor: [(u) => this.o.point(u.cursor.idx === null || u.cursor.idx === undefined ? null : this.at(u.cursor.idx))],
        ready: [(u) => {
          u.over.addEventListener('dblclick', () => this.reset());
          this.touch(u.over);
        }],
      },
    }, this.data, this.place);
    this.scale();
  }

  at(i) {
    const [t, v, high, low] = this.data;
    return t[i] === undefined ? null : { t: t[i], v: v[i], high: high[i], low: low[i] };
  }

  // range is what is shown now, in seconds.
  range() {
    if (this.window) return this.window;
    const end = this.o.now();
    const t = this.data[0];
    if (this.last > 0) {
      // A series that has just begun fills the chart.
      const from = end - this.last;
      return [this.first > from ? Math.min(this.first, end - 20) : from, end];
    }
    return t.length ? [t[0], Math.max(t[t.length - 1], t[0] + 1)] : [end - 3600, end];
  }

  scale() {
    const [min, max] = this.range();
    this.plot.setScale('x', { min, max });
  }

  async load() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const points = Math.min(2000, Math.max(300, Math.round(this.place.clientWidth * devicePixelRatio)));
    const [from, to] = this.window ?? (this.last > 0 ? [this.o.now() - this.last, null] : [null, null]);
    const got = await this.o.load(from, to, points);
    if (turn !== this.turn) return; // another range was asked for meanwhile
    this.first = got.first || this.first;
    const data = empty();
    got.t.forEach((t, i) => this.add(data, t, got.mid[i], got.low[i], got.high[i], got.bound[i]));
    this.data = data;
    this.plot.setData(this.data, false);
    this.scale();
    this.plot.redraw();
  }

  add([t, v, high, low], time, mid, least, most, bound) {
    t.push(time);
    v.push(mid);
    high.push(most === null ? null : most + (bound ?? 0));
    low.push(least === null ? null : least - (bound ?? 0));
  }

  // append takes new results, in order. It returns false if the chart shows another time.
  append(list) {
    const t = this.data[0];
    for (const r of list) {
      const start = r.start / 1000;
      if (t.length && start <= t[t.length - 1]) continue;
      this.add(this.data, start, r.value, r.value, r.value, r.bound);
    }
    if (this.last > 0 && t.length > 4000) {
      const cut = t.findIndex((x) => x >= this.o.now() - this.last);
      if (cut > 0) for (const l of this.data) l.splice(0, cut);
    }
    if (this.window) return false;
    this.plot.setData(this.data, false);
    this.scale();
    return true;
  }

  tick() { if (!this.window && this.last > 0) this.scale(); }

  show(from, to) {
    if (!(to - from > 1e-3)) return;
    this.window = [from, to];
    this.scale();
    this.o.moved(true);
    clearTimeout(this.later);
    this.later = setTimeout(() => this.load().catch(this.o.failed), 120);
  }

  zoom(factor) {
    const [from, to] = this.range();
    const middle = (from + to) / 2;
    this.show(middle - ((to - from) / 2) * factor, middle + ((to - from) / 2) * factor);
  }

  pan(share) {
    const [from, to] = this.range();
    this.show(from + (to - from) * share, to + (to - from) * share);
  }

  // reset follows the newest results again.
  reset(last = this.last) {
    this.window = null;
    this.last = last;
    this.o.moved(false);
    return this.load().catch(this.o.failed);
  }

  // touch lets a finger move the chart and two zoom it: what is below a finger stays there.
  touch(over) {
    const fingers = new Map(); // where each is, in shares of the width, and the second that it holds
    const place = (e) => {
      const { left, width } = over.getBoundingClientRect();
      return Math.min(1, Math.max(0, (e.clientX - left) / width));
    };
    const hold = () => {
      const [from, to] = this.range();
      for (const f of fingers.values()) f.t = from + (to - from) * f.x;
    };
    over.addEventListener('pointerdown', (e) => {
      if (e.pointerType !== 'touch' || fingers.size === 2) return;
      fingers.set(e.pointerId, { x: place(e), down: place(e), t: 0 });
      hold();
    });
    over.addEventListener('pointermove', (e) => {
      const moved = fingers.get(e.pointerId);
      if (!moved) return;
      moved.x = place(e);
      const [a, b] = fingers.values();
      moved.far ||= Math.abs(moved.x - moved.down) > 0.02; // a finger that taps trembles
      if (!moved.far) return;
      const [from, to] = this.range();
      const length = !b ? to - from : (b.t - a.t) / (b.x - a.x);
      if (length > 0 && Number.isFinite(length)) this.show(a.t - length * a.x, a.t + length * (1 - a.x));
    });
    for (const end of ['pointerup', 'pointercancel']) {
      over.addEventListener(end, (e) => {
        if (fingers.delete(e.pointerId)) hold();
      });
    }
  }

  key(e) {
    const deed = { ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), '+': () => this.zoom(0.7),
      '=': () => this.zoom(0.7), '-': () => this.zoom(1.4), 0: () => this.reset(), Home: () => this.reset(0) }[e.key];
    if (!deed || e.altKey || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    deed();
  }

  destroy() {
    clearTimeout(this.later);
    this.sizes.disconnect();
    this.plot.destroy();
  }
}
