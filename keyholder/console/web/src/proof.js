// The proof of one result: what leads from its value back to the devices.
import { get, me } from './api.js';
import { el, fill, number, error, at, withUnit } from './dom.js';

const titles = {
  object: ['The sealed result is unaltered', 'Its SHA-256 is the one that was stored with the value.'],
  signature: ['The evaluator signed it', 'Header and body carry its signature, under a public key that you trust.'],
  key: ['It is under your key', 'Key, epoch and parameters belong to your key set.'],
  program: ['It is a program that you approved', 'The hash in the header is that of the approved program, which was ' +
    'compiled again here. Level, scale and promised error are what it gives.'],
  windows: ['These windows went into it', 'The evaluator signed the ids of the windows. An id is the SHA-256 of a window ' +
    'that the device has sealed and signed.'],
  value: ['It decrypts to this value', 'It was decrypted again just now, with your secret key.'],
  receipt: ['You gave a receipt for it', 'Your key holder signed then that it has taken this result. The evaluator got the ' +
    'same receipt, and keeps the result no longer.'],
  database: ['The database has the same value', 'What charts and lists show is what the sealed result holds.'],
};

export function proof(place, query) {
  const body = el('div', {});
  fill(place, el('h1', {}, 'Proof of a result'), body);
  const load = async () => {
    try {
      show(await get('proof', query));
    } catch (e) {
      fill(body, el('p', { class: 'error', role: 'alert' }, e.message));
    }
  };
  function show(p) {
    const r = p.result;
    const name = r.device ? `${r.program} of ${r.device}` : r.program;
    const head = el('p', { class: 'now' }, el('span', { class: 'value' }, withUnit(number(r.value, 12), r.unit)), ' ',
      el('span', { class: 'bound' }, `± ${error(r.bound)}`));
    const about = el('p', {}, `${name}, window from ${at(r.start)} to ${at(r.end)}, computed by ${r.evaluator}.`);
    if (!p.kept) {
      fill(body, about, head, el('p', { class: 'note' }, 'The sealed result is not kept any more, so nothing can be checked. ' +
        '"keep_sealed" in the configuration says how much is kept.'));
      return;
    }
    const verdict = el('p', { class: p.ok ? 'verdict good' : 'verdict bad', role: 'status' },
      p.ok ? 'Every step was checked just now, and is right.' : 'A step is wrong. Do not rely on this value.');
    const file = `api/proof/file?${new URLSearchParams(query)}`;
    fill(body, about, head, verdict, el('ol', { class: 'steps' }, p.steps.map((s) => {
      const [title, text] = titles[s.name] ?? [s.name, ''];
      const state = s.ok ? 'right' : s.error ? 'wrong' : 'not checked';
      return el('li', { class: s.ok ? 'good' : s.error ? 'bad' : 'open', 'data-step': s.name },
        el('h2', {}, el('span', { class: 'mark', 'aria-hidden': 'true' }, s.ok ? '✓' : s.error ? '✗' : '·'), ' ', title,
          el('span', { class: 'hidden-text' }, `, ${state}`)),
        el('p', {}, text), s.error ? el('p', { class: 'error' }, s.error) : null,
        el('dl', { class: 'facts' }, s.facts.map(([k, v]) => [el('dt', {}, k), el('dd', {}, el('code', {}, v))])));
    })), p.steps.some((s) => s.name === 'receipt') ? null : el('p', { class: 'note' }, 'No receipt is kept for this result. ' +
      'With "receipts: true" in the configuration the key holder gives one for each, and keeps it here.'),
    me.role === 'holder' ? el('p', {}, el('a', { class: 'button', href: file, download: true }, 'Take the sealed result'),
      ' Check it anywhere: ', el('code', {}, 'hencedge results verify -c keyholder.yaml FILE')) : null);
  }
  return { ready: load(), hear() {}, leave() {} };
}
