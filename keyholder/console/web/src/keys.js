// Keys and epochs, trusted evaluators, approved programs, passkeys. Nothing here is secret.
import { get, me } from './api.js';
import { el, fill, time, table, row } from './dom.js';
import { passkeyList } from './passkeys.js';

const code = (text) => el('code', {}, text);

export function keys(place) {
  const body = el('div', {});
  const list = passkeyList();
  fill(place, el('h1', {}, 'Keys'), body, me.role === 'holder' || me.addPasskey ? list.node : null);
  const load = async () => {
    try {
      show(await get('keys'));
    } catch (e) {
      fill(body, el('p', { class: 'error', role: 'alert' }, e.message));
    }
  };
  function show(k) {
    const refused = Object.entries(k.refused ?? {});
    fill(body,
      el('dl', { class: 'facts' },
        el('dt', {}, 'Fingerprint of the key holder'), el('dd', {}, code(k.fingerprint)),
        el('dt', {}, 'Parameters'), el('dd', {}, k.params),
        el('dt', {}, 'Made'), el('dd', {}, time(k.created)),
        el('dt', {}, 'Results since the start'),
        el('dd', {}, String(Object.values(k.read ?? {}).reduce((a, b) => a + b, 0))),
        el('dt', {}, 'Refused since the start'),
        el('dd', {}, refused.length ? refused.map(([why, n]) => `${n} ${why}`).join(', ') : 'none')),
      el('p', { class: 'note' }, 'The secret keys stay in the process of the key holder. This page cannot show them.'),
      el('h2', {}, 'Epochs'),
      table('Epochs', ['Epoch', 'Key', 'Made', 'Results accepted until'], k.epochs.map((e) => row(
        `${e.epoch}${e.current ? ', current' : ''}`, code(e.key_id), time(e.created),
        e.accept_until ? time(e.accept_until) : 'no end'))),
      el('h2', {}, 'Approved programs'),
      table('Approved programs', ['Program', 'Evaluator', 'Expression', 'Class', 'Approved', 'Hash'], k.programs.map((p) => row(
        p.program, p.evaluator, code(p.expr), p.class ?? '–', time(p.approved), code(p.hash)))),
      el('h2', {}, 'Trusted evaluators'),
      table('Trusted evaluators', ['Name', 'Public key'], k.evaluators.map((e) => row(e.name, code(e.public_key)))));
  }
  return { ready: load(), hear: (name) => { if (name === 'hello') load(); }, leave() {} };
}
