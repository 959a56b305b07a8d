// Alarms: those that fire first. A holder acknowledges and silences them.
import { get, post, me, latest } from './api.js';
import { el, fill, refill, time, table, row, keyed, announce, clearing, failing } from './dom.js';

const words = { firing: 'fires', pending: 'pending', undecided: 'undecided', ok: 'ok' };

export function alarms(place, changed) {
  const body = el('div', {});
  const message = el('p', { class: 'error', role: 'alert' });
  fill(place, el('h1', {}, 'Alarms'), message, body);

  const load = latest(() => get('alarms'), clearing(message, show), failing(message));

  async function act(path, what, said) {
    try {
      await post(path, what);
      announce(said);
      message.textContent = '';
      await load();
      changed();
    } catch (e) {
      message.textContent = e.message;
      delete message.dataset.load;
    }
  }

  function deeds(a) {
    if (me.role !== 'holder') return '';
    const name = a.device ? `${a.alert} of ${a.device}` : a.alert;
    const minutes = el('select', { 'aria-label': `Silence ${name} for` }, [['1 hour', 60], ['8 hours', 480], ['1 day', 1440],
      ['7 days', 10080]].map(([text, n]) => el('option', { value: n }, text)));
    return el('span', { class: 'deeds' },
      a.state === 'firing' && !a.seen ? el('button', { type: 'button', 'aria-label': `Acknowledge ${name}`,
        onclick: () => act('alarms/seen', { incident: a.incident, comment: '' }, `${name} acknowledged`) },
      'acknowledge') : null,
      el('button', { type: 'button', 'aria-label': `Silence ${name}`, onclick: (e) => act('silences',
        { rule: a.alert, device: a.device ?? '', comment: 'from the page',
          minutes: Number(e.currentTarget.parentNode.querySelector('select').value) }, `${name} silenced`) },
      'silence'), minutes);
  }

  function silence(s) {
    const of = `${s.rule || 'all alarms'}${s.device ? ` of ${s.device}` : ''}`;
    return keyed(`${of} ${s.from}`, row(s.rule || 'all', s.device || 'all', time(s.from), time(s.to), s.comment ?? '',
      me.role !== 'holder' ? '' : el('button', { type: 'button', 'aria-label': `End the silence of ${of}`,
        onclick: () => act('silences/end', { rule: s.rule ?? '', device: s.device ?? '' }, 'silence ended') }, 'end')));
  }

  function show(got) {
    if (!got.on) {
      refill(body, el('p', { class: 'note' }, 'The configuration of the key holder has no "alerts".'));
      return;
    }
    const rows = got.alarms.map((a) => {
      const state = el('span', { class: `state ${a.state}` }, words[a.state] ?? a.state);
      const of = a.followed > 0 ? `${(a.devices ?? []).length} of ${a.followed} devices` : (a.device ?? '–');
      return keyed(`${a.alert} ${a.device ?? ''}`, row(
        el('span', {}, a.alert, ' ', el('span', { class: 'soft' }, a.severity)), state,
        `${a.program}: ${a.rule || 'no result for a time'}`, of, a.raised ? time(a.raised) : '–',
        a.newest ? time(a.newest) : '–', a.seen ? el('span', {}, 'seen ', time(a.seen)) : '–',
        a.silenced_until ? time(a.silenced_until) : '–', deeds(a)));
    });
    const waiting = Object.entries(got.waiting ?? {}).filter(([, n]) => n > 0);
    refill(body, table('Alarms', ['Alarm', 'State', 'Rule', 'Device', 'Raised', 'Newest window', 'Acknowledged',
      'Silenced until', 'What to do'], rows),
    waiting.length ? el('p', { class: 'note' }, 'Not delivered yet: ',
      waiting.map(([name, n]) => `${n} to ${name}`).join(', ')) : null,
    el('h2', {}, 'Silences'), got.silences.length === 0 ? el('p', { class: 'note' }, 'There are none.') :
      table('Silences', ['Alarm', 'Device', 'From', 'To', 'Comment', 'What to do'], got.silences.map(silence)),
    me.role === 'holder' ? null : el('p', { class: 'note' }, 'A viewer sees alarms. A holder can also silence them.'));
  }

  return { ready: load(), hear: (name) => { if (name === 'alarms' || name === 'hello') load(); }, leave() {} };
}

// firing returns how many alarms fire that nobody has seen.
export async function firing() {
  const { alarms: all } = await get('alarms');
  return all.filter((a) => a.state === 'firing' && !a.seen).length;
}
