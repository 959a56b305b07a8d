// The table of devices. The server sorts, searches and pages it.
import { get, latest } from './api.js';
import { el, fill, refill, span, table, row, keyed, date } from './dom.js';

const columns = [['device', 'Device'], [null, 'Programs'], ['last', 'Last window ended'], ['delay', 'Delay'],
  ['results', 'Results'], ['gaps', 'Gaps'], ['missing', 'Missing time'], ['late', 'Late or again'], [null, 'Key epoch']];
const ofBoards = [['state', 'Connection'], ['version', 'Version'], ['certificate', 'Certificate ends']];
const perPage = 50;
const day = 86400e3;

// certificate writes until when a board's certificate is good, and warns before that.
function certificate(d, now) {
  if (d.certificate === null) return d.state === '' ? '–' : 'not told';
  const left = d.certificate - now;
  const when = date(d.certificate);
  if (left <= 0) return [el('span', { class: 'warn over' }, 'ended '), when];
  if (left < 30 * day) return [when, el('span', { class: 'warn' }, ` in ${span(left)}`)];
  return when;
}

// word writes what a board says of itself.
const word = (d, now) => [
  d.state === '' ? (d.enrolled ? 'not heard of' : 'not enrolled') : el('span', { class: `link ${d.state}` }, d.state),
  d.version === '' ? '–' : d.version, certificate(d, now)];

export function fleet(place) {
  const ask = { sort: 'device', way: 'up', q: '', offset: 0, limit: perPage };
  let timer = null;
  let wait = null;
  const search = el('input', { type: 'search', id: 'find', autocomplete: 'off', spellcheck: 'false',
    oninput: () => {
      ask.q = search.value;
      ask.offset = 0;
      clearTimeout(wait);
      wait = setTimeout(load, 150);
    } });
  const count = el('p', { class: 'note', role: 'status' });
  const body = el('div', {});
  const trouble = el('p', { class: 'note warn', role: 'status', hidden: true });
  const pager = el('nav', { class: 'pager', 'aria-label': 'Pages of devices' });
  fill(place, el('h1', {}, 'Devices'),
    el('p', { class: 'tools' }, el('label', { for: 'find' }, 'Find a device or a program '), search), count, trouble, body, pager,
    el('p', { class: 'note' }, 'Results, gaps and late ones are counted since the key holder was started. A gap is a time ' +
      'without results: no samples were taken, or windows or results were lost. Programs across all devices of a class ' +
      'are not counted here.'));

  const load = latest(() => get('fleet', ask), (got) => {
    if (got.total > 0 && ask.offset >= got.total) {
      ask.offset = 0;
      load();
      return;
    }
    show(got);
  }, (e) => { count.textContent = e.message; });

  function show(got) {
    count.textContent = got.total === 1 ? '1 device' : `${got.total} devices`;
    fill(trouble, got.trouble ?? '');
    trouble.hidden = !got.trouble;
    const shown = got.enrolled ? [columns[0], ...ofBoards, ...columns.slice(1)] : columns;
    const heads = shown.map(([key, text]) => (key === null ? el('th', { scope: 'col' }, text) :
      el('th', { scope: 'col', 'aria-sort': key === ask.sort ? (ask.way === 'up' ? 'ascending' : 'descending') : null },
        el('button', { type: 'button', 'data-sort': key, onclick: () => {
          ask.way = ask.sort === key && ask.way === 'up' ? 'down' : 'up';
          ask.sort = key;
          ask.offset = 0;
          load();
        } }, text, key === ask.sort ? el('span', { 'aria-hidden': 'true' }, ask.way === 'up' ? ' ▲' : ' ▼') : null))));
    refill(body, table('Devices', heads, got.rows.map((d) => keyed(d.device, row(
      d.device, ...(got.enrolled ? word(d, got.now) : []), d.programs.join(', ') || '–', d.last ? `${span(got.now - d.last)} ago` : '–',
      span(d.delay), String(d.results), String(d.gaps), d.missing > 0 ? span(d.missing) : '–', String(d.late),
      d.epoch ? String(d.epoch) : '–')))));
    const last = Math.max(0, Math.ceil(got.total / perPage) - 1);
    const page = Math.floor(ask.offset / perPage);
    const go = (to, text) => el('button', { type: 'button', disabled: to < 0 || to > last || to === page, onclick: () => {
      ask.offset = to * perPage;
      load();
    } }, text);
    refill(pager, go(0, 'first'), go(page - 1, 'previous'), el('span', {}, `page ${page + 1} of ${last + 1}`),
      go(page + 1, 'next'), go(last, 'last'));
  }

  const ready = load();
  const clock = setInterval(load, 5000);
  return {
    ready,
    hear(name) {
      if (name === 'results' && timer === null) {
        timer = setTimeout(() => {
          timer = null;
          load();
        }, 1000);
      }
    },
    leave() {
      clearInterval(clock);
      clearTimeout(timer);
      clearTimeout(wait);
    },
  };
}
