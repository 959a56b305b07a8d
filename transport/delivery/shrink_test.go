package delivery

import (
	"testing"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// A broker that acknowledges messages above its limit and drops them is found out, and
// the object arrives in smaller chunks; later ones start with these.
func TestSilentLimit(t *testing.T) {
	url := limited(t, 9<<10)
	end := newFarEnd(t, url)
	s := newSpool(t, t.TempDir())
	for i := range 3 {
		put(t, s, "env", object(uint64(i), 40_000))
	}
	s.Close()
	cr := courier(t, s, dial(t, url, "board"), func(o *Options) {
		o.ChunkSize, o.Receipt = 32<<10, time.Second
	})
	run(t, cr)
	st := cr.Stats()
	if len(end.got) != 3 || st.Delivered != 3 || st.ChunkSize != 8<<10 {
		t.Errorf("%d objects, %+v", len(end.got), st)
	}
	for i := range 3 {
		if n, want := end.chunks[transport.ObjectID(object(uint64(i), 40_000))], 5; n != want && i > 0 {
			t.Errorf("object %d came in %d chunks, want %d", i, n, want)
		}
	}
}

func TestShrink(t *testing.T) {
	s := shrink{full: 20 << 10, size: 20 << 10, sent: map[[32]byte]int{}}
	a, b := [32]byte{1}, [32]byte{2}
	step := func(id [32]byte, want int, shrunk bool) {
		t.Helper()
		s.acknowledged(id)
		if size, ok := s.vanished(id); size != want<<10 || ok != shrunk {
			t.Errorf("chunks of %d bytes, shrunk %v; want %d KiB, %v", size, ok, want, shrunk)
		}
	}
	step(a, 20, false) // once is an accident: a broker or a receiver that was restarted
	s.arrived(a)
	step(a, 20, false)
	step(b, 20, false)
	step(a, 10, true)
	step(b, 5, true)
	step(a, 5, false)
	step(a, 20, true) // no size helps
	for i := range 5000 {
		s.acknowledged([32]byte{byte(i), byte(i >> 8), 1})
	}
	if len(s.sent) > 1024 {
		t.Errorf("%d objects are remembered", len(s.sent))
	}
}
