package bfv_test

import (
	"errors"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/backendtest"
	"github.com/hencedge/hencedge/henc"
)

// lame is a backend whose rings fail once they are told to.
type lame struct {
	cutrantt.Backend
	rings []*lameRing
}

type lameRing struct {
	cutrantt.Ring
	fails       bool
	freed, left int // batches that were freed since, and those of them that were not zero
}

var errLame = errors.New("it fails")

func (l *lame) NewRing(logN int, m []cutrantt.Modulus, o cutrantt.Options) (cutrantt.Ring, error) {
	r, err := l.Backend.NewRing(logN, m, o)
	if err != nil {
		return nil, err
	}
	l.rings = append(l.rings, &lameRing{Ring: r})
	return l.rings[len(l.rings)-1], nil
}

func (r *lameRing) Inverse(dst, src *cutrantt.Batch) error {
	if r.fails {
		return errLame
	}
	return r.Ring.Inverse(dst, src)
}

func (r *lameRing) Free(b *cutrantt.Batch) {
	if r.fails {
		r.freed++
		words := make([]uint32, b.Len())
		if err := r.Download(words, b); err != nil {
			r.left++
		}
		for _, w := range words {
			if w != 0 {
				r.left++
				break
			}
		}
	}
	r.Ring.Free(b)
}

// TestWipedAfterErrors: a decryption that fails half-way frees nothing that it has not wiped.
func TestWipedAfterErrors(t *testing.T) {
	l := &lame{Backend: backendtest.New(t)}
	r := newRig(t, toy(t, 65537), henc.WithBackend(l))
	ct := r.slots(t, r.values(r.p.N(), 1))
	ring := l.rings[0]
	ring.fails = true
	if _, err := r.dec.Decrypt(ct); !errors.Is(err, errLame) {
		t.Fatalf("decrypted: %v", err)
	}
	if ring.freed < 2 || ring.left > 0 {
		t.Errorf("%d of %d freed batches were not wiped", ring.left, ring.freed)
	}
}
