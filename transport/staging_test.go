package transport

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/pieces"
	"github.com/hencedge/hencedge/internal/testrig"
)

// TestStagedObjectsCount: complete objects count against the bounds until they are
// worked off; what does not fit beside them waits, and nothing is lost.
func TestStagedObjectsCount(t *testing.T) {
	staged := make(chan Staged, 10)
	r := NewReceiver(Limits{MaxObject: 2000, TopicBytes: 2000, MaxBytes: 4000}, func(s Staged) error {
		if s.Took <= 0 {
			t.Errorf("object of %d bytes took %v", len(s.Sealed), s.Took)
		}
		staged <- s
		return nil
	})
	object := func(i int) []byte { return chunksOf(t, testrig.Pattern(900+i), 0)[0] }
	for i := range 4 { // two topics, both full
		feed(t, r, fmt.Sprint("t", i/2), object(i), nil)
	}
	if _, b := r.pending(); b != 900+901+902+903 || len(staged) != 4 {
		t.Fatalf("%d bytes held, %d objects staged", b, len(staged))
	}
	fed := make(chan error, 2)
	go func() { fed <- r.Feed("t0", object(5)) }()
	go func() { fed <- r.Feed("t2", object(6)) }()
	for range 1000 { // both wait, and have kept nothing
		if _, b := r.pending(); b != 900+901+902+903 || len(fed) > 0 {
			t.Fatal("fed beyond the bounds")
		}
		runtime.Gosched()
	}
	for range 4 { // each gives room for one at most
		s := <-staged
		s.Done()
		s.Done() // nothing more
	}
	for range 2 {
		if err := <-fed; err != nil {
			t.Fatal(err)
		}
		(<-staged).Done()
	}
	if n, b := r.pending(); n != 0 || b != 0 || busy(r) != 0 || r.staged != (use{}) {
		t.Errorf("%d objects, %d bytes left", n, b)
	}
	if refused := r.Counters().Refused("evicted") + r.Counters().Refused("limit"); refused != 0 {
		t.Errorf("%d refused", refused)
	}
}

// TestStagedObjectsAtTheEnd: Close ends waits; what waited was not taken.
func TestStagedObjectsAtTheEnd(t *testing.T) {
	r := NewReceiver(Limits{TopicObjects: 1}, func(Staged) error { return nil })
	feed(t, r, "t", chunksOf(t, testrig.Pattern(10), 0)[0], nil)
	fed := make(chan error)
	go func() {
		fed <- r.Feed("t", chunksOf(t, testrig.Pattern(11), 0)[0])
		fed <- r.Feed("t", chunksOf(t, testrig.Pattern(12), 0)[0])
	}()
	r.Close()
	for range 2 {
		if err := <-fed; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

// TestStagedObjectsThatFail: a handler that fails, and a wrong hash, give the room back.
func TestStagedObjectsThatFail(t *testing.T) {
	fail := errors.New("no")
	r := NewReceiver(Limits{}, func(Staged) error { return fail })
	feed(t, r, "t", chunksOf(t, testrig.Pattern(10), 0)[0], ErrHandler)
	bad := chunksOf(t, testrig.Pattern(10), 0)[0]
	bad[len(bad)-1] ^= 1
	feed(t, r, "t", bad, ErrHash)
	if _, b := r.pending(); b != 0 || len(r.topics) != 0 {
		t.Errorf("%d bytes, %d topics left", b, len(r.topics))
	}
}

// TestFairShares: a topic that holds many objects, or many finished ones, loses its own
// before it costs another topic any.
func TestFairShares(t *testing.T) {
	now := time.Unix(1000, 0)
	var s sink
	r := newReceiver(Limits{MaxObjects: 8, TopicObjects: 4, Remember: 8, Now: func() time.Time { return now }}, s.take)
	large := chunksOf(t, testrig.Pattern(9000), 1024)
	for _, b := range large[:len(large)-1] {
		feed(t, r, "honest", b, nil)
	}
	done := chunksOf(t, testrig.Pattern(100), 0)[0]
	feed(t, r, "honest", done, nil)
	for i := range 40 { // first chunks of many small objects, and whole ones
		now = now.Add(time.Second)
		topic := fmt.Sprint("hostile", i%3)
		feed(t, r, topic, firstChunk(t, i), nil)
		feed(t, r, topic, chunksOf(t, testrig.Pattern(200+i), 0)[0], nil)
	}
	feed(t, r, "honest", done, ErrReplayed)
	feed(t, r, "honest", large[len(large)-1], nil)
	if n := s.count("honest"); n != 2 {
		t.Errorf("%d honest objects arrived, want 2", n)
	}
}

// TestOpenStaged: what a Receiver put together is verified in its place, and is the same
// afterwards, whether it is taken or refused.
func TestOpenStaged(t *testing.T) {
	v := testVerifier(t, testOptions(t))
	sealed := mustSeal(t, testReading(1), testrig.Pattern(5000), testKey(t, "board-7"))
	topic := ReadingTopic(DefaultPrefix, "board-7", "vibration")
	forged := bytes.Clone(sealed)
	forged[len(forged)-1] ^= 1
	other := bytes.Clone(sealed)
	other[1000] ^= 1
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(b []byte) []byte {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	long := append([]byte{0x82, 0x5a, 0, 1, 0, 0}, fill(make([]byte, 5000))...) // a body of 65536 bytes
	for name, tc := range map[string]struct {
		sealed []byte
		chunk  int
		topic  string
		want   error
	}{
		"no array":         {fill(make([]byte, 5000)), MinChunkSize, topic, ErrMalformed},
		"no body":          {append([]byte{0x82, 0x01}, sealed...), MinChunkSize, topic, ErrMalformed},
		"a longer body":    {long, MinChunkSize, topic, ErrTruncated},
		"no envelope":      {append([]byte{0x82, 0x40}, sealed...), MinChunkSize, topic, ErrMalformed},
		"the first format": {append([]byte{0xd2}, sealed...), MinChunkSize, topic, ErrDowngraded},
		"in pieces":        {sealed, MinChunkSize, topic, nil},
		"whole":            {sealed, 0, topic, nil},
		"forged signature": {forged, MinChunkSize, topic, ErrSignature},
		"forged body":      {other, MinChunkSize, topic, ErrSignature},
		"forged and whole": {other, 0, topic, ErrSignature},
		"cut":              {sealed[:len(sealed)-40], MinChunkSize, topic, ErrTruncated},
		"another topic":    {sealed, MinChunkSize, topic + "x", ErrWrongTopic},
		"no topic":         {sealed, MinChunkSize, "", ErrWrongTopic},
	} {
		for _, apart := range []bool{false, true} {
			var got Staged
			r := NewReceiver(Limits{}, func(s Staged) error {
				got = s
				return nil
			})
			if apart {
				r.Apart()
			}
			chunks := chunksOf(t, tc.sealed, tc.chunk)
			for _, c := range chunks {
				feed(t, r, tc.topic, c, nil)
			}
			if inPieces := got.Pieces != nil; inPieces != (apart && len(chunks) > 1) {
				t.Errorf("%s: in pieces: %v", name, inPieces)
			}
			obj, err := v.OpenStaged(got)
			if !errors.Is(err, tc.want) {
				t.Fatalf("%s: %v, want %v", name, err, tc.want)
			}
			if !bytes.Equal(got.Whole(), tc.sealed) || got.Size() != len(tc.sealed) ||
				!bytes.HasPrefix(tc.sealed, got.Begin()) {
				t.Errorf("%s: the object has changed", name)
			}
			if err != nil {
				if _, want := v.OpenFrom(tc.topic, tc.sealed); want == nil || err.Error() != want.Error() {
					t.Errorf("%s: %v, where OpenFrom says %v", name, err, want)
				}
				continue
			}
			v.Forget(obj)
			want, err := v.OpenFrom(tc.topic, tc.sealed)
			if err != nil || obj.ID != want.ID || obj.Signer != want.Signer ||
				!bytes.Equal(pieces.Join(obj.InPieces()), want.Body) {
				t.Errorf("%s: differs from what OpenFrom gives, %v", name, err)
			}
			v.Forget(want)
		}
	}
}

// TestApart: the pieces of an object are those of the payloads, without a copy, and stay as they are when others
// follow. Chunks of another object, or of no object, are refused as ever, and what they were meant to replace arrives
// when it comes again.
func TestApart(t *testing.T) {
	var all []Staged
	r := NewReceiver(Limits{}, func(s Staged) error {
		all = append(all, s)
		return nil
	})
	r.Apart()
	var sent [][]byte
	for i := range 20 {
		object := testrig.Pattern(4000 + 100*i)
		chunks := chunksOf(t, object, MinChunkSize)
		own, err := UnmarshalChunk(chunks[1], 0)
		if err != nil {
			t.Fatal(err)
		}
		foreign := *own
		foreign.Data = bytes.Clone(own.Data)
		foreign.Data[0] ^= 1
		wrong, err := foreign.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		feed(t, r, "up", chunks[0], nil)
		feed(t, r, "up", wrong, nil)
		if err := r.Feed("up", chunks[1][:len(chunks[1])-1]); !errors.Is(err, ErrTruncated) {
			t.Fatalf("a chunk that was cut: %v", err)
		}
		feed(t, r, "up", chunks[1], ErrConflict)
		for k, c := range chunks[2:] {
			var want error
			if k == len(chunks)-3 {
				want = ErrHash // all of it is dropped
			}
			feed(t, r, "up", c, want)
		}
		if len(all) != i {
			t.Fatal("an object with a foreign chunk arrived")
		}
		for _, c := range chunks {
			feed(t, r, "up", c, nil)
		}
		if len(all) != i+1 || len(all[i].Pieces) != len(chunks) {
			t.Fatalf("object %d did not arrive in its %d pieces", i, len(chunks))
		}
		for k, p := range all[i].Pieces {
			if end := &chunks[k][len(chunks[k])-1]; &p[len(p)-1] != end {
				t.Fatalf("piece %d of object %d is a copy", k, i)
			}
		}
		all[i].Done()
		sent = append(sent, object)
	}
	for i, s := range all {
		if !bytes.Equal(s.Whole(), sent[i]) {
			t.Errorf("object %d has changed", i)
		}
	}
	if objects, held := r.pending(); objects != 0 || held != 0 {
		t.Errorf("%d objects, %d bytes are held", objects, held)
	}
}
