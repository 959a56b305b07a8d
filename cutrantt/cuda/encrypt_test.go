package cuda

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestEncryptLeavesNothing: the device memory that held messages, seeds and small
// polynomials is zero after an encryption, and after one that failed between any
// two of its kernels; so is the memory that messages are staged in, where the GPU reads
// them in place.
func TestEncryptLeavesNothing(t *testing.T) {
	b := gpu(t).(*backend)
	const n2, limbs, k = 16, 3, 3 // with which no secret has the size of a ciphertext, which goes to the same pool
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.newRing(13, benchModuli(t, 13, limbs), cutrantt.Options{})
	do(err)
	key, err := r.NewBatch(2, upTo(limbs), cutrantt.NTT(n2))
	do(err)
	s, err := key.Slice(0, 1, 0, limbs)
	do(err)
	a, err := key.Slice(1, 2, 0, limbs)
	do(err)
	do(r.SampleUniform(s, &[32]byte{1}, 1))
	do(r.SampleUniform(a, &[32]byte{1}, 2))
	op, err := r.Precompute(key)
	do(err)
	rng := rand.New(rand.NewPCG(5, 6))
	var jobs []cutrantt.Encryption
	for i := range k {
		j := cutrantt.Encryption{Message: make([]float64, r.n), Bound: 1 << 40, Seed: &[32]byte{byte(i), 9},
			Mask: &[32]byte{byte(i), 8}}
		for i := range j.Message {
			j.Message[i] = float64(rng.IntN(1<<40) + 1)
		}
		jobs = append(jobs, j)
	}
	kinds := map[string]struct {
		transforms int
		f          func() ([]*cutrantt.Batch, error)
	}{
		"public": {3, func() ([]*cutrantt.Batch, error) {
			return r.EncryptPublic(op, upTo(limbs), cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3}, jobs)
		}},
		"seeded": {1, func() ([]*cutrantt.Batch, error) {
			return r.EncryptSeeded(s, upTo(limbs), cutrantt.EncryptionLabels{E0: 2, Mask: 4}, jobs)
		}},
	}
	for name, kind := range kinds {
		for _, missing := range []string{"", "encrypt_small", "encrypt_forward_9", "encrypt_" + name + "16_9"} {
			saved := b.kernels[missing]
			delete(b.kernels, missing)
			out, err := kind.f()
			if saved != nil {
				b.kernels[missing] = saved
			}
			if (err == nil) != (missing == "") || (err == nil) != (len(out) == k) {
				t.Fatalf("%s without %q: %v, %d results", name, missing, err, len(out))
			}
			// The pool hands the same blocks out again: the records without their
			// public parts, the messages, the small integers, the transforms.
			words := unsafe.Sizeof(job{}) / 4
			messages := k * (int(words) + 2*r.n)
			if b.mapped {
				messages = k * int(words) // the records alone
			}
			for _, buf := range b.staging.free {
				if i := slices.IndexFunc(buf.bytes[:4*k*(int(words)+2*r.n)], func(x byte) bool {
					return x != 0
				}); i >= 0 {
					t.Errorf("%s without %q: byte %d of a staging buffer is %#x", name, missing, i, buf.bytes[i])
				}
			}
			for what, n := range map[string]int{"messages": messages, "small integers": k * 10 * r.n / 4,
				"transforms": kind.transforms * k * limbs * r.n} {
				got := make([]uint32, n)
				do(r.exec(func() error {
					at, err := r.pool.get(n)
					if err != nil {
						return err
					}
					defer r.pool.put(at, n)
					if err := b.drv.CopyOut(bytesOf(got), at, r.pool.stream); err != nil {
						return err
					}
					return b.drv.Wait(r.pool.stream)
				}))
				for i, w := range got {
					// after the seed
					public := what == "messages" && missing == "" && i < k*int(words) && i%int(words) >= 8
					if w != 0 && !public {
						t.Errorf("%s without %q: word %d of the %s is %#x", name, missing, i, what, w)
						break
					}
				}
			}
		}
	}
}

// TestEncryptSlotsLeaveNothing: the values of slots, what the passes of their embedding make of
// them, and their coefficients are zero after an encryption, and after one that failed before any
// of its kernels.
func TestEncryptSlotsLeaveNothing(t *testing.T) {
	b := gpu(t).(*backend)
	const n2, limbs, k = 16, 3, 3
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.newRing(11, benchModuli(t, 11, limbs), cutrantt.Options{})
	do(err)
	s, err := r.NewBatch(1, upTo(limbs), cutrantt.NTT(n2))
	do(err)
	do(r.SampleUniform(s, &[32]byte{1}, 1))
	m := &cutrantt.Embedding{Roots: slices.Repeat([]float64{0.6, 0.8}, r.n/2), Scale: 1 << 20, Each: 2}
	var jobs []cutrantt.Encryption
	for i := range k {
		jobs = append(jobs, cutrantt.Encryption{Message: slices.Repeat([]float64{1.5}, r.n-i), Embedding: m,
			Bound: 1 << 30, Seed: &[32]byte{byte(i), 9}, Mask: &[32]byte{byte(i), 8}})
	}
	for _, missing := range []string{"", "embed_3", "embed_2", "encrypt_small", "encrypt_seeded16_7"} {
		saved := b.kernels[missing]
		delete(b.kernels, missing)
		out, err := r.EncryptSeeded(s, upTo(limbs), cutrantt.EncryptionLabels{E0: 2, Mask: 4}, jobs)
		if saved != nil {
			b.kernels[missing] = saved
		}
		if !r.Encodes() {
			if !errors.Is(err, cutrantt.ErrNotSupported) {
				t.Fatalf("slots where the GPU reads the host's memory: %v", err)
			}
			return
		}
		if (err == nil) != (missing == "") || (err == nil) != (len(out) == k) {
			t.Fatalf("without %q: %v, %d results", missing, err, len(out))
		}
		do(r.Sync())
		words := int(unsafe.Sizeof(job{}) / 4)
		for _, buf := range b.staging.free {
			if slices.ContainsFunc(buf.bytes[:k*(4*words+8*r.n)], func(x byte) bool { return x != 0 }) {
				t.Errorf("without %q: a staging buffer is not zero", missing)
			}
		}
		got := make([]uint32, k*(words+4*r.n))
		do(r.exec(func() error {
			at, err := r.pool.get(len(got)) // the same memory again
			if err != nil {
				return err
			}
			defer r.pool.put(at, len(got))
			return errors.Join(b.drv.CopyOut(bytesOf(got), at, r.pool.stream), b.drv.Wait(r.pool.stream))
		}))
		if missing == "" && got[words-4] == 0 && got[words-3] == 0 { // the second half of a record is public
			t.Error("not the memory that was used")
		}
		if i := slices.IndexFunc(got[k*words:], func(w uint32) bool { return w != 0 }); i >= 0 {
			t.Errorf("without %q: word %d behind the records is %#x", missing, i, got[k*words+i])
		}
	}
}
