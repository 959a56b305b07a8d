package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
)

const passkeysSuffix = ".passkeys"

// Bounds of passkeys.
const (
	maxPasskeys    = 64
	maxPasskey     = 64 << 10 // bytes of a file
	maxPasskeyName = 64
	maxCeremonies  = 256
	ceremonyLife   = 5 * time.Minute
)

// ErrPasskey: there is no such passkey.
var ErrPasskey = errors.New("there is no such passkey")

// Passkey is one that logs in to the page.
type Passkey struct {
	ID   string    `json:"id"` // 32 hexadecimal digits
	Name string    `json:"name"`
	Role Role      `json:"role"`
	For  string    `json:"for"` // the host that browsers use it for
	Made time.Time `json:"made"`
	Used time.Time `json:"used,omitzero"` // the last login
}

// passkey is the file of a Passkey. Nothing in it logs in: it has the public key. Its time of change
// is that of the last login, and the signature counter has a file of its own, so that a login writes
// nothing that brings back what is being revoked.
type passkey struct {
	Name       string              `json:"name"`
	Role       Role                `json:"role"`
	For        string              `json:"for"`
	Made       time.Time           `json:"made"`
	Handle     []byte              `json:"handle"`
	Credential webauthn.Credential `json:"credential"`
}

// What webauthn.User wants. Each passkey is a user of its own.
func (p *passkey) WebAuthnID() []byte          { return p.Handle }
func (p *passkey) WebAuthnName() string        { return p.Name }
func (p *passkey) WebAuthnDisplayName() string { return p.Name }
func (p *passkey) WebAuthnCredentials() []webauthn.Credential {
	return []webauthn.Credential{p.Credential}
}

// passkeys are those of a page, a file each, and the ceremonies that are under way.
type passkeys struct {
	dir     string
	relying *webauthn.WebAuthn // nil: there can be none
	why     string             // there can be none

	logins sync.Mutex // held while a login is checked, so that of two with one counter one passes

	mu   sync.Mutex
	asks map[string]ceremony // by challenge
}

// ceremony is a question to a browser that has not been answered.
type ceremony struct {
	data    *webauthn.SessionData
	user    *passkey // that is made; nil at a login
	by      *session // that makes it; nil at a login
	asker   [32]byte // at a login: SHA-256 of the cookie of the browser that is asked
	expires time.Time
}

// relyingParty returns the host and the origin that passkeys of a page are for. Browsers want a name.
func relyingParty(base, port string) (host, origin string, err error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", "", err
	}
	host = u.Hostname()
	if net.ParseIP(host) != nil || strings.Contains(host, "*") {
		return "", "", fmt.Errorf("passkeys need a page with a name, and this one is at %s: listen on localhost:%s, "+
			"or give the page a certificate for a name", host, port)
	}
	origin = u.Scheme + "://" + host
	if u.Scheme != "https" || port != "443" {
		origin += ":" + port
	}
	return host, origin, nil
}

// newPasskeys returns those of a page that is served at a port.
func newPasskeys(k *config.KeyHolder, port string) (*passkeys, error) {
	p := &passkeys{dir: k.State + passkeysSuffix, asks: map[string]ceremony{}}
	base, err := pageURL(k.Console)
	if err != nil {
		return p, err
	}
	host, origin, err := relyingParty(base, port)
	if err != nil {
		p.why = err.Error()
		return p, nil
	}
	p.relying, err = webauthn.New(&webauthn.Config{RPID: host, RPDisplayName: "hencedge " + k.Name,
		RPOrigins: []string{origin}, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{ResidentKey: protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired}})
	return p, err
}

func (p *passkeys) path(id string) string { return filepath.Join(p.dir, id+".json") }

func (p *passkeys) countPath(id string) string { return filepath.Join(p.dir, id+".count") }

// count returns the largest signature counter of a passkey's logins.
func (p *passkeys) count(id string) (uint32, error) {
	b, err := durable.ReadFile(p.countPath(id), 16)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // many passkeys do not count
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	return uint32(n), err
}

// idOf names the file of a credential.
func idOf(credential []byte) string {
	sum := sha256.Sum256(credential)
	return hex.EncodeToString(sum[:16])
}

// read returns a passkey; it fails with ErrPasskey.
func (p *passkeys) read(id string) (*passkey, error) {
	b, err := durable.ReadFile(p.path(id), maxPasskey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrPasskey
	}
	k := new(passkey)
	if err == nil {
		err = json.Unmarshal(b, k)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.path(id), err)
	}
	if idOf(k.Credential.ID) != id || k.Role != Viewer && k.Role != Holder {
		return nil, fmt.Errorf("%s holds another passkey", p.path(id))
	}
	return k, nil
}

// there reports whether a passkey has not been revoked.
func (p *passkeys) there(id string) bool {
	_, err := os.Stat(p.path(id))
	return err == nil
}

// some reports whether there is a passkey.
func (p *passkeys) some() bool {
	entries, _ := os.ReadDir(p.dir)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".json") })
}

// list returns the passkeys, the oldest first.
func (p *passkeys) list() ([]Passkey, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out := []Passkey{}
	for _, e := range entries {
		id, whole := strings.CutSuffix(e.Name(), ".json")
		info, err := e.Info()
		if !whole || err != nil {
			continue
		}
		k, err := p.read(id)
		if errors.Is(err, ErrPasskey) {
			continue // revoked meanwhile
		}
		if err != nil {
			return nil, err
		}
		one := Passkey{ID: id, Name: k.Name, Role: k.Role, For: k.For, Made: k.Made}
		if used := info.ModTime().UTC(); used.After(k.Made.Add(time.Second)) {
			one.Used = used
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Passkey) int {
		if c := a.Made.Compare(b.Made); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// add stores a new passkey and returns when it is on disk.
func (p *passkeys) add(k *passkey) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, err := p.list()
	if err != nil {
		return err
	}
	if len(list) >= maxPasskeys {
		return fmt.Errorf("there are %d passkeys already: revoke one first", len(list))
	}
	id := idOf(k.Credential.ID)
	if p.there(id) {
		return errors.New("this passkey is known already")
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(p.path(id), b); err != nil {
		return err
	}
	return os.Chtimes(p.path(id), k.Made, k.Made)
}

// revoke removes a passkey. It fails with ErrPasskey.
func (p *passkeys) revoke(id string) error {
	if _, err := hex.DecodeString(id); err != nil || len(id) != 32 {
		return ErrPasskey
	}
	err := os.Remove(p.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrPasskey
	}
	if err == nil {
		err = os.Remove(p.countPath(id))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(p.dir)
}

// Passkeys returns the passkeys of a configuration, the oldest first.
func Passkeys(k *config.KeyHolder) ([]Passkey, error) {
	p := passkeys{dir: k.State + passkeysSuffix}
	return p.list()
}

// RevokePasskey takes a passkey away: it logs in no more, and its sessions end. It fails with
// ErrPasskey. The process that serves the page need not run.
func RevokePasskey(k *config.KeyHolder, id string) error {
	p := passkeys{dir: k.State + passkeysSuffix}
	return p.revoke(id)
}

// ask remembers a question to a browser, by its challenge.
func (p *passkeys) ask(c ceremony, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for challenge, other := range p.asks {
		if len(p.asks) >= maxCeremonies || !now.Before(other.expires) {
			delete(p.asks, challenge)
		}
	}
	p.asks[c.data.Challenge] = c
}

// asked returns the question of a challenge, once.
func (p *passkeys) asked(challenge string, now time.Time) (ceremony, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, found := p.asks[challenge]
	delete(p.asks, challenge)
	return c, found && now.Before(c.expires)
}

// login checks what the browser with a cookie has signed, and returns the passkey.
func (p *passkeys) login(answer []byte, cookie string, now time.Time) (id string, k *passkey, err error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return "", nil, err
	}
	c, found := p.asked(parsed.Response.CollectedClientData.Challenge, now)
	if asker := sha256.Sum256([]byte(cookie)); !found || c.user != nil || c.asker != asker {
		return "", nil, errors.New("nobody asked this browser for it, or too long ago")
	}
	id = idOf(parsed.RawID)
	p.logins.Lock()
	defer p.logins.Unlock()
	_, credential, err := p.relying.ValidatePasskeyLogin(func(_, _ []byte) (webauthn.User, error) {
		if k, err = p.read(id); err != nil {
			return nil, err
		}
		count, err := p.count(id)
		k.Credential.Authenticator.SignCount = max(k.Credential.Authenticator.SignCount, count)
		return k, err
	}, *c.data, parsed)
	if err != nil {
		return "", nil, err
	}
	if credential.Authenticator.CloneWarning {
		return "", nil, errors.New("its counter went backwards, as that of a copy does")
	}
	if n := credential.Authenticator.SignCount; n > 0 {
		if err := durable.WriteFile(p.countPath(id), strconv.AppendUint(nil, uint64(n), 10)); err != nil {
			return "", nil, err
		}
	}
	_ = os.Chtimes(p.path(id), now, now) // it may have been revoked, which the session finds out
	return id, k, nil
}

// begin asks the browser to make a passkey for the role of a link.
func (p *passkeys) begin(name string, by *session, now time.Time) (*protocol.CredentialCreation, error) {
	k := &passkey{Name: name, Role: by.role, For: p.relying.Config.RPID, Made: now.UTC(), Handle: make([]byte, 32)}
	rand.Read(k.Handle)
	creation, data, err := p.relying.BeginRegistration(k)
	if err != nil {
		return nil, err
	}
	p.ask(ceremony{data: data, user: k, by: by, expires: now.Add(ceremonyLife)}, now)
	return creation, nil
}

// finish stores the passkey that a browser has made.
func (p *passkeys) finish(answer []byte, by *session, now time.Time) (*passkey, error) {
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return nil, err
	}
	c, found := p.asked(parsed.Response.CollectedClientData.Challenge, now)
	if !found || c.user == nil || c.by != by {
		return nil, errors.New("nobody asked for this, or too long ago")
	}
	credential, err := p.relying.CreateCredential(c.user, *c.data, parsed)
	if err != nil {
		return nil, err
	}
	c.user.Credential = *credential
	return c.user, p.add(c.user)
}

// loginWays answers, without a session, whether there is a passkey that could log in.
func (c *Console) loginWays(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]bool{"passkeys": c.passkeys.relying != nil && c.passkeys.some()})
}

// askedName is the name of the cookie of a browser that was asked to log in.
func (c *Console) askedName() string { return c.name + "-asked" }

// setAsked gives a browser that cookie, or with "" takes it away.
func (c *Console) setAsked(w http.ResponseWriter, value string) {
	life := int(ceremonyLife.Seconds())
	if value == "" {
		life = -1
	}
	http.SetCookie(w, &http.Cookie{Name: c.askedName(), Value: value, Path: "/", MaxAge: life, HttpOnly: true,
		Secure: c.cert != nil, SameSite: http.SameSiteStrictMode})
}

// passkeyQuestion begins a login.
func (c *Console) passkeyQuestion(w http.ResponseWriter, r *http.Request) {
	if !c.mayTry(w, r) {
		return
	}
	if c.passkeys.relying == nil {
		refuse(w, http.StatusConflict, c.passkeys.why)
		return
	}
	question, data, err := c.passkeys.relying.BeginDiscoverableLogin(
		webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		c.fail(w, r, err)
		return
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	cookie := base64.RawURLEncoding.EncodeToString(secret)
	c.passkeys.ask(ceremony{data: data, asker: sha256.Sum256([]byte(cookie)), expires: c.now().Add(ceremonyLife)},
		c.now())
	c.setAsked(w, cookie)
	answer(w, question)
}

// passkeyLogin starts a session with what a passkey has signed.
func (c *Console) passkeyLogin(w http.ResponseWriter, r *http.Request) {
	if !c.mayTry(w, r) {
		return
	}
	var signed json.RawMessage
	if !read(w, r, &signed) {
		return
	}
	if c.passkeys.relying == nil {
		refuse(w, http.StatusConflict, c.passkeys.why)
		return
	}
	cookie := ""
	if asked, err := r.Cookie(c.askedName()); err == nil {
		cookie = asked.Value
	}
	c.setAsked(w, "")
	id, k, err := c.passkeys.login(signed, cookie, c.now())
	if err != nil {
		c.log.Warn("console: passkey refused", "from", r.RemoteAddr, "error", reason(err))
		refuse(w, http.StatusForbidden, "this passkey is not known here, or was revoked; log in with a link")
		return
	}
	c.log.Info("console: login by passkey", "from", r.RemoteAddr, "role", k.Role, "passkey", id)
	c.letIn(w, r, session{role: k.Role, passkey: id})
}

// reason is what the log says of an error: the library's own text for it alone says little.
func reason(err error) string {
	var e *protocol.Error
	if errors.As(err, &e) {
		return strings.TrimSpace(e.Details + " " + e.DevInfo)
	}
	return err.Error()
}

// passkeyBegin asks the browser of a session to make a passkey.
func (c *Console) passkeyBegin(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Name string `json:"name"`
	}
	if !read(w, r, &ask) {
		return
	}
	ask.Name = strings.TrimSpace(ask.Name)
	s := current(r)
	switch {
	case c.passkeys.relying == nil:
		refuse(w, http.StatusConflict, c.passkeys.why)
	case !c.sessions.mayAdd(s, false):
		refuse(w, http.StatusForbidden, "this session may not add a passkey: log in with a link of \"hencedge console "+
			"open --passkey\"")
	case ask.Name == "" || len(ask.Name) > maxPasskeyName || strings.ContainsFunc(ask.Name, unprintable):
		refuse(w, http.StatusBadRequest, fmt.Sprintf("a passkey has a name of 1 to %d bytes that can be printed",
			maxPasskeyName))
	default:
		creation, err := c.passkeys.begin(ask.Name, s, c.now())
		if err != nil {
			c.fail(w, r, err)
			return
		}
		answer(w, creation)
	}
}

// unprintable reports whether a terminal, on which somebody lists passkeys, could obey a character.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// passkeyFinish keeps the passkey that the browser of a session has made: one for each link.
func (c *Console) passkeyFinish(w http.ResponseWriter, r *http.Request) {
	var made json.RawMessage
	if !read(w, r, &made) {
		return
	}
	s := current(r)
	if c.passkeys.relying == nil || !c.sessions.mayAdd(s, true) {
		refuse(w, http.StatusForbidden, "this session may not add a passkey")
		return
	}
	k, err := c.passkeys.finish(made, s, c.now())
	if err != nil {
		c.sessions.allowAdd(s)
		c.log.Warn("console: a passkey was not kept", "from", r.RemoteAddr, "error", reason(err))
		refuse(w, http.StatusForbidden, "the passkey was not kept; the log of the key holder says why")
		return
	}
	c.log.Info("console: passkey added", "from", r.RemoteAddr, "role", k.Role, "name", k.Name)
	answer(w, struct{}{})
}

// passkeyList answers the passkeys, to a holder.
func (c *Console) passkeyList(w http.ResponseWriter, r *http.Request) {
	list, err := c.passkeys.list()
	if err != nil {
		c.fail(w, r, err)
		return
	}
	answer(w, map[string]any{"passkeys": list})
}

// passkeyRevoke takes a passkey away.
func (c *Console) passkeyRevoke(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		ID string `json:"id"`
	}
	if !read(w, r, &ask) {
		return
	}
	err := c.passkeys.revoke(ask.ID)
	switch {
	case errors.Is(err, ErrPasskey):
		refuse(w, http.StatusNotFound, err.Error())
		return
	case err != nil:
		c.fail(w, r, err)
		return
	}
	c.sessions.endOf(ask.ID)
	c.log.Info("console: passkey revoked", "from", r.RemoteAddr, "passkey", ask.ID)
	answer(w, struct{}{})
}
