package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// reading are the paths that every session may ask.
var reading = []string{"/api/session", "/api/programs", "/api/devices?program=mean", "/api/series?program=mean",
	"/api/results", "/api/fleet", "/api/alarms", "/api/boards", "/api/keys"}

// deeds are what only a holder may do.
var deeds = []string{"/api/alarms/seen", "/api/silences", "/api/silences/end", "/api/boards/approve",
	"/api/boards/refuse"}

func TestWithoutSession(t *testing.T) {
	g := newRig(t, withAlarm)
	r := g.compute(20)
	b := &browser{g: g}
	for _, path := range append(reading, "/api/proof?"+query(r), "/api/proof/file?"+query(r), "/api/live") {
		if w := b.do("GET", path, nil); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range append(deeds, "/api/logout") {
		if w := b.do("POST", path, map[string]string{}); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/", "/app.js", "/app.css", "/icon.svg", "/licenses.txt"} {
		w := b.do("GET", path, nil)
		if w.Code != http.StatusOK || w.Body.Len() == 0 || w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
	}
	if w := b.do("GET", "/../state", nil); w.Code == http.StatusOK {
		t.Errorf("a path outside: %d", w.Code)
	}
}

func TestLinkWorksOnce(t *testing.T) {
	g := newRig(t, nil)
	secret := g.secret(Viewer)
	var in atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			b := &browser{g: g}
			if b.do("POST", "/api/login", map[string]string{"secret": secret}).Code == http.StatusOK {
				in.Add(1)
			}
		})
	}
	all.Wait()
	if in.Load() != 1 {
		t.Errorf("%d browsers were let in", in.Load())
	}
}

func TestWrongLinks(t *testing.T) {
	g := newRig(t, nil)
	late := g.secret(Holder)
	g.pass(LinkLife)
	for name, secret := range map[string]string{"too old": late, "made up": strings.Repeat("A", 43), "empty": "",
		"a path": "../state"} {
		b := &browser{g: g}
		w := b.do("POST", "/api/login", map[string]string{"secret": secret})
		if w.Code != http.StatusForbidden || b.cookie != nil || !strings.Contains(w.Body.String(), "console open") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	left, err := os.ReadDir(g.cfg.State + loginsSuffix)
	if err != nil || len(left) != 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	if _, err := Invite(g.cfg, "admin", false, g.now()); err == nil {
		t.Error("a link for an unknown role")
	}
}

// The file of a link is for its owner, and does not hold the link.
func TestLinkFile(t *testing.T) {
	g := newRig(t, nil)
	secret := g.secret(Holder)
	file := loginFile(g.cfg.State+loginsSuffix, secret)
	b, err := os.ReadFile(file)
	must(t, err)
	info, err := os.Stat(file)
	must(t, err)
	dir, err := os.Stat(filepath.Dir(file))
	must(t, err)
	if bytes.Contains(b, []byte(secret)) || info.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v: %s", dir.Mode(), info.Mode(), b)
	}
}

func TestSession(t *testing.T) {
	g := newRig(t, nil)
	b := g.letIn(Viewer)
	c := b.cookie
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" ||
		c.MaxAge != int(config.DefaultSession.Seconds()) {
		t.Errorf("cookie %+v", c)
	}
	for _, path := range reading {
		if w := b.do("GET", path, nil); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	g.pass(config.DefaultSession - time.Second)
	if w := b.do("GET", "/api/keys", nil); w.Code != http.StatusOK {
		t.Errorf("just before the end: %d", w.Code)
	}
	g.pass(time.Second)
	if w := b.do("GET", "/api/keys", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("after the end: %d", w.Code)
	}
	b = g.letIn(Viewer)
	old := *b
	if w := b.do("POST", "/api/logout", nil); w.Code != http.StatusOK || b.cookie.MaxAge >= 0 {
		t.Errorf("logout: %d, %+v", w.Code, b.cookie)
	}
	if w := old.do("GET", "/api/keys", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("after logout: %d", w.Code)
	}
	b = g.letIn(Holder)
	old = *b
	if w := b.do("POST", "/api/login", map[string]string{"secret": g.secret(Viewer)}); w.Code != http.StatusOK {
		t.Errorf("another login: %d", w.Code)
	}
	if w := old.do("GET", "/api/keys", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("after another login: %d", w.Code)
	}
	stranger := &browser{g: g, cookie: &http.Cookie{Name: c.Name, Value: strings.Repeat("A", 43)}}
	if w := stranger.do("GET", "/api/keys", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("a made up cookie: %d", w.Code)
	}
}

// The session that ends first makes room for a new one.
func TestSessionsAreBounded(t *testing.T) {
	var s sessions
	first, _ := s.open(session{role: Viewer}, noon, time.Hour)
	for i := range maxSessions {
		s.open(session{role: Viewer}, noon.Add(time.Duration(i+1)*time.Second), time.Hour)
	}
	if s.find(first, noon) != nil || len(s.all) != maxSessions {
		t.Errorf("%d sessions, the first is there: %t", len(s.all), s.find(first, noon) != nil)
	}
}

func TestViewerDoesNothing(t *testing.T) {
	g := newRig(t, withAlarm)
	r := g.compute(20)
	b := g.letIn(Viewer)
	for _, path := range deeds {
		if w := b.do("POST", path, map[string]any{"rule": "hot", "minutes": 5}); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := b.do("GET", "/api/proof/file?"+query(r), nil); w.Code != http.StatusForbidden {
		t.Errorf("file: %d", w.Code)
	}
	if _, err := os.Stat(g.cfg.State + ".alerts.silences"); err == nil {
		t.Error("there is a silence")
	}
}

// A deed needs the session's token, and must not come from another site.
func TestForgedRequests(t *testing.T) {
	g := newRig(t, withAlarm)
	b := g.letIn(Holder)
	ask := map[string]any{"rule": "hot", "minutes": 5}
	for name, edit := range map[string]func(*http.Request){
		"no token":       func(r *http.Request) { r.Header.Del(csrfHeader) },
		"wrong token":    func(r *http.Request) { r.Header.Set(csrfHeader, strings.Repeat("A", 43)) },
		"foreign origin": func(r *http.Request) { r.Header.Set("Origin", "https://example.org") },
		"cross-site":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a form":         func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") },
		"foreign host":   func(r *http.Request) { r.Host = "example.org" },
		"rebound host":   func(r *http.Request) { r.Host = "127.0.0.1.example.org:9470" },
	} {
		r := b.request("POST", "/api/silences", ask)
		edit(r)
		if w := b.send(r); w.Code < 400 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if _, err := os.Stat(g.cfg.State + ".alerts.silences"); err == nil {
		t.Error("there is a silence")
	}
	if w := b.do("POST", "/api/silences", ask); w.Code != http.StatusOK {
		t.Errorf("the page itself: %d %s", w.Code, w.Body)
	}
}

func TestLimits(t *testing.T) {
	g := newRig(t, nil)
	b := &browser{g: g}
	last := 0
	for range loginBurst + 1 {
		last = b.do("POST", "/api/login", map[string]string{"secret": "x"}).Code
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("attempt %d: %d", loginBurst+1, last)
	}
	g.pass(time.Minute)
	if w := b.do("POST", "/api/login", map[string]string{"secret": "x"}); w.Code != http.StatusForbidden {
		t.Errorf("a minute later: %d", w.Code)
	}
	for range requestBurst {
		last = b.do("GET", "/icon.svg", nil).Code
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after %d requests: %d", requestBurst, last)
	}
	b = g.letInLater()
	if w := b.do("POST", "/api/logout", strings.Repeat("x", maxBody+1)); w.Code != http.StatusOK {
		t.Errorf("logout: %d", w.Code)
	}
	if w := b.do("POST", "/api/login", map[string]string{"secret": strings.Repeat("x", maxBody)}); w.Code !=
		http.StatusRequestEntityTooLarge {
		t.Errorf("a large request: %d", w.Code)
	}
}

// A page from elsewhere that a browser shows does not use up the requests of that browser.
func TestLimitOfOtherPages(t *testing.T) {
	g := newRig(t, nil)
	b := g.letIn(Viewer)
	for _, site := range []string{"cross-site", "same-site"} {
		last := 0
		for range requestBurst + 1 {
			r := (&browser{g: g}).request("GET", "/icon.svg", nil)
			r.Header.Set("Sec-Fetch-Site", site)
			last = b.send(r).Code
		}
		if last != http.StatusTooManyRequests {
			t.Errorf("%s: %d after %d requests", site, last, requestBurst)
		}
	}
	if w := b.do("GET", "/api/keys", nil); w.Code != http.StatusOK {
		t.Errorf("the page itself: %d %s", w.Code, w.Body)
	}
}

// letInLater is letIn when the limits have recovered.
func (g *rig) letInLater() *browser {
	g.pass(10 * time.Minute)
	return g.letIn(Holder)
}

// No response holds the secret key or the key holder's signing key, in any form of writing.
func TestNoSecretInResponses(t *testing.T) {
	g := newRig(t, withAlarm)
	r := g.compute(70)
	var secrets [][]byte
	must(t, filepath.WalkDir(g.cfg.KeySet, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() != "secret.key" && e.Name() != "holder.key" {
			return err
		}
		b, err := os.ReadFile(path)
		for at := len(b) / 2; at+24 <= len(b); at += 48 { // after headers, which are no secret
			secrets = append(secrets, b[at:at+24])
		}
		if len(b) >= 24 && e.Name() == "holder.key" {
			secrets = append(secrets, b[len(b)-24:])
		}
		return err
	}))
	if len(secrets) < 10 {
		t.Fatalf("%d pieces of secrets", len(secrets))
	}
	b := g.letIn(Holder)
	seen := 0
	for _, path := range append(reading, "/api/proof?"+query(r), "/api/proof/file?"+query(r), "/", "/app.js",
		"/api/series?program=nothing", "/api/nothing") {
		w := b.do("GET", path, nil)
		body := w.Body.Bytes()
		seen += len(body)
		for _, s := range secrets {
			for _, form := range [][]byte{s, []byte(hex.EncodeToString(s)),
				[]byte(base64.StdEncoding.EncodeToString(s)[:30]),
				[]byte(base64.RawURLEncoding.EncodeToString(s)[:30])} {
				if bytes.Contains(body, form) {
					t.Fatalf("%s holds a secret", path)
				}
			}
		}
	}
	if seen < 100_000 {
		t.Errorf("%d bytes were searched", seen)
	}
	if strings.Contains(g.log.String(), b.token) || strings.Contains(g.log.String(), b.cookie.Value) {
		t.Error("the log holds a session")
	}
}

// With a certificate the page is served over TLS, under the certificate's names alone.
func TestTLS(t *testing.T) {
	ca, err := tlsutil.NewDevCA("test")
	must(t, err)
	cert, err := ca.Server("console.example.org")
	must(t, err)
	certPEM, keyPEM, err := tlsutil.PEM(cert)
	must(t, err)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "c.pem"), filepath.Join(dir, "c.key")}
	must(t, os.WriteFile(files[0], certPEM, 0o644), os.WriteFile(files[1], keyPEM, 0o600))
	g := newRig(t, func(k *config.KeyHolder) { k.Console.Cert, k.Console.Key = files[0], files[1] })
	must(t, Check(g.cfg, time.Now()))
	if err := Check(g.cfg, time.Now().AddDate(20, 0, 0)); err == nil || !strings.Contains(err.Error(), "renew it") {
		t.Errorf("a certificate that is over: %v", err)
	}
	link, err := Invite(g.cfg, Holder, false, g.now())
	must(t, err)
	if !strings.HasPrefix(link, "https://console.example.org:") {
		t.Errorf("link %s", link)
	}
	ctx, stop := context.WithCancel(testrig.Context(t))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	trust := &tls.Config{RootCAs: ca.Pool(), ServerName: "console.example.org", MinVersion: tls.VersionTLS12}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	for host, want := range map[string]int{"console.example.org": http.StatusOK,
		"127.0.0.1": http.StatusMisdirectedRequest} {
		r, err := http.NewRequestWithContext(ctx, "GET", "https://"+g.Address()+"/", nil)
		must(t, err)
		r.Host = host
		resp, err := client.Do(r)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != want || resp.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("host %s: %d, %v", host, resp.StatusCode, resp.Header)
		}
	}
	if !strings.HasPrefix(g.name, "__Host-") {
		t.Errorf("cookie %s", g.name)
	}
	client.CloseIdleConnections()
	stop()
	must(t, <-ended)
}

// A link has a name that a browser can open, where the certificate or the configuration has one.
func TestLinkHost(t *testing.T) {
	for _, c := range []struct {
		names        string
		listen, want string
	}{
		{"console.example.org other.example.org", "0.0.0.0", "console.example.org"},
		{"*.example.org console.example.org", "0.0.0.0", "console.example.org"},
		{"*.example.net *.example.org", "home.example.org", "home.example.org"},
		{"*.example.org", "home.example.net", "*.example.org"},
		{"*.example.org", "0.0.0.0", "*.example.org"},
		{"192.0.2.7", "0.0.0.0", "192.0.2.7"},
	} {
		if got := linkHost(strings.Fields(c.names), c.listen); got != c.want {
			t.Errorf("%s, listening on %s: %s, want %s", c.names, c.listen, got, c.want)
		}
	}
}

// TestInviteStaysBesideTheState: who can write beside the state leads a link of root nowhere else.
func TestInviteStaysBesideTheState(t *testing.T) {
	g := newRig(t, nil)
	elsewhere := t.TempDir()
	old := filepath.Join(elsewhere, "old")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	past := g.now().Add(-24 * time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(g.cfg.State + loginsSuffix); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, g.cfg.State+loginsSuffix); err != nil {
		t.Fatal(err)
	}
	if link, err := Invite(g.cfg, Holder, false, g.now()); err == nil {
		t.Errorf("a link was made: %s", link)
	}
	if list, err := os.ReadDir(elsewhere); err != nil || len(list) != 1 {
		t.Errorf("%d files, want the one that was there: %v", len(list), err)
	}
}
