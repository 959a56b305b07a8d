package console

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv/chromium"
)

// named gives the page a name, which passkeys want.
func named(k *config.KeyHolder) { k.Console.Listen = "localhost:0" }

// at returns the address of the page under a host.
func (g *rig) at(host string) string {
	_, port, err := net.SplitHostPort(g.Address())
	must(g.t, err)
	return "http://" + net.JoinHostPort(host, port) + "/"
}

// passkeyLink is a link whose session may add a passkey.
func (g *rig) passkeyLink(role Role) string {
	g.t.Helper()
	link, err := Invite(g.cfg, role, true, g.now())
	must(g.t, err)
	_, secret, _ := strings.Cut(link, "/#login=")
	return g.at("localhost") + "#login=" + secret
}

const (
	isLive  = "document.querySelector('.live')?.textContent === 'live'"
	offered = "document.querySelector('#passkey') !== null"
)

// addPasskey logs in with a link and adds a passkey.
func (g *rig) addPasskey(page *chromium.Page, role Role, name string) {
	g.t.Helper()
	page.Open(g.passkeyLink(role))
	page.Wait("updates", isLive)
	page.Click("nav a[data-path=keys]")
	page.Wait("the form", "document.querySelector('#passkey-name') !== null")
	page.Do("document.querySelector('#passkey-name').value = '" + name + "'; 1")
	page.Click(".passkeys form button")
	page.Wait("that the form is gone", "document.querySelector('.passkeys form') === null")
	page.Wait("no error", "document.querySelector('.passkeys .error').textContent === ''")
}

// logOut leaves the page where it offers to log in with a passkey.
func logOut(page *chromium.Page) {
	page.Click("#logout")
	page.See("You are logged out.")
	page.Wait("the way in", offered)
}

// A passkey that a link has let in logs in again and again, in its role, until it is revoked.
func TestPasskeysInBrowser(t *testing.T) {
	browser := chromium.Start(t)
	g := newRig(t, named)
	g.online()
	page, phone := browser.Page(), browser.Page()
	device := page.Authenticator()
	phone.Authenticator()
	page.Open(g.at("localhost"))
	page.See("Log in")
	page.Wait("that there is no passkey",
		"fetch('api/login').then((r) => r.json()).then((l) => l.passkeys === false)")
	page.Open("about:blank")
	g.addPasskey(page, Holder, "laptop")
	page.See("laptop")
	g.addPasskey(phone, Viewer, "phone")
	g.pass(time.Hour)

	// A login by passkey, whose answer is good for nothing else.
	logOut(page)
	page.Do(`(() => {
		const real = window.fetch;
		window.fetch = (path, o) => {
			if (path === 'api/login/passkey') window.sent = o.body;
			return real(path, o);
		};
	})(); 1`)
	page.Click("#passkey")
	page.Wait("updates", isLive)
	page.Wait("its role", "document.querySelector('.role').textContent === 'holder'")
	list, err := Passkeys(g.cfg)
	must(t, err)
	if len(list) != 2 || list[0].Name != "laptop" && list[1].Name != "laptop" {
		t.Fatalf("passkeys %+v", list)
	}
	ids := map[string]string{}
	for _, k := range list {
		ids[k.Name] = k.ID
		if k.For != "localhost" || !k.Made.Equal(noon) || k.Used.IsZero() == (k.Name == "laptop") {
			t.Errorf("passkey %+v", k)
		}
		info, err := os.Stat(filepath.Join(g.cfg.State+passkeysSuffix, k.ID+".json"))
		must(t, err)
		dir, err := os.Stat(g.cfg.State + passkeysSuffix)
		must(t, err)
		if info.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700 {
			t.Errorf("modes %v, %v", info.Mode(), dir.Mode())
		}
	}
	logOut(page)
	again := page.Do(`fetch('api/login/passkey', { method: 'POST', body: window.sent,
		headers: { 'Content-Type': 'application/json' } }).then((r) => r.status)`)
	if again != "403" {
		t.Errorf("the same answer again: %s", again)
	}

	// Whoever is not verified stays outside, and so does a page under another name.
	device.Verifies(false)
	page.Click("#passkey")
	page.Wait("an error", "document.querySelector('.login .error').textContent !== 'You are logged out.'")
	page.See("Log in")
	device.Verifies(true)
	page.Open(g.at("127.0.0.1"))
	page.Wait("the way in", offered)
	page.Click("#passkey")
	page.Wait("an error", "document.querySelector('.login .error').textContent !== ''")
	page.Open(g.at("localhost"))
	page.Wait("the way in", offered)
	g.pass(time.Minute) // attempts are limited
	page.Click("#passkey")
	page.Wait("updates", isLive)

	// A viewer's passkey gives a viewer's session, which ends when a holder revokes it.
	logOut(phone)
	phone.Click("#passkey")
	phone.Wait("updates", isLive)
	phone.Wait("its role", "document.querySelector('.role').textContent === 'viewer'")
	phone.Click("nav a[data-path=keys]")
	phone.See("Fingerprint of the key holder")
	if n := phone.Do("document.querySelectorAll('.passkeys').length"); n != "0" {
		t.Error("a viewer sees passkeys")
	}
	page.Click("nav a[data-path=keys]")
	page.Click("button[aria-label='revoke phone']")
	page.Wait("that it is gone", "document.querySelector('.passkeys').innerText.includes('phone') === false")
	phone.See("The session has ended.")
	phone.Click("#passkey")
	phone.See("This passkey is not known here, or was revoked")

	// One that the command line revokes ends its sessions too.
	must(t, RevokePasskey(g.cfg, ids["laptop"]))
	page.Click("nav a[data-path=fleet]")
	page.See("The session has ended.")
	if err := RevokePasskey(g.cfg, ids["laptop"]); !errors.Is(err, ErrPasskey) {
		t.Errorf("revoked again: %v", err)
	}
	if strings.Contains(g.log.String(), "error=\"\"") {
		t.Error("the log has an error without a reason")
	}
}

// Without a name there are no passkeys, and without the right link nobody adds one.
func TestPasskeysRefused(t *testing.T) {
	plain := newRig(t, nil)
	if _, err := Invite(plain.cfg, Holder, true, plain.now()); err == nil ||
		!strings.Contains(err.Error(), "localhost") {
		t.Errorf("a link for a passkey of an address: %v", err)
	}
	if w := (&browser{g: plain}).do("POST", "/api/login/passkey/begin", nil); w.Code != http.StatusConflict {
		t.Errorf("a login at an address: %d %s", w.Code, w.Body)
	}

	g := newRig(t, named)
	stranger, viewer, holder := &browser{g: g}, g.letIn(Viewer), g.letIn(Holder)
	for path, body := range map[string]any{"begin": map[string]string{"name": "x"}, "finish": map[string]string{},
		"revoke": map[string]string{"id": "../state"}} {
		if w := stranger.do("POST", "/api/passkeys/"+path, body); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a session: %d", path, w.Code)
		}
		if w := viewer.do("POST", "/api/passkeys/"+path, body); w.Code != http.StatusForbidden {
			t.Errorf("%s by a viewer: %d %s", path, w.Code, w.Body)
		}
		want := http.StatusForbidden // a plain link
		if path == "revoke" {
			want = http.StatusNotFound
		}
		if w := holder.do("POST", "/api/passkeys/"+path, body); w.Code != want {
			t.Errorf("%s by a holder: %d %s", path, w.Code, w.Body)
		}
	}
	if w := viewer.do("GET", "/api/passkeys", nil); w.Code != http.StatusForbidden {
		t.Errorf("the list for a viewer: %d", w.Code)
	}
	g.pass(time.Hour)
	for _, body := range []any{map[string]string{}, "text", map[string]any{"id": "AA", "rawId": "AA",
		"type": "public-key", "response": map[string]string{"clientDataJSON": "e30"}}} {
		if w := stranger.do("POST", "/api/login/passkey", body); w.Code != http.StatusForbidden {
			t.Errorf("%v: %d %s", body, w.Code, w.Body)
		}
	}
	last := 0
	for range loginBurst {
		last = stranger.do("POST", "/api/login/passkey/begin", nil).Code
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("many questions: %d", last)
	}
}

// A question is good once and for a time, and there are not too many.
func TestPasskeyQuestions(t *testing.T) {
	p := newRig(t, named).passkeys
	ask := func(challenge string, at time.Time) {
		p.ask(ceremony{data: &webauthn.SessionData{Challenge: challenge}, expires: at.Add(ceremonyLife)}, at)
	}
	ask("a", noon)
	ask("b", noon)
	if _, ok := p.asked("a", noon.Add(ceremonyLife-1)); !ok {
		t.Error("a question is forgotten")
	}
	if _, ok := p.asked("a", noon); ok {
		t.Error("a question is good twice")
	}
	if _, ok := p.asked("b", noon.Add(ceremonyLife)); ok {
		t.Error("a question is good for ever")
	}
	for i := range maxCeremonies + 10 {
		ask(strings.Repeat("x", i+1), noon)
	}
	if len(p.asks) != maxCeremonies {
		t.Errorf("%d questions are open", len(p.asks))
	}
}

// A passkey is for the name and the origin of the page.
func TestRelyingParty(t *testing.T) {
	for base, want := range map[string][2]string{
		"http://localhost:9470":            {"localhost", "http://localhost:9470"},
		"https://console.example.org:443":  {"console.example.org", "https://console.example.org"},
		"https://console.example.org:9470": {"console.example.org", "https://console.example.org:9470"},
		"http://127.0.0.1:9470":            {},
		"https://[::1]:9470":               {},
		"https://*.example.org:9470":       {},
	} {
		port := base[strings.LastIndex(base, ":")+1:]
		host, origin, err := relyingParty(base, port)
		if host != want[0] && err == nil || origin != want[1] || (err != nil) != (want[0] == "") {
			t.Errorf("%s: %q, %q, %v", base, host, origin, err)
		}
	}
}
