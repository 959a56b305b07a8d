// Boards that ask to join. A holder compares fingerprints and answers, if the operator's key is here.
import { get, post, me, now, latest } from './api.js';
import { el, fill, refill, span, time, table, row, keyed, announce, clearing, failing } from './dom.js';

const words = { asks: 'asks', 'asks again': 'was interrupted, and asks again', open: 'waits for a board',
  approved: 'approved, not fetched yet', joined: 'joined', expired: 'expired', revoked: 'revoked', 'too late': 'too late' };
const asking = (b) => b.state === 'asks' || b.state === 'asks again';
const ago = (when) => el('span', {}, `${span(now() - Date.parse(when))} ago`);

export function boards(place, changed) {
  const body = el('div', {});
  const message = el('p', { class: 'error', role: 'alert' });
  const question = el('div', {});
  fill(place, el('h1', {}, 'New boards'), message, question, body);

  const load = latest(() => get('boards'), clearing(message, show), failing(message));

  async function act(deed, b, more, said) {
    try {
      message.textContent = '';
      await post(`boards/${deed}`, { invitation: b.invitation, device: b.device, fingerprint: b.fingerprint, ...more });
      fill(question);
      announce(said);
      await load();
      changed();
    } catch (e) {
      message.textContent = e.message;
      delete message.dataset.load;
    }
  }

  // ask asks for the comparison that nobody else can make.
  function ask(b) {
    const same = el('input', { type: 'checkbox', id: 'same', required: true });
    const user = el('input', { id: 'user', autocomplete: 'off', spellcheck: 'false', placeholder: b.device });
    const password = el('input', { id: 'password', type: 'password', autocomplete: 'new-password' });
    fill(question, el('form', { class: 'ask', 'aria-labelledby': 'ask', onsubmit: (e) => {
      e.preventDefault();
      act('approve', b, { username: user.value.trim(), password: password.value }, `${b.device} is enrolled`);
    } }, el('h2', { id: 'ask' }, `Let ${b.device} into the class ${b.class}?`),
    b.rivals > 0 ? el('p', { class: 'error' }, `${b.rivals + 1} boards ask with this token: it may have been stolen.`) : null,
    el('p', {}, 'The board shows a fingerprint. It must be'), el('p', { class: 'print' }, el('code', {}, b.fingerprint)),
    el('p', {}, same, ' ', el('label', { for: 'same' }, 'The board shows exactly this fingerprint')),
    el('p', {}, el('label', { for: 'user' }, 'Its user name at the broker'), ' ', user, ' ',
      el('label', { for: 'password' }, 'and password'), ' ', password, ' ',
      el('span', { class: 'soft' }, 'if the broker asks for one; make the user there first')),
    el('p', {}, el('button', { type: 'submit' }, 'let it in'), ' ',
      el('button', { type: 'button', onclick: () => fill(question) }, 'not now'))));
    same.focus();
  }

  function deeds(b, got) {
    if (!b.waits) return '';
    if (!got.answers) return el('code', {}, `${got.approve} ${b.fingerprint}`);
    if (me.role !== 'holder') return '';
    return el('span', { class: 'deeds' },
      el('button', { type: 'button', 'aria-label': `let in ${b.device}`, onclick: () => ask(b) }, 'let in'),
      b.state === 'asks' ? el('button', { type: 'button', 'aria-label': `refuse ${b.device}`,
        onclick: () => act('refuse', b, { reason: '' }, `${b.device} was refused`) }, 'refuse') : null);
  }

  function show(got) {
    if (!got.on) {
      refill(body, el('p', { class: 'note' }, 'Boards ask the operator, whose files this page does not know. The ' +
        'operator sees and answers them with'), el('pre', {}, el('code', {}, 'hencedge enroll list -c evaluator.yaml')),
      el('p', { class: 'note' }, 'With "enrolment" in the "console" of the configuration they are shown here.'));
      return;
    }
    const state = (b) => el('span', { class: `state ${asking(b) ? 'pending' : b.state}` }, words[b.state] ?? b.state);
    refill(body, got.trouble ? el('p', { class: 'error', role: 'alert' }, got.trouble) : null,
      got.list.length === 0 ? el('p', { class: 'note' }, 'There are no invitations. "hencedge invite" makes one.') :
        table('Boards that ask', ['Board', 'State', 'Class', 'Fingerprint', 'Asked', 'From', 'Invitation', 'Expires',
          'What to do'], got.list.map((b) => keyed(`${b.invitation} ${b.device ?? ''} ${b.fingerprint ?? ''}`, row(
          b.device || '–', el('span', {}, state(b), b.rivals > 0 && b.waits ?
            el('span', { class: 'error' }, ` ${b.rivals + 1} boards ask with this token`) : null), b.class,
          b.fingerprint ? el('code', {}, b.fingerprint) : '–', b.asked ? ago(b.asked) : '–', b.host || '–',
          el('code', {}, b.invitation), time(b.expires), deeds(b, got))))),
      got.answers ? null : el('p', { class: 'note' }, 'The operator\'s key is not here. Run the command where it is; ',
        el('code', {}, got.refuse), ' refuses a board.'),
      me.role === 'holder' ? null : el('p', { class: 'note' }, 'A viewer sees requests. A holder can also answer them.'));
  }

  return { ready: load(), hear: (name) => { if (name === 'boards' || name === 'hello') load(); }, leave() {} };
}

// waiting returns how many boards wait for an answer.
export async function waiting() {
  const { list } = await get('boards');
  return list.filter(asking).length;
}
