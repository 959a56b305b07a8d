package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/config"
)

func item(n, size int) Item { return Item{Topic: fmt.Sprint(n), Sealed: make([]byte, size)} }

func TestSpoolOrderAndDrain(t *testing.T) {
	s := NewMemorySpool(config.Queue{Objects: 10, Bytes: 1000, Full: config.QueueDropOldest})
	for i := range 3 {
		if err := s.Put(t.Context(), item(i, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if st := s.Stats(); st != (SpoolStats{Objects: 3, Bytes: 30}) {
		t.Errorf("got %+v", st)
	}
	s.Close()
	s.Close()
	if err := s.Put(t.Context(), item(9, 1)); !errors.Is(err, ErrSpoolClosed) {
		t.Errorf("got %v", err)
	}
	for i := range 3 {
		it, err := s.Next(t.Context())
		again, _ := s.Next(t.Context())
		if err != nil || it.Topic != fmt.Sprint(i) || again.Topic != it.Topic {
			t.Fatalf("got %v then %v, %v", it.Topic, again.Topic, err)
		}
		s.Done()
	}
	s.Done() // nothing is out: no effect
	if _, err := s.Next(t.Context()); !errors.Is(err, ErrSpoolClosed) {
		t.Errorf("got %v", err)
	}
	if st := s.Stats(); st != (SpoolStats{}) {
		t.Errorf("got %+v", st)
	}
}

func TestSpoolFull(t *testing.T) {
	for name, c := range map[string]struct {
		queue config.Queue
		want  []string
		drops uint64
	}{
		"oldest by count": {config.Queue{Objects: 2, Bytes: 1000, Full: config.QueueDropOldest}, []string{"2", "3"}, 2},
		"oldest by bytes": {config.Queue{Objects: 10, Bytes: 25, Full: config.QueueDropOldest}, []string{"2", "3"}, 2},
		"newest":          {config.Queue{Objects: 2, Bytes: 1000, Full: config.QueueDropNewest}, []string{"0", "1"}, 2},
	} {
		s := NewMemorySpool(c.queue)
		for i := range 4 {
			if err := s.Put(t.Context(), item(i, 10)); err != nil && !errors.Is(err, ErrSpoolFull) {
				t.Fatal(err)
			}
		}
		var got []string
		s.Close()
		for {
			it, err := s.Next(t.Context())
			if err != nil {
				break
			}
			got = append(got, it.Topic)
			s.Done()
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) || s.Stats().Dropped != c.drops {
			t.Errorf("%s: got %v, %+v", name, got, s.Stats())
		}
	}
	s := NewMemorySpool(config.Queue{Objects: 5, Bytes: 10, Full: config.QueueDropOldest})
	if err := s.Put(t.Context(), item(0, 11)); !errors.Is(err, ErrSpoolFull) {
		t.Errorf("an object larger than the spool: %v", err)
	}
}

// What is being sent is never dropped under the sender's hands.
func TestSpoolKeepsWhatIsOut(t *testing.T) {
	s := NewMemorySpool(config.Queue{Objects: 2, Bytes: 1000, Full: config.QueueDropOldest})
	for i := range 2 {
		if err := s.Put(t.Context(), item(i, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if it, err := s.Next(t.Context()); err != nil || it.Topic != "0" {
		t.Fatal(it, err)
	}
	if err := s.Put(t.Context(), item(2, 1)); err != nil {
		t.Fatal(err)
	}
	s.Done()
	if it, err := s.Next(t.Context()); err != nil || it.Topic != "2" {
		t.Errorf("got %v, %v; want 2, 1 having been dropped", it.Topic, err)
	}
	one := NewMemorySpool(config.Queue{Objects: 1, Bytes: 1000, Full: config.QueueDropOldest})
	_ = one.Put(t.Context(), item(0, 1))
	_, _ = one.Next(t.Context())
	if err := one.Put(t.Context(), item(1, 1)); !errors.Is(err, ErrSpoolFull) {
		t.Errorf("got %v", err)
	}
}

func TestSpoolBlocks(t *testing.T) {
	s := NewMemorySpool(config.Queue{Objects: 1, Bytes: 1000, Full: config.QueueBlock})
	if err := s.Put(t.Context(), item(0, 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Put(ctx, item(1, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	put := make(chan error, 1)
	go func() { put <- s.Put(t.Context(), item(2, 1)) }()
	if _, err := s.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Done()
	if err := <-put; err != nil {
		t.Errorf("got %v", err)
	}
	go func() { put <- s.Put(t.Context(), item(3, 1)) }()
	s.Close()
	if err := <-put; !errors.Is(err, ErrSpoolClosed) {
		t.Errorf("got %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Several producers and a consumer: everything that was accepted and not
// dropped arrives, each producer's items in order.
func TestSpoolConcurrently(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full := rapid.SampledFrom([]config.QueuePolicy{config.QueueDropOldest, config.QueueDropNewest, config.QueueBlock}).Draw(t, "policy")
		s := NewMemorySpool(config.Queue{Objects: rapid.IntRange(1, 5).Draw(t, "objects"), Bytes: 20, Full: full})
		const producers, each = 3, 20
		var wg sync.WaitGroup
		for p := range producers {
			wg.Go(func() {
				for i := range each {
					if err := s.Put(t.Context(), item(p*1000+i, 1+i%7)); err != nil && !errors.Is(err, ErrSpoolFull) {
						t.Errorf("put: %v", err)
					}
				}
			})
		}
		go func() { wg.Wait(); s.Close() }()
		last := map[int]int{}
		got := 0
		for {
			it, err := s.Next(t.Context())
			if errors.Is(err, ErrSpoolClosed) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var n int
			fmt.Sscan(it.Topic, &n)
			if before, ok := last[n/1000]; ok && n <= before {
				t.Fatalf("%d after %d", n, before)
			}
			last[n/1000] = n
			got++
			s.Done()
		}
		st := s.Stats()
		if got+int(st.Dropped) != producers*each || st.Objects != 0 || st.Bytes != 0 {
			t.Fatalf("%d arrived, %+v", got, st)
		}
		if full == config.QueueBlock && st.Dropped != 0 {
			t.Fatalf("blocking dropped %d", st.Dropped)
		}
	})
}
