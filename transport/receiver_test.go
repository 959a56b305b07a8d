package transport

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/internal/testrig"
)

// sink collects what a Receiver hands on.
type sink struct {
	mu   sync.Mutex
	got  map[string][][]byte
	fail error
}

func (s *sink) take(topic string, sealed []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	if s.got == nil {
		s.got = make(map[string][][]byte)
	}
	s.got[topic] = append(s.got[topic], sealed)
	return nil
}

func (s *sink) count(topic string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got[topic])
}

// newReceiver returns a receiver whose objects are worked off as soon as onObject returns.
func newReceiver(limits Limits, onObject func(topic string, sealed []byte) error) *Receiver {
	return NewReceiver(limits, func(s Staged) error {
		defer s.Done()
		return onObject(s.Topic, s.Sealed)
	})
}

func feed(t *testing.T, r *Receiver, topic string, b []byte, want error) {
	t.Helper()
	if err := r.Feed(topic, b); !errors.Is(err, want) || (err == nil) != (want == nil) {
		t.Fatalf("feed: %v, want %v", err, want)
	}
}

// TestReceiverAnyOrder: chunks of several objects on several topics, shuffled
// and partly repeated, give every object once and leave nothing behind.
// busy is the number of topics that hold an object.
func busy(r *Receiver) (n int) {
	for _, t := range r.topics {
		if t.objects() > 0 {
			n++
		}
	}
	return n
}

func TestReceiverAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type item struct {
			topic string
			b     []byte
		}
		var all []item
		objects := map[string][]byte{}
		for i := range rapid.IntRange(1, 5).Draw(t, "objects") {
			object := testrig.Pattern(rapid.IntRange(1, 20_000).Draw(t, "size") + i)
			topic := fmt.Sprint("t", i)
			objects[topic] = object
			pieces, err := Split(object, rapid.IntRange(MinChunkSize, 4096).Draw(t, "chunk size"))
			if err != nil {
				t.Fatal(err)
			}
			for j := range pieces {
				b, err := pieces[j].Marshal()
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, item{topic, b})
				if len(pieces) > 1 && j == 0 && rapid.Bool().Draw(t, "again") {
					all = append(all, item{topic, b})
				}
			}
		}
		var s sink
		r := newReceiver(Limits{}, s.take)
		for _, it := range rapid.Permutation(all).Draw(t, "order") {
			if err := r.Feed(it.topic, it.b); err != nil {
				t.Fatal(err)
			}
		}
		for topic, object := range objects {
			if len(s.got[topic]) != 1 || !bytes.Equal(s.got[topic][0], object) {
				t.Fatalf("%s: %d objects", topic, len(s.got[topic]))
			}
		}
		if n, b := r.pending(); n != 0 || b != 0 || busy(r) != 0 {
			t.Fatalf("%d objects, %d bytes, %d topics left", n, b, busy(r))
		}
		if r.Counters().accepted.Load() != uint64(len(objects)) {
			t.Fatal("counted", r.Counters().accepted.Load())
		}
	})
}

func TestReceiverRefuses(t *testing.T) {
	object := testrig.Pattern(5000)
	chunks := chunksOf(t, object, 2048)
	remake := func(i int, f func(*Chunk)) []byte {
		c, err := UnmarshalChunk(bytes.Clone(chunks[i]), 0)
		if err != nil {
			t.Fatal(err)
		}
		f(c)
		b, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var s sink
	r := newReceiver(Limits{MaxObject: 6000}, s.take)
	feed(t, r, "t", chunks[0], nil)
	feed(t, r, "t", chunks[0], nil)
	if r.Counters().duplicates.Load() != 1 {
		t.Error("a repeated chunk was not counted")
	}
	feed(t, r, "t", remake(0, func(c *Chunk) { c.Data[7] ^= 1 }), ErrConflict)
	feed(t, r, "t", remake(1, func(c *Chunk) { c.Size-- }), ErrConflict)
	feed(t, r, "t", []byte("garbage"), ErrMalformed)
	feed(t, r, "t", chunks[1][:100], ErrTruncated)
	feed(t, r, "t", remake(0, func(c *Chunk) { c.Size, c.Total, c.Data = 9000, 3, make([]byte, 3000) }), ErrTooLarge)
	feed(t, r, "other", chunks[1], nil) // another topic is another object
	feed(t, r, "t", chunks[2], nil)
	feed(t, r, "t", chunks[1], nil)
	if s.count("t") != 1 || s.count("other") != 0 {
		t.Fatal("the object did not arrive undisturbed")
	}
	// A single repetition is harmless; the whole object again is a replay.
	feed(t, r, "t", chunks[1], nil)
	feed(t, r, "t", chunks[1], nil)
	feed(t, r, "t", chunks[0], nil)
	feed(t, r, "t", chunks[2], ErrReplayed)
	feed(t, r, "t", chunks[2], nil)
	if s.count("t") != 1 {
		t.Error("delivered again")
	}
	for label, want := range map[string]uint64{"conflict": 2, "malformed": 1, "truncated": 1, "too_large": 1,
		"replayed": 1} {
		if got := r.Counters().Refused(label); got != want {
			t.Errorf("%s counted %d times, want %d", label, got, want)
		}
	}
}

// TestReceiverHash: a forged chunk that comes first spoils one attempt only.
func TestReceiverHash(t *testing.T) {
	object := testrig.Pattern(5000)
	chunks := chunksOf(t, object, 2048)
	c, err := UnmarshalChunk(bytes.Clone(chunks[1]), 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Data[0] ^= 1
	forged, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var s sink
	r := newReceiver(Limits{}, s.take)
	feed(t, r, "t", forged, nil)
	feed(t, r, "t", chunks[1], ErrConflict)
	feed(t, r, "t", chunks[0], nil)
	feed(t, r, "t", chunks[2], ErrHash)
	if n, b := r.pending(); n != 0 || b != 0 {
		t.Fatalf("%d objects, %d bytes left", n, b)
	}
	for _, b := range chunks {
		feed(t, r, "t", b, nil)
	}
	if s.count("t") != 1 {
		t.Error("the object did not arrive the second time")
	}
	single := chunksOf(t, testrig.Pattern(100), 0)[0]
	single[len(single)-1] ^= 1
	feed(t, r, "t", single, ErrHash)
}

func TestReceiverHandlerError(t *testing.T) {
	s := sink{fail: errors.New("disk full")}
	r := newReceiver(Limits{}, s.take)
	b := chunksOf(t, testrig.Pattern(100), 0)[0]
	if err := r.Feed("t", b); !errors.Is(err, ErrHandler) || !errors.Is(err, s.fail) {
		t.Fatal(err)
	}
	s.fail = nil
	feed(t, r, "t", b, nil)
	if s.count("t") != 1 || r.Counters().accepted.Load() != 1 {
		t.Error("not delivered after the handler recovered")
	}
}

// firstChunk returns the first chunk of object number i, of two halves of 1000 bytes.
func firstChunk(t *testing.T, i int) []byte {
	t.Helper()
	c := Chunk{Object: sha256.Sum256([]byte{byte(i), byte(i >> 8)}), Total: 2, Size: 2000, Data: make([]byte, 1000)}
	b, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReceiverEviction(t *testing.T) {
	var s sink
	now := time.Unix(0, 0)
	r := newReceiver(Limits{MaxObject: 10_000, TopicObjects: 3, MaxObjects: 5, TopicBytes: 20_000, MaxAge: time.Minute,
		Now: func() time.Time { return now }}, s.take)
	victim := chunksOf(t, testrig.Pattern(5000), 2048)
	feed(t, r, "quiet", victim[0], nil)
	for i := range 50 { // one topic floods: it only evicts itself
		feed(t, r, "flood", firstChunk(t, i), nil)
		if n, b := r.pending(); n > 4 || b > 20_000 {
			t.Fatalf("%d objects, %d bytes", n, b)
		}
	}
	if got := r.Counters().Refused("evicted"); got != 47 {
		t.Errorf("%d evictions, want 47", got)
	}
	for i := range 3 { // the bound of all is reached: the topic with most bytes pays
		feed(t, r, fmt.Sprint("more", i), firstChunk(t, 100+i), nil)
	}
	feed(t, r, "quiet", victim[1], nil)
	feed(t, r, "quiet", victim[2], nil)
	if s.count("quiet") != 1 {
		t.Error("the quiet sender's object was evicted by others")
	}
	now = now.Add(59 * time.Second)
	if n := r.Expire(); n != 0 {
		t.Errorf("%d expired early", n)
	}
	now = now.Add(2 * time.Second)
	if n := r.Expire(); n != 4 {
		t.Errorf("%d expired, want 4", n)
	}
	if n, b := r.pending(); n != 0 || b != 0 || busy(r) != 0 {
		t.Errorf("%d objects, %d bytes left", n, b)
	}
}

func TestReceiverByteBounds(t *testing.T) {
	var s sink
	r := newReceiver(Limits{MaxObject: 10_000, TopicBytes: 2_500, MaxBytes: 4_000}, s.take)
	for i := range 20 {
		feed(t, r, fmt.Sprint("t", i%7), firstChunk(t, i), nil)
		if _, b := r.pending(); b > 4_000 {
			t.Fatalf("%d bytes kept", b)
		}
	}
	// An object that alone exceeds its topic's bytes is refused, not looped over.
	big := chunksOf(t, testrig.Pattern(9000), 2048)
	feed(t, r, "big", big[0], nil)
	feed(t, r, "big", big[1], ErrLimit)
	feed(t, newReceiver(Limits{TopicBytes: 500}, s.take), "t", firstChunk(t, 0), ErrLimit)
	one := newReceiver(Limits{MaxBytes: 1500, MaxObject: 1000, TopicBytes: 9000}, s.take)
	feed(t, one, "t", firstChunk(t, 0), ErrTooLarge)
}

func TestReceiverRemembersBounded(t *testing.T) {
	var s sink
	r := newReceiver(Limits{Remember: 10}, s.take)
	for i := range 100 {
		feed(t, r, "t", chunksOf(t, testrig.Pattern(100+i), 0)[0], nil)
	}
	if len(r.done) != 10 {
		t.Errorf("%d objects remembered", len(r.done))
	}
	feed(t, r, "t", chunksOf(t, testrig.Pattern(199), 0)[0], ErrReplayed)
	feed(t, r, "t", chunksOf(t, testrig.Pattern(100), 0)[0], nil) // forgotten: Open's replay guard is the judge
}

// TestReceiverRemembersFairly: the topic that holds the most finished objects loses one, of equal
// ones that with the oldest, whatever was finished and forgotten before.
func TestReceiverRemembersFairly(t *testing.T) {
	const limit = 12
	rng := rand.New(rand.NewPCG(3, 1))
	var s sink
	r := newReceiver(Limits{Remember: limit}, s.take)
	var held []partKey // oldest first
	drop := func(i int) { held = append(held[:i:i], held[i+1:]...) }
	for n := range 600 {
		if len(held) > 0 && rng.IntN(4) == 0 {
			i := rng.IntN(len(held))
			r.Forget(held[i].topic, held[i].id)
			drop(i)
		}
		topic, object := fmt.Sprint("t", rng.IntN(1+n/60)), testrig.Pattern(100+n)
		feed(t, r, topic, chunksOf(t, object, 0)[0], nil)
		if held = append(held, partKey{topic, ObjectID(object)}); len(held) > limit {
			of := map[string]int{}
			for _, k := range held {
				of[k.topic]++
			}
			worst := 0
			for i, k := range held {
				if of[k.topic] > of[held[worst].topic] {
					worst = i
				}
			}
			drop(worst)
		}
		if len(r.done) != len(held) {
			t.Fatalf("after %d objects %d are remembered, want %d", n+1, len(r.done), len(held))
		}
		for _, k := range held {
			if r.done[k] == nil {
				t.Fatalf("after %d objects one of %s is forgotten", n+1, k.topic)
			}
		}
	}
}

func TestReceiverConcurrent(t *testing.T) {
	var s sink
	r := newReceiver(Limits{}, s.take)
	var wg sync.WaitGroup
	for w := range 8 {
		var chunks [][]byte
		for i := range 10 {
			chunks = append(chunks, chunksOf(t, testrig.Pattern(6000+i*8+w), 2048)...)
		}
		rand.New(rand.NewPCG(1, uint64(w))).Shuffle(len(chunks), func(i, j int) {
			chunks[i], chunks[j] = chunks[j],
				chunks[i]
		})
		for half := range 2 {
			wg.Go(func() {
				for i := half; i < len(chunks); i += 2 {
					if err := r.Feed(fmt.Sprint("t", w), chunks[i]); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	for w := range 8 {
		if n := s.count(fmt.Sprint("t", w)); n != 10 {
			t.Errorf("topic %d: %d objects", w, n)
		}
	}
}

// TestObjectHash: however an object is cut, its hashes are those of the whole, also if it is none.
func TestObjectHash(t *testing.T) {
	sealed := mustSeal(t, testReading(7), testrig.Pattern(2000), testKey(t, "board-7"))
	long := append([]byte{0x82, 0x5a, 0xff, 0xff, 0xff, 0xff}, sealed...) // says more than there is
	for name, b := range map[string][]byte{"object": sealed, "no object": testrig.Pattern(1500), "long": long,
		"empty body": append([]byte{0x82, 0x40}, testrig.Pattern(600)...)} {
		front, _, _, _ := cutFront(b)
		id, digest := hashObject(b)
		if id != ObjectID(b) || digest != sha256.Sum256(front) {
			t.Errorf("%s: the hashes of the whole are wrong", name)
		}
		for _, piece := range []int{256, 300, len(front), 1999, len(b)} {
			if piece < minChunkData {
				continue
			}
			h := newObjectHash(len(b))
			for some := range slices.Chunk(b, piece) {
				h.write(some)
			}
			if gotID, got := h.sums(); gotID != id || got != digest {
				t.Errorf("%s in pieces of %d: other hashes", name, piece)
			}
		}
	}
}
