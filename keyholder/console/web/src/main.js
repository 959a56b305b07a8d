// The page: who is logged in, which view is shown, and updates for it.
import 'uplot/dist/uPlot.min.css';
import './style.css';
import { me, resume, login, loginByPasskey, passkeys, logout, follow, latest } from './api.js';
import { el, fill, announce } from './dom.js';
import { results } from './results.js';
import { fleet } from './fleet.js';
import { alarms, firing } from './alarms.js';
import { boards, waiting } from './boards.js';
import { keys } from './keys.js';
import { proof } from './proof.js';
import { demo } from './demo.js';

const usual = { '': ['Results', results], fleet: ['Devices', fleet], alarms: ['Alarms', alarms],
  boards: ['New boards', boards], keys: ['Keys', keys], proof: [null, proof] };
let views = usual;
const bar = document.getElementById('bar');
const main = document.getElementById('main');
const badge = el('span', { class: 'badge', hidden: true });
const asking = el('span', { class: 'badge', hidden: true });
const badges = { alarms: badge, boards: asking };
const live = el('span', { class: 'live', role: 'status' }, 'connecting');
let view = null;
let stop = null;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  return [views[path] ? path : '', Object.fromEntries(new URLSearchParams(query ?? ''))];
}

function show() {
  if (!me.role) return;
  const before = view;
  view?.leave();
  const [path, query] = route();
  for (const a of bar.querySelectorAll('nav a')) {
    if (a.dataset.path === path) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  document.title = `${views[path][0] ?? 'Proof'} – ${me.holder} – hencedge`;
  view = path === 'proof' ? proof(main, query) : views[path][1](main, path === 'boards' ? ask : count);
  if (before && document.activeElement === document.body) main.focus(); // what had it is gone
  const mine = view;
  view.ready?.catch((e) => {
    if (view !== mine) return;
    fill(main, el('p', { class: 'error', role: 'alert' }, e.message));
    setTimeout(() => { if (view === mine) show(); }, 2000);
  });
}

// order is that of the views in the bar.
function order() {
  const named = Object.entries(views).filter(([, [name]]) => name);
  return me.demo ? [...named.slice(0, 1), ...named.slice(-1), ...named.slice(1, -1)] : named;
}

// mark writes a number beside a view of the bar. It reports whether the number is larger than before.
function mark(on, n, label) {
  const more = n > Number(on.textContent);
  on.textContent = n || '';
  on.hidden = n === 0;
  on.setAttribute('aria-label', label);
  return more;
}

// counting returns what counts anew and shows the number. After a failure the old one stays, and it tries again.
function counting(load, show) {
  let again = null;
  const count = latest(load, show, () => {
    clearTimeout(again);
    again = setTimeout(() => { if (me.role) count(); }, 2000);
  });
  return count;
}

// count shows how many alarms nobody has seen, and ask how many boards nobody has answered.
const count = counting(firing, (n) => {
  if (mark(badge, n, `${n} not acknowledged`)) announce(n === 1 ? 'An alarm fires.' : `${n} alarms fire.`);
});
const ask = counting(waiting, (n) => {
  if (mark(asking, n, `${n} not answered`)) announce(n === 1 ? 'A board asks to join.' : `${n} boards ask to join.`);
});

function theme(to) {
  if (to) localStorage.setItem('theme', to);
  const wanted = localStorage.getItem('theme');
  if (wanted) document.documentElement.dataset.theme = wanted;
  view?.theme?.();
}

const isDark = () => (document.documentElement.dataset.theme ??
  (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';

function start() {
  views = me.demo ? { ...usual, '': ['Demo', demo], results: ['Results', results] } : usual;
  const trouble = el('span', { class: 'error', role: 'alert' });
  fill(bar, el('a', { class: 'brand', href: '#/' }, el('img', { src: 'icon.svg', alt: '', width: '24', height: '24' }), me.holder),
    el('nav', { 'aria-label': 'Views' }, order().map(([path, [name]]) =>
      el('a', { href: `#/${path}`, 'data-path': path }, name, badges[path]))),
    el('span', { class: 'who' }, live, el('span', { class: 'role' }, me.role),
      el('button', { type: 'button', onclick: () => theme(isDark() ? 'light' : 'dark') }, 'dark or light'),
      el('button', { type: 'button', id: 'logout', onclick: () => logout().then(() => ended('You are logged out.'),
        (e) => { if (me.role) trouble.textContent = `You are still logged in. ${e.message}`; }) }, 'log out'), trouble));
  stop?.();
  stop = follow((name, data) => {
    if (name === 'ended') {
      ended('The session has ended.');
      return;
    }
    if (name === 'alarms' || name === 'hello') count();
    if (name === 'boards' || name === 'hello') ask();
    view?.hear(name, data);
  }, (on) => {
    live.textContent = on ? 'live' : 'no connection';
    live.classList.toggle('on', on);
  });
  show();
}

// ended shows how to log in.
function ended(why) {
  me.role = null;
  stop?.();
  stop = null;
  view?.leave();
  view = null;
  document.title = 'Log in – hencedge';
  fill(bar, el('span', { class: 'brand' }, el('img', { src: 'icon.svg', alt: '', width: '24', height: '24' }), 'hencedge'));
  const box = el('input', { id: 'link', autocomplete: 'off', spellcheck: 'false', required: true });
  const message = el('p', { class: 'error', role: 'alert' }, why ?? '');
  const other = el('p', {});
  fill(main, el('div', { class: 'login' }, el('h1', {}, 'Log in'), message,
    el('p', {}, 'On the machine of the key holder, run'), el('pre', {}, el('code', {}, 'hencedge console open -c keyholder.yaml')),
    el('p', {}, 'and open the link that it prints. It works once, within ten minutes.'),
    el('form', { onsubmit: (e) => {
      e.preventDefault();
      enter(() => login(box.value.split('#login=').pop().trim()));
    } }, el('label', { for: 'link' }, 'Or paste the link here'), box, el('button', { type: 'submit' }, 'log in')), other));
  passkeys().then((on) => on && fill(other, el('button', { type: 'button', id: 'passkey', onclick: () => enter(loginByPasskey) },
    'log in with a passkey')), () => {});
}

async function enter(how) {
  try {
    await how();
    history.replaceState(null, '', location.pathname);
    start();
  } catch (e) {
    ended(e.message);
  }
}

async function begin() {
  theme();
  const [, secret] = location.hash.split('#login=');
  if (secret) {
    history.replaceState(null, '', location.pathname); // the link must not stay in the history
    await enter(() => login(secret));
    return;
  }
  try {
    await resume();
    start();
  } catch (e) {
    ended(e.status === 401 ? '' : e.message);
  }
}

window.addEventListener('hashchange', () => {
  if (location.hash.startsWith('#login=')) begin();
  else if (location.hash !== '#main') show();
});
window.addEventListener('ended', () => ended('The session has ended.'));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => view?.theme?.());
begin();
