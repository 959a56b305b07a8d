package console

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Handler returns what the page's server answers.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	for path := range c.files {
		mux.HandleFunc("GET "+path, c.asset)
	}
	mux.HandleFunc("POST /api/login", c.login)
	mux.HandleFunc("GET /api/login", c.loginWays)
	mux.HandleFunc("POST /api/login/passkey/begin", c.passkeyQuestion)
	mux.HandleFunc("POST /api/login/passkey", c.passkeyLogin)
	mux.HandleFunc("GET /api/session", c.member(c.session, Viewer, Holder))
	mux.HandleFunc("POST /api/logout", c.member(c.logout, Viewer, Holder))
	for path, h := range map[string]http.HandlerFunc{
		"programs": c.programs, "devices": c.devices, "series": c.series, "results": c.results, "fleet": c.fleetTable,
		"alarms": c.alarmList, "keys": c.keys, "proof": c.proof, "boards": c.boards, "live": c.stream,
	} {
		mux.HandleFunc("GET /api/"+path, c.member(h, Viewer, Holder))
	}
	if c.o.Show != nil {
		mux.HandleFunc("GET /api/demo", c.member(c.demo, Viewer, Holder))
	}
	mux.HandleFunc("GET /api/proof/file", c.member(c.proofFile, Holder))
	mux.HandleFunc("POST /api/alarms/seen", c.member(c.seen, Holder))
	mux.HandleFunc("POST /api/silences", c.member(c.silence, Holder))
	mux.HandleFunc("POST /api/silences/end", c.member(c.unsilence, Holder))
	mux.HandleFunc("GET /api/passkeys", c.member(c.passkeyList, Holder))
	mux.HandleFunc("POST /api/passkeys/begin", c.member(c.passkeyBegin, Viewer, Holder))
	mux.HandleFunc("POST /api/passkeys/finish", c.member(c.passkeyFinish, Viewer, Holder))
	mux.HandleFunc("POST /api/passkeys/revoke", c.member(c.passkeyRevoke, Holder))
	mux.HandleFunc("POST /api/boards/approve", c.member(c.answerBoard("approved", Desk.Approve), Holder))
	mux.HandleFunc("POST /api/boards/refuse", c.member(c.answerBoard("refused", Desk.Refuse), Holder))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "there is nothing here")
	})
	return c.guard(mux)
}

// login starts a session with the secret of a link.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if !c.mayTry(w, r) {
		return
	}
	var ask struct {
		Secret string `json:"secret"`
	}
	if !read(w, r, &ask) {
		return
	}
	l, err := redeem(c.o.Holder.State+loginsSuffix, ask.Secret, c.now())
	if err != nil {
		c.log.Warn("console: login refused", "from", r.RemoteAddr, "error", err)
		if !errors.Is(err, ErrLink) {
			refuse(w, http.StatusInternalServerError, "the link could not be checked; the log says why")
			return
		}
		refuse(w, http.StatusForbidden, err.Error()+"; make a new one with \"hencedge console open\"")
		return
	}
	c.log.Info("console: login", "from", r.RemoteAddr, "role", l.Role)
	c.letIn(w, r, session{role: l.Role, add: l.Passkey && c.passkeys.relying != nil})
}

// mayTry limits attempts to log in. It answers by itself if there were too many.
func (c *Console) mayTry(w http.ResponseWriter, r *http.Request) bool {
	if c.limits.allow("login "+client(r), c.now(), loginRate, loginBurst) {
		return true
	}
	w.Header().Set("Retry-After", "6")
	refuse(w, http.StatusTooManyRequests, "too many attempts; wait a minute")
	return false
}

// letIn starts a session like one in the place of that of the browser, if it has one, and answers
// what the page needs to know of it.
func (c *Console) letIn(w http.ResponseWriter, r *http.Request, like session) {
	if old, err := r.Cookie(c.name); err == nil {
		c.sessions.end(old.Value)
	}
	life := time.Duration(c.o.Holder.Console.Session)
	cookie, s := c.sessions.open(like, c.now(), life)
	http.SetCookie(w, &http.Cookie{Name: c.name, Value: cookie, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true,
		Secure: c.cert != nil, SameSite: http.SameSiteStrictMode})
	c.sayWho(w, s)
}

func (c *Console) session(w http.ResponseWriter, r *http.Request) { c.sayWho(w, current(r)) }

// sayWho answers what the page needs to know of its session.
func (c *Console) sayWho(w http.ResponseWriter, s *session) {
	answer(w, map[string]any{"role": s.role, "token": s.csrf, "expires": s.expires, "holder": c.o.Holder.Name,
		"demo": c.o.Show != nil, "now": c.now(), "add_passkey": c.sessions.mayAdd(s, false)})
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(c.name); err == nil {
		c.sessions.end(cookie.Value)
	}
	http.SetCookie(w, &http.Cookie{Name: c.name, Path: "/", MaxAge: -1, HttpOnly: true, Secure: c.cert != nil,
		SameSite: http.SameSiteStrictMode})
	answer(w, struct{}{})
}

// answer sends v as JSON.
func answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the answer cannot be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

// fail answers that the server could not do what it should, and logs why.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody listens
	}
	c.log.Error("console: no answer", "path", r.URL.Path, "error", err)
	refuse(w, http.StatusInternalServerError, "this cannot be shown now; the log of the key holder says why")
}

// number reads an integer from a query, within bounds; other if it is not there.
func number(q url.Values, key string, least, most, other int64) (int64, bool) {
	text := q.Get(key)
	if text == "" {
		return other, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= least && n <= most
}
