package console

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/store"
	"github.com/hencedge/hencedge/transport"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const worker = "cloud"

// rig is a console over a real key set and database, with an evaluator that makes results.
type rig struct {
	*Console
	t       testing.TB
	cfg     *config.KeyHolder
	writing *store.Store
	reader  *keyholder.Reader
	tally   keyholder.Tally
	key     *transport.SigningKey
	ctx     *henc.Context
	pub     *henc.PublicKey
	made    int
	show    *Show
	log     testrig.Log

	mu    sync.Mutex
	clock time.Time
}

func published() program.Published {
	stream := program.PublishedStream{Name: "s", Samples: 1, Channels: []program.PublishedChannel{{Name: "c", Unit: "1",
		Range: [2]float64{-40, 60}}}}
	return program.Published{Name: "mean", Expr: "x", Params: "edge12-add", Unit: "K",
		Inputs: map[string]program.PublishedInput{"x": {Device: "board", Channel: "c", Stream: stream}}}
}

// newRig makes keys, a database and a console; edit changes the configuration before that.
func newRig(t testing.TB, edit func(*config.KeyHolder)) *rig {
	t.Helper()
	dir := t.TempDir()
	g := &rig{t: t, clock: noon}
	p, err := henc.Named("edge12-add")
	must(t, err)
	set, err := keyholder.Create(filepath.Join(dir, "keys"), keyholder.CreateOptions{Params: p})
	must(t, err)
	g.key, err = transport.NewSigningKey()
	must(t, err)
	a, _, err := keyholder.NewApproval(worker, published(), noon)
	must(t, err)
	must(t, set.Approve(a))
	g.cfg = &config.KeyHolder{Name: "home", KeySet: set.Dir(), State: filepath.Join(dir, "state"),
		Evaluators: []config.Signer{{Name: worker, PublicKey: g.key.PublicText()}},
		Console:    &config.Console{Listen: "127.0.0.1:0"}}
	if edit != nil {
		edit(g.cfg)
	}
	g.cfg.SetDefaults()
	g.reader, err = keyholder.NewReader(set, keyholder.ReaderOptions{Archive: true,
		Signers: map[string][]ed25519.PublicKey{worker: {g.key.Public()}}})
	must(t, err)
	t.Cleanup(func() { g.reader.Close() })
	must(t, g.reader.Load())
	g.ctx, err = henc.NewContext(p)
	must(t, err)
	raw, err := os.ReadFile(filepath.Join(set.Dir(), "epoch-0001", keyholder.PublicFile))
	must(t, err)
	g.pub, err = g.ctx.UnmarshalPublicKey(raw)
	must(t, err)
	g.writing, err = store.Open(t.Context(), store.Options{History: g.cfg.Kept(), Logger: testrig.Quiet()})
	must(t, err)
	t.Cleanup(func() { g.writing.Close() })
	g.start()
	return g
}

// start starts a console, as a process that starts anew does.
func (g *rig) start() {
	g.t.Helper()
	history, err := store.Open(g.t.Context(), store.Options{History: g.cfg.Kept(), ReadOnly: true,
		Logger: testrig.Quiet()})
	must(g.t, err)
	g.t.Cleanup(func() { history.Close() })
	g.Console, err = New(g.t.Context(), Options{Holder: g.cfg, Reader: g.reader, History: history, Tally: &g.tally,
		Logger: g.log.Logger(), Show: g.show, Now: g.now})
	must(g.t, err)
	c := g.Console
	g.t.Cleanup(func() { c.Close() })
	g.loading.Wait()
}

func (g *rig) now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.clock
}

func (g *rig) pass(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clock = g.clock.Add(d)
}

// compute makes the next result of the program, of a window a minute after the last, and stores
// it as "results serve" does.
func (g *rig) compute(value float64) *keyholder.Result {
	g.t.Helper()
	_, circuit, err := keyholder.NewApproval(worker, published(), noon)
	must(g.t, err)
	enc, err := henc.NewEncryptor(g.ctx, g.pub)
	must(g.t, err)
	out := circuit.Output()
	ct, err := enc.EncryptReal([]float64{(value - out.B) / out.A}, circuit.Level(), circuit.Scale(), nil)
	must(g.t, err)
	body, err := g.ctx.MarshalCiphertext(ct)
	must(g.t, err)
	g.made++
	start := noon.Add(time.Duration(g.made-100) * time.Minute)
	var input [32]byte
	binary.BigEndian.PutUint64(input[:], uint64(g.made))
	params := g.ctx.Parameters()
	sealed, err := transport.Seal(transport.Meta{Kind: transport.KindResult, Device: worker, Program: "mean",
		KeyID: g.pub.KeyID, KeyEpoch: g.pub.Epoch, BootEpoch: 1, Sequence: uint64(g.made), Params: params.Hash(),
		Level: ct.Level, Scale: ct.Scale, Start: start.UnixNano(), End: start.Add(time.Minute).UnixNano(), Samples: 1,
		Layout: circuit.Hash(), Inputs: [][32]byte{input},
		Post: &transport.Post{A: out.A, B: out.B, Slot: out.Slot, Count: 1, Bound: out.Bound}}, body, g.key)
	must(g.t, err)
	r, err := g.reader.Read("", sealed)
	must(g.t, err)
	g.tally.Result(r)
	must(g.t, g.writing.Add(g.t.Context(), r))
	g.Observe(r)
	return r
}

// browser is somebody with a cookie.
type browser struct {
	g      *rig
	cookie *http.Cookie
	asked  *http.Cookie // of a login by passkey that has begun
	token  string
}

// let in opens the page with a link.
func (g *rig) letIn(role Role) *browser {
	g.t.Helper()
	b := &browser{g: g}
	secret := g.secret(role)
	answer := b.do("POST", "/api/login", map[string]string{"secret": secret})
	if answer.Code != http.StatusOK {
		g.t.Fatalf("login: %d %s", answer.Code, answer.Body)
	}
	return b
}

// secret returns what a new link has behind its #.
func (g *rig) secret(role Role) string {
	g.t.Helper()
	link, err := Invite(g.cfg, role, false, g.now())
	must(g.t, err)
	_, secret, found := strings.Cut(link, "/#login=")
	if !found {
		g.t.Fatalf("link %s", link)
	}
	return secret
}

// do sends a request, with the cookie and the token that the browser has.
func (b *browser) do(method, path string, body any) *httptest.ResponseRecorder {
	b.g.t.Helper()
	return b.send(b.request(method, path, body))
}

func (b *browser) request(method, path string, body any) *http.Request {
	b.g.t.Helper()
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		must(b.g.t, err)
		in = bytes.NewReader(text)
	}
	r := httptest.NewRequestWithContext(context.Background(), method, "http://localhost"+path, in)
	r.Header.Set("Content-Type", "application/json")
	if b.asked != nil {
		r.AddCookie(b.asked)
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
		r.Header.Set(csrfHeader, b.token)
	}
	return r
}

// send sends a request and keeps what a login gives.
func (b *browser) send(r *http.Request) *httptest.ResponseRecorder {
	b.g.t.Helper()
	w := httptest.NewRecorder()
	b.g.Handler().ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.Name != b.g.askedName() {
			b.cookie = c
		} else if b.asked = c; c.MaxAge < 0 {
			b.asked = nil
		}
	}
	path := strings.TrimSuffix(r.URL.Path, "/passkey")
	if strings.HasSuffix(path, "/login") && w.Code == http.StatusOK {
		var who struct{ Token string }
		must(b.g.t, json.Unmarshal(w.Body.Bytes(), &who))
		b.token = who.Token
	}
	return w
}

// get reads JSON that must be there.
func (b *browser) get(path string, into any) {
	b.g.t.Helper()
	w := b.do("GET", path, nil)
	if w.Code != http.StatusOK {
		b.g.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	must(b.g.t, json.Unmarshal(w.Body.Bytes(), into))
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
