package chaos

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// witness sees the windows and the results that pass the broker, those aside that come while
// the broker is down.
type witness struct {
	t   *testing.T
	ctx *henc.Context

	mu      sync.Mutex
	windows map[[32]byte]seen
	order   [][32]byte            // of windows, the newest mostSeen
	results map[resultOf][32]byte // digests of residues; packs aside
}

// mostSeen is how many windows a witness keeps.
const mostSeen = 96

type resultOf struct {
	program, device string
	window          [32]byte
}

// seen is a sealed window.
type seen struct {
	topic, device string
	boot, number  uint64
	sealed        []byte
}

func dialBroker(t *testing.T, address, id string) transport.Client {
	t.Helper()
	c, err := mqtt.Dial(testrig.Context(t), mqtt.Options{URL: "tcp://" + address, ClientID: id, Logger: testrig.Quiet(),
		MaxReconnect: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func newWitness(t *testing.T, params string) *witness {
	t.Helper()
	p, err := henc.NamedInsecure(params)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(p)
	if err != nil {
		t.Fatal(err)
	}
	return &witness{t: t, ctx: ctx, windows: map[[32]byte]seen{}, results: map[resultOf][32]byte{}}
}

// follow begins to note what passes a broker.
func (w *witness) follow(address string) {
	w.t.Helper()
	c := dialBroker(w.t, address, "witness")
	for _, filter := range []string{transport.ReadingTopic(transport.DefaultPrefix, "+", "+"),
		transport.ResultFilter(transport.DefaultPrefix)} {
		w.watch(c, filter, func(transport.Meta) {})
	}
}

// digest returns that of a ciphertext's residues in one order: a GPU and the processor keep
// and send them in different ones (n2).
func (w *witness) digest(body []byte) [32]byte {
	ct, err := w.ctx.UnmarshalCiphertext(body)
	if err == nil {
		defer w.ctx.Ring().Free(ct.Value)
		body, err = w.ctx.MarshalCiphertext(ct)
	}
	if err != nil {
		w.t.Errorf("a result: %v", err)
	}
	return sha256.Sum256(body)
}

// watch notes what comes on topics that match, and tells of each result.
func (w *witness) watch(c transport.Client, filter string, tell func(transport.Meta)) {
	w.t.Helper()
	receiver := transport.NewReceiver(transport.Limits{}, func(s transport.Staged) error {
		defer s.Done()
		if transport.IsShort(s.Sealed) { // a compact window
			return nil
		}
		meta, body, err := transport.Peek(s.Sealed)
		if err != nil {
			w.t.Errorf("on %s: %v", s.Topic, err)
			return nil
		}
		var digest [32]byte
		if meta.Kind == transport.KindResult && meta.Packed == 0 {
			digest = w.digest(body)
		}
		w.mu.Lock()
		switch {
		case meta.Kind == transport.KindReading:
			w.windows[s.ID] = seen{s.Topic, meta.Device, meta.BootEpoch, meta.Sequence, bytes.Clone(s.Sealed)}
			if w.order = append(w.order, s.ID); len(w.order) > mostSeen {
				delete(w.windows, w.order[0])
				w.order = w.order[1:]
			}
		case len(meta.Inputs) == 1: // not a pack
			w.results[resultOf{meta.Program, meta.Subject, meta.Inputs[0]}] = digest
			defer tell(*meta)
		}
		w.mu.Unlock()
		return nil
	})
	err := c.Subscribe(testrig.Context(w.t), filter, func(d transport.Delivery) {
		_ = receiver.Feed(d.Topic, d.Payload) // what is incomplete is not compared
		d.Ack()
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// both returns windows whose results were seen too, in the order of their devices' numbers.
func (w *witness) both() (list []seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	had := map[[32]byte]bool{}
	for r := range w.results {
		if one, ok := w.windows[r.window]; ok && !had[r.window] {
			had[r.window] = true
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.boot, b.boot), cmp.Compare(a.number, b.number), strings.Compare(a.device, b.device))
	})
	return list
}

// together returns how many results are a ciphertext that another device has too: their windows
// were added up.
func (w *witness) together() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	devices := map[[32]byte]map[string]bool{}
	for r, body := range w.results {
		if devices[body] == nil {
			devices[body] = map[string]bool{}
		}
		devices[body][r.device] = true
	}
	for _, d := range devices {
		if len(d) > 1 {
			n += len(d)
		}
	}
	return n
}

// mostAlone is how many windows a leg computes once more.
const mostAlone = 24

// compare gives windows one by one to another evaluator, on the processor and with neither
// batches nor a store, and compares its results with those that were seen, residue for residue.
func (r *rig) compare(w *witness) {
	r.t.Helper()
	list := w.both()
	if len(list) > mostAlone { // of the end, when batches are large
		list = list[len(list)-mostAlone:]
	}
	address := strings.TrimPrefix(testrig.Broker(r.t, broker.Options{}).URL(), "tcp://")
	r.startAlone(address)
	other := newWitness(r.t, w.ctx.Parameters().Name())
	made := make(chan transport.Meta, 64)
	other.watch(dialBroker(r.t, address, "results"), transport.ResultFilter(transport.DefaultPrefix),
		func(m transport.Meta) { made <- m })
	sender, err := transport.NewSender(dialBroker(r.t, address, "windows"), 0)
	if err != nil {
		r.t.Fatal(err)
	}
	compared, different := 0, 0
	for _, one := range list {
		if err := sender.Send(testrig.Context(r.t), one.topic, one.sealed); err != nil {
			r.t.Fatal(err)
		}
		for range single {
			m := testrig.Receive(r.t, "a result of one window", made)
			of := resultOf{m.Program, m.Subject, m.Inputs[0]}
			w.mu.Lock()
			before, ok := w.results[of]
			w.mu.Unlock()
			other.mu.Lock()
			now := other.results[of]
			other.mu.Unlock()
			if !ok {
				continue // only the other program's was seen
			}
			compared++
			if before != now {
				different++
				r.t.Errorf("%s of %s, window %d: the result of its window alone is another ciphertext", m.Program,
					m.Subject, one.number)
			}
		}
	}
	r.t.Logf("%d results of %d windows were compared with those of each window alone; %d differ",
		compared, len(list), different)
	if compared == 0 {
		r.t.Error("no result was compared with that of its window alone")
	}
}

// startAlone starts an evaluator on a broker of its own.
func (r *rig) startAlone(address string) {
	r.t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.dir, "cloud/evaluator.yaml"))
	if err != nil {
		r.t.Fatal(err)
	}
	text := string(raw)
	for from, to := range map[string]string{`tcp://[^"]*`: "tcp://" + address, `(?m)^store: .*\n`: "",
		`(?m)^metrics: .*\n`: "", `(?m)^state: .*`: "state: alone.state", `(?m)^workers: .*`: "workers: 1",
		`(?m)^batch: .*`: "batch: 1", `(?m)^log: .*`: "log: {level: info}"} {
		text = regexp.MustCompile(from).ReplaceAllString(text, to)
	}
	r.write("cloud/alone.yaml", text)
	p := &process{name: "alone", args: []string{r.binary, "evaluator", "run", "--backend", "cpu", "-c",
		filepath.Join(r.dir, "cloud/alone.yaml")}, log: filepath.Join(r.dir, "alone.log")}
	r.t.Cleanup(p.kill)
	r.start(p)
	testrig.Eventually(r.t, "an evaluator that has subscribed", func() bool {
		log, err := os.ReadFile(p.log)
		return err == nil && bytes.Contains(log, []byte("evaluator runs"))
	})
}
