// The passkeys that log in here. A session of "console open --passkey" adds one, a holder revokes them.
import { get, post, me, addPasskey } from './api.js';
import { el, fill, time, table, row, announce } from './dom.js';

export function passkeyList() {
  const message = el('p', { class: 'error', role: 'alert' });
  const body = el('div', {});
  const node = el('section', { class: 'passkeys' }, el('h2', {}, 'Passkeys'), message, body);

  async function act(do_, said) {
    try {
      message.textContent = '';
      await do_();
      announce(said);
    } catch (e) {
      message.textContent = e.status === undefined ? `The browser made no passkey: ${e.message}` : e.message;
    }
    await load();
  }

  function form() {
    if (!me.addPasskey) return null;
    const name = el('input', { id: 'passkey-name', maxlength: '64', autocomplete: 'off', required: true });
    return el('form', { class: 'tools', onsubmit: (e) => {
      e.preventDefault();
      act(() => addPasskey(name.value.trim()), 'The passkey is added.');
    } }, el('label', { for: 'passkey-name' }, `A name for a passkey as ${me.role} `), name, ' ',
    el('button', { type: 'submit' }, 'add a passkey'));
  }

  async function load() {
    const holder = me.role === 'holder';
    let list = [];
    try {
      if (holder) list = (await get('passkeys')).passkeys;
    } catch (e) {
      message.textContent = e.message;
    }
    fill(body, !holder ? null : list.length === 0 ? el('p', { class: 'note' }, 'There are none.') :
      table('Passkeys', ['Name', 'Role', 'Made', 'Last login', 'For', 'What to do'], list.map((p) => row(p.name, p.role,
        time(p.made), p.used ? time(p.used) : '–', p.for, el('button', { type: 'button', 'aria-label': `revoke ${p.name}`,
          onclick: () => act(() => post('passkeys/revoke', { id: p.id }), `${p.name} is revoked`) }, 'revoke')))),
    form(), me.addPasskey || !holder ? null : el('p', { class: 'note' }, 'A link of ',
      el('code', {}, 'hencedge console open --passkey'), ' lets its session add one.'));
  }

  load();
  return { node };
}
