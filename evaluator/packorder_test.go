package evaluator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// packOrder is a service that does not run: the test takes windows and does the jobs.
type packOrder struct {
	*rig   // for its keys
	s      *Service
	stored *stored
	ids    [][32]byte // of the windows
	done   sync.WaitGroup
}

func newPackOrder(t *testing.T) *packOrder {
	t.Helper()
	cfg := packConfig(t, t.TempDir(), 2, 10*time.Minute, prog("mean", "mean(x)", inputs("d1/count/temp")))
	o := &packOrder{rig: newRig(t, cfg)}
	own := *cfg
	own.Store = &config.Store{Dir: t.TempDir()}
	own.SetDefaults()
	o.cfg, own.State = &own, t.TempDir()+"/state"
	o.open()
	return o
}

// open starts a service, after the one before was closed.
func (o *packOrder) open() {
	o.t.Helper()
	s, err := New(o.cfg, Deps{SigningKey: signer(o.t, "cloud"),
		Keys: []engine.Keys{{Context: o.ctx, Evaluation: o.keys}}, Logger: testrig.Quiet()})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = s.Close() })
	o.s, o.stored = s, s.custody.(*stored)
}

// take takes the next n windows.
func (o *packOrder) take(n int) {
	o.t.Helper()
	for range n {
		seq := uint64(len(o.ids) + 1)
		w := o.window("d1", "count", seq, epoch, numbers(8, 20+float64(seq), 1), numbers(8, 0, 0.1))
		sealed := o.seal(w)
		staged := transport.Staged{Topic: w.topic, Sealed: sealed, ID: transport.ObjectID(sealed)}
		o.ids = append(o.ids, staged.ID)
		o.s.custody.take(o.t.Context(), staged, o.s.custody.verify(staged))
	}
}

// work does n jobs at the same time.
func (o *packOrder) work(ctx context.Context, n int) {
	for range n {
		j, _ := o.s.jobs.pop()
		o.done.Go(func() { _ = o.s.work(ctx, j) })
	}
}

// closeOpen closes the open pack, which the test has to publish.
func (o *packOrder) closeOpen() *pack {
	k := o.s.packs
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.open {
		return k.close(p)
	}
	return nil
}

// newest returns the pack that was closed last, unless that is not full.
func (o *packOrder) newest() *pack {
	k := o.s.packs
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.last {
		if len(p.results) == k.size {
			return p
		}
	}
	return nil
}

// store returns how many windows are in the store, and checks the results there: those of all windows until last,
// once each, in order, with numbers that grow by one, in so many packs.
func (o *packOrder) store(last, packs int) (windows int64) {
	o.t.Helper()
	store := o.stored.store
	entries := store.Results.Outbox().Entries()
	if len(entries) != packs {
		o.t.Errorf("%d packs, want %d", len(entries), packs)
	}
	var ids [][32]byte
	for i, e := range entries {
		l := store.Results.Outbox().Take(e.Stream, e.Number)
		sealed, err := l.Sealed()
		if err != nil {
			o.t.Fatal(err)
		}
		l.Return(0)
		m, _, err := transport.Peek(sealed)
		if err != nil || m.Sequence != uint64(i+1) {
			o.t.Errorf("pack %d has number %d: %v", i+1, m.Sequence, err)
		}
		results, err := transport.PeekResults(sealed)
		if err != nil {
			o.t.Fatal(err)
		}
		for _, r := range results {
			ids = append(ids, r.Inputs...)
			if r.Sequence != uint64(len(ids)) {
				o.t.Errorf("result %d has number %d", len(ids), r.Sequence)
			}
		}
	}
	if !slices.Equal(ids, o.ids[:last]) {
		o.t.Errorf("results of windows %x, want %x", ids, o.ids[:last])
	}
	return store.Stats().Windows
}

// slowPack is custody whose first pack takes long to be signed: until others packs have been signed, and a while more.
type slowPack struct {
	*stored
	first  [32]byte // a window of that pack
	others chan struct{}
	want   int
}

func (c *slowPack) publishPack(ctx context.Context, jobs []*job, seal sealPack) (*result, error) {
	return c.stored.publishPack(ctx, jobs, func() (*result, []transport.Meta, error) {
		if jobs[0].ids()[0] != c.first {
			c.others <- struct{}{}
			return seal()
		}
		for range c.want {
			select {
			case <-c.others:
			case <-time.After(testrig.Patience):
				return nil, nil, errors.New("no other pack is signed meanwhile")
			}
		}
		time.Sleep(100 * time.Millisecond) // for others to overtake
		return seal()
	})
}

// TestPacksKeepOrder: a pack waits for the numbers of the one before it, even if that is made later. Then packs are
// signed at the same time, and are handed over in order, even if the first takes longest.
func TestPacksKeepOrder(t *testing.T) {
	o, ctx := newPackOrder(t), t.Context()
	o.take(5)
	o.s.custody = &slowPack{stored: o.stored, first: o.ids[0], others: make(chan struct{}, 2), want: 2}
	o.work(ctx, 1)
	o.done.Wait()
	first := o.closeOpen()
	var later []*pack
	for range 2 {
		o.work(ctx, 2)
		testrig.Eventually(t, "a full pack", func() bool {
			p := o.newest()
			return p != nil && !slices.Contains(later, p)
		})
		later = append(later, o.newest())
	}
	time.Sleep(100 * time.Millisecond) // for others to overtake
	for i, p := range later {
		select {
		case <-p.numbered:
			t.Errorf("pack %d did not wait for the numbers of the first", i+2)
		default:
		}
	}
	if n := o.store(0, 0); n != 5 {
		t.Errorf("%d windows in the store before the first pack, want 5", n)
	}
	o.s.publishPack(ctx, first)
	o.done.Wait()
	o.store(5, 3)
	if s := o.s.Stats(); s.Packs != 3 || s.Results != 5 || s.Failed != 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestPacksAtTheStopTimeout: a pack that was given up is not overtaken by the next one. After a restart the results of
// both are made, each once, in order.
func TestPacksAtTheStopTimeout(t *testing.T) {
	o := newPackOrder(t)
	working, stop := context.WithCancel(t.Context())
	o.take(3)
	o.work(working, 1)
	o.done.Wait()
	first := o.closeOpen()
	o.work(working, 2)
	testrig.Eventually(t, "a full pack", func() bool { return o.newest() != nil })
	stop()
	o.s.publishPack(working, first)
	o.done.Wait()
	if n := o.store(0, 0); n != 3 {
		t.Errorf("%d windows in the store after the stop, want 3", n)
	}
	over := make(chan struct{})
	close(over)
	for range 100 { // whichever a select would choose
		if err := await(working, over); !errors.Is(err, context.Canceled) {
			t.Fatalf("after a pack that was given up: %v", err)
		}
	}
	if err := o.s.Close(); err != nil {
		t.Fatal(err)
	}

	o.open()
	o.s.custody.resume(t.Context())
	o.work(t.Context(), 3)
	testrig.Eventually(t, "the third result waits in a pack", func() bool {
		k := o.s.packs
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.open) == 1 && len(k.last) == 1
	})
	o.s.packs.drain(t.Context())
	o.done.Wait()
	o.store(3, 2)
}
