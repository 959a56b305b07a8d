package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// authenticator makes and uses one passkey as the standard says, or otherwise, which Chromium's cannot.
type authenticator struct {
	t       *testing.T
	rp      string // the host that it is for
	origin  string
	kind    string // of the client data; empty: the right one
	flags   byte   // with that for what is new
	count   uint32
	id      []byte
	handle  []byte
	key     *ecdsa.PrivateKey
	damaged bool // the signature
}

// Flags of authenticator data: somebody is present, is verified, and a credential comes with it.
const present, verified, attested = 1, 4, 64

func newAuthenticator(t *testing.T, g *rig) *authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	a := &authenticator{t: t, rp: "localhost", origin: g.passkeys.relying.Config.RPOrigins[0],
		flags: present | verified, key: key, id: make([]byte, 16)}
	rand.Read(a.id)
	return a
}

func base64URL(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (a *authenticator) clientData(kind, challenge string) []byte {
	if a.kind != "" {
		kind = a.kind
	}
	b, err := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": a.origin,
		"crossOrigin": false})
	must(a.t, err)
	return b
}

func (a *authenticator) data(more byte) []byte {
	hash := sha256.Sum256([]byte(a.rp))
	return binary.BigEndian.AppendUint32(append(hash[:], a.flags|more), a.count)
}

func (a *authenticator) answer(response map[string]string) map[string]any {
	return map[string]any{"id": base64URL(a.id), "rawId": base64URL(a.id), "type": "public-key", "response": response}
}

// make answers a question of passkeyBegin.
func (a *authenticator) make(question []byte) map[string]any {
	a.t.Helper()
	var q struct {
		PublicKey struct {
			Challenge string
			User      struct{ ID string }
		}
	}
	must(a.t, json.Unmarshal(question, &q))
	var err error
	a.handle, err = base64.RawURLEncoding.DecodeString(q.PublicKey.User.ID)
	must(a.t, err)
	point, err := a.key.PublicKey.Bytes()
	must(a.t, err)
	public, err := cbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]})
	must(a.t, err)
	data := append(a.data(attested), make([]byte, 16)...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(a.id)))
	data = append(append(data, a.id...), public...)
	object, err := cbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data})
	must(a.t, err)
	return a.answer(map[string]string{"attestationObject": base64URL(object),
		"clientDataJSON": base64URL(a.clientData("webauthn.create", q.PublicKey.Challenge))})
}

// sign answers a question of passkeyQuestion.
func (a *authenticator) sign(question []byte) map[string]any {
	a.t.Helper()
	var q struct{ PublicKey struct{ Challenge string } }
	must(a.t, json.Unmarshal(question, &q))
	client, data := a.clientData("webauthn.get", q.PublicKey.Challenge), a.data(0)
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(append(data[:len(data):len(data)], hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, digest[:])
	must(a.t, err)
	if a.damaged {
		signature[len(signature)-1] ^= 1
	}
	return a.answer(map[string]string{"clientDataJSON": base64URL(client), "authenticatorData": base64URL(data),
		"signature": base64URL(signature), "userHandle": base64URL(a.handle)})
}

// adding is a browser whose session may add a passkey.
func (g *rig) adding(role Role) *browser {
	g.t.Helper()
	b := &browser{g: g}
	link := g.passkeyLink(role)
	_, secret, _ := strings.Cut(link, "#login=")
	if w := b.do("POST", "/api/login", map[string]string{"secret": secret}); w.Code != http.StatusOK {
		g.t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	return b
}

// question begins a ceremony and returns what the browser is asked. Time passes, since attempts are
// limited.
func (b *browser) question(path string) []byte {
	b.g.t.Helper()
	b.g.pass(30 * time.Second)
	w := b.do("POST", path, map[string]string{"name": "key"})
	if w.Code != http.StatusOK {
		b.g.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

const (
	makeBegin, makeEnd   = "/api/passkeys/begin", "/api/passkeys/finish"
	loginBegin, loginEnd = "/api/login/passkey/begin", "/api/login/passkey"
)

// What a passkey must prove is checked here, whatever browsers check.
func TestPasskeyProofs(t *testing.T) {
	g := newRig(t, named)
	holder := g.adding(Holder)
	wrong := map[string]func(*authenticator){
		"another host":   func(a *authenticator) { a.rp = "example.org" },
		"another origin": func(a *authenticator) { a.origin = "http://localhost:1" },
		"no user":        func(a *authenticator) { a.flags = present },
		"nobody":         func(a *authenticator) { a.flags = 0 },
		"another deed":   func(a *authenticator) { a.kind = "payment.get" },
	}
	for name, edit := range wrong {
		a := newAuthenticator(t, g)
		edit(a)
		if w := holder.do("POST", makeEnd, a.make(holder.question(makeBegin))); w.Code != http.StatusForbidden {
			t.Errorf("made with %s: %d %s", name, w.Code, w.Body)
		}
	}
	a := newAuthenticator(t, g)
	a.count = 5
	other := g.adding(Viewer)
	question := holder.question(makeBegin)
	if w := other.do("POST", makeEnd, a.make(question)); w.Code != http.StatusForbidden {
		t.Errorf("made in another session: %d %s", w.Code, w.Body)
	}
	if w := holder.do("POST", makeEnd, a.make(question)); w.Code != http.StatusForbidden {
		t.Errorf("made with a question that was answered: %d %s", w.Code, w.Body)
	}
	if w := holder.do("POST", makeEnd, a.make(holder.question(makeBegin))); w.Code != http.StatusOK {
		t.Fatalf("made: %d %s", w.Code, w.Body)
	}
	if w := holder.do("POST", makeBegin, map[string]string{"name": "second"}); w.Code != http.StatusForbidden {
		t.Errorf("a second passkey of one link: %d", w.Code)
	}

	login := func(a *authenticator) int {
		b := &browser{g: g}
		return b.do("POST", loginEnd, a.sign(b.question(loginBegin))).Code
	}
	wrong["a damaged signature"] = func(a *authenticator) { a.damaged = true }
	wrong["another user"] = func(a *authenticator) { a.handle = make([]byte, 32) }
	wrong["no name of its user"] = func(a *authenticator) { a.handle = nil }
	wrong["another key"] = func(a *authenticator) { a.key = newAuthenticator(t, g).key }
	wrong["another passkey"] = func(a *authenticator) { a.id = make([]byte, 16) }
	wrong["the counter of before"] = func(a *authenticator) { a.count = 5 }
	wrong["no counter"] = func(a *authenticator) { a.count = 0 }
	a.count = 6
	for name, edit := range wrong {
		bad := *a
		edit(&bad)
		if code := login(&bad); code != http.StatusForbidden {
			t.Errorf("login with %s: %d", name, code)
		}
	}
	b := &browser{g: g}
	answer := a.sign(b.question(loginBegin))
	if w := (&browser{g: g}).do("POST", loginEnd, answer); w.Code != http.StatusForbidden {
		t.Errorf("the answer of another browser: %d %s", w.Code, w.Body)
	}
	answer = a.sign(b.question(loginBegin))
	if w := b.do("POST", loginEnd, answer); w.Code != http.StatusOK || b.cookie == nil || b.asked != nil {
		t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	var who struct{ Role Role }
	if b.get("/api/session", &who); who.Role != Holder {
		t.Errorf("the role %s", who.Role)
	}
	g.start() // counters outlive the process
	a.origin = g.passkeys.relying.Config.RPOrigins[0]
	if code := login(a); code != http.StatusForbidden {
		t.Errorf("a counter that was used before a restart: %d", code)
	}
	a.count = 7
	if code := login(a); code != http.StatusOK {
		t.Errorf("after a restart: %d", code)
	}
}

// A passkey that was revoked leaves nothing, and its name is one that a terminal can print.
func TestPasskeyNames(t *testing.T) {
	g := newRig(t, named)
	viewer := g.adding(Viewer)
	for _, name := range []string{"", " ", "\x1b[2J", "two\nlines", strings.Repeat("x", maxPasskeyName+1)} {
		if w := viewer.do("POST", makeBegin, map[string]string{"name": name}); w.Code != http.StatusBadRequest {
			t.Errorf("the name %q: %d", name, w.Code)
		}
	}
	a := newAuthenticator(t, g)
	if w := viewer.do("POST", makeEnd, a.make(viewer.question(makeBegin))); w.Code != http.StatusOK {
		t.Fatalf("made: %d %s", w.Code, w.Body)
	}
	a.count = 1
	b := &browser{g: g}
	if w := b.do("POST", loginEnd, a.sign(b.question(loginBegin))); w.Code != http.StatusOK {
		t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	if w := b.do("GET", "/api/passkeys", nil); w.Code != http.StatusForbidden {
		t.Errorf("a viewer's passkey reads the list: %d", w.Code)
	}
	must(t, RevokePasskey(g.cfg, idOf(a.id)))
	if w := b.do("GET", "/api/session", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("a session of a passkey that was revoked: %d", w.Code)
	}
	if left, err := os.ReadDir(g.passkeys.dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// Attempts count for an address, of IPv6 for a network.
func TestClient(t *testing.T) {
	for address, want := range map[string]string{"192.0.2.7:1": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7",
		"[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64", "@": "@"} {
		r := &http.Request{RemoteAddr: address, Header: http.Header{}}
		if got := client(r); got != want {
			t.Errorf("%s counts for %s, want %s", address, got, want)
		}
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if got := client(r); got != fmt.Sprint("elsewhere ", want) {
			t.Errorf("another page at %s counts for %s", address, got)
		}
	}
}
