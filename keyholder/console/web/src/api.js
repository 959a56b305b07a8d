// Requests to the key holder, which is the only server that this page knows.

export const me = { role: null, token: null, holder: '', demo: false, skew: 0 };

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const answerWithin = 30000; // milliseconds

async function ask(path, options) {
  let answer;
  try {
    // With a cache, Chromium would hold a question back until the same one before it has its answer.
    const signal = AbortSignal.timeout(answerWithin);
    answer = await fetch(path, { credentials: 'same-origin', cache: 'no-store', signal, ...options });
  } catch {
    throw new Refused(0, 'The key holder does not answer. Does "hencedge results serve" run?');
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401 && me.role) {
    me.role = null;
    window.dispatchEvent(new Event('ended'));
  }
  if (!answer.ok) {
    const why = body.error ?? `the key holder answers ${answer.status}`;
    throw new Refused(answer.status, `${why[0].toUpperCase()}${why.slice(1)}.`);
  }
  return body;
}

export const get = (path, query) => ask(`api/${path}${query ? `?${new URLSearchParams(query)}` : ''}`);

export const post = (path, body) => ask(`api/${path}`, {
  method: 'POST', body: JSON.stringify(body ?? {}),
  headers: { 'Content-Type': 'application/json', 'X-Hencedge-Token': me.token ?? '' },
});

// latest returns a function that loads something and shows it. Answers may overtake each other: none is shown after
// that to a newer question.
export function latest(load, show, failed) {
  let asked = 0;
  let shown = 0;
  return async () => {
    const mine = (asked += 1);
    try {
      const got = await load();
      if (mine < shown) return;
      shown = mine;
      show(got);
    } catch (e) {
      if (mine === asked) failed(e);
    }
  };
}

function meet(s) {
  Object.assign(me, { role: s.role, token: s.token, addPasskey: s.add_passkey, holder: s.holder, demo: s.demo, skew: Date.parse(s.now) - Date.now() });
}

export async function resume() { meet(await get('session')); }

export async function login(secret) { meet(await post('login', { secret })); }

// Passkeys. The browser's calls take and give bytes, where the key holder writes base64url.
const bytes = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(Array.from(new Uint8Array(buffer), (c) => String.fromCharCode(c)).join(''))
  .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

const written = (c, names) => ({
  id: c.id, rawId: text(c.rawId), type: c.type, clientExtensionResults: c.getClientExtensionResults(),
  response: Object.fromEntries(names.filter((n) => c.response[n]).map((n) => [n, text(c.response[n])])),
});

// passkeys reports whether a passkey could log in here.
export const passkeys = async () => Boolean(window.PublicKeyCredential) && (await get('login')).passkeys;

export async function loginByPasskey() {
  const { publicKey: ask } = await post('login/passkey/begin');
  const signed = await navigator.credentials.get({ publicKey: { ...ask, challenge: bytes(ask.challenge) } });
  meet(await post('login/passkey', written(signed, ['clientDataJSON', 'authenticatorData', 'signature', 'userHandle'])));
}

export async function addPasskey(name) {
  const { publicKey: ask } = await post('passkeys/begin', { name });
  const made = await navigator.credentials.create({ publicKey: { ...ask, challenge: bytes(ask.challenge),
    user: { ...ask.user, id: bytes(ask.user.id) } } });
  await post('passkeys/finish', written(made, ['clientDataJSON', 'attestationObject']));
  me.addPasskey = false;
}

export async function logout() {
  await post('logout');
  me.role = null;
}

// now is the key holder's clock, which ages are counted by.
export const now = () => Date.now() + me.skew;

// follow listens to updates until stop is called. hear gets the name and the data of each.
export function follow(hear, state) {
  let source = null;
  let again = null;
  let rest = null;
  let deaf = null;
  let wait = 500;
  let stopped = false;
  const close = () => {
    clearTimeout(again);
    clearTimeout(deaf);
    source?.close();
    source = null;
  };
  const lost = () => {
    close();
    state(false);
    again = setTimeout(reopen, wait);
    wait = Math.min(wait * 2, 15000);
  };
  const open = () => {
    close();
    let quiet = 15000; // after which the key holder gives a sign of life
    deaf = setTimeout(lost, 3 * quiet); // a connection may break without a sound
    source = new EventSource('api/live');
    for (const name of ['hello', 'results', 'alarms', 'boards', 'demo', 'alive', 'ended']) {
      source.addEventListener(name, (e) => {
        wait = 500;
        const data = JSON.parse(e.data);
        if (name === 'hello') {
          quiet = data.quiet;
          state(true);
        }
        clearTimeout(deaf);
        deaf = setTimeout(lost, 3 * quiet);
        hear(name, data);
      });
    }
    source.onerror = lost;
    looked();
  };
  // A session that ended is found out by a request, since an EventSource has no status.
  const reopen = () => get('session').then(() => stopped || open(), (e) => stopped || e.status === 401 || open());
  // A browser has six connections to a host, for all its tabs, and a stream keeps one. A tab that nobody sees gives its
  // stream back, and asks for what it missed when somebody looks at it again.
  const looked = () => {
    clearTimeout(rest);
    if (document.hidden) rest = setTimeout(close, restAfter);
    else if (!source) {
      clearTimeout(again);
      reopen();
    }
  };
  document.addEventListener('visibilitychange', looked);
  open();
  return () => {
    stopped = true;
    document.removeEventListener('visibilitychange', looked);
    clearTimeout(rest);
    close();
  };
}

const restAfter = 5000; // milliseconds
