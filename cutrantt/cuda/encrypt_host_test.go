package cuda

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
)

// TestEncryptStaging: whichever call of the driver fails, no message and no seed
// stays in the pinned memory that it went through, and where the last kernel was
// not queued, none in the device's memory. The driver is one for tests, whose
// kernels do nothing.
func TestEncryptStaging(t *testing.T) {
	for _, mode := range []string{"device", "mapped"} {
		t.Run(mode, func(t *testing.T) { encryptStaging(t, mode) })
	}
}

func encryptStaging(t *testing.T, mode string) {
	t.Setenv(MemoryVariable, mode)
	t.Setenv(TuningVariable, "off")
	d := cudatest.New(t)
	d.Working()
	d.Use()
	b, err := open(0)
	if err != nil {
		t.Fatal(err)
	}
	const limbs, n2 = 2, 16
	rng := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		call  string
		skips []int // calls of it that work
	}{
		{"none", []int{0}}, {"cuMemAlloc_v2", []int{0, 20, 33}}, {"cuMemAllocHost_v2", []int{0}},
		{"cuMemcpyHtoDAsync_v2", []int{0, 2}},
		{"cuEventRecord", []int{0, 1}}, {"cuLaunchKernel", []int{0, 1, 2, 4, 8}}, {"cuEventSynchronize", []int{0, 1}},
	} {
		if mode == "mapped" && c.call == "cuMemAlloc_v2" { // where ciphertexts lie
			c.call, c.skips = "cuMemHostAlloc", []int{0, 20}
		}
		for _, skip := range c.skips {
			d.Set()
			r, err := b.newRing(13, benchModuli(t, 13, limbs), cutrantt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			key, err := r.NewBatch(2, upTo(limbs), cutrantt.NTT(n2))
			if err != nil {
				t.Fatal(err)
			}
			op, err := r.Precompute(key)
			if err != nil {
				t.Fatal(err)
			}
			var kept []*cutrantt.Batch // so that the pool gets nothing back
			run := func(k int) error {
				var jobs []cutrantt.Encryption
				for i := range k {
					j := cutrantt.Encryption{Message: make([]float64, r.n), Bound: 1 << 40,
						Seed: &[32]byte{byte(i), 9, 30: 1}}
					for i := range j.Message {
						j.Message[i] = float64(rng.IntN(1<<40) + 1)
					}
					jobs = append(jobs, j)
				}
				out, err := r.EncryptPublic(op, upTo(limbs), cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3}, jobs)
				kept = append(kept, out...)
				if (err == nil) != (len(out) == k) {
					t.Errorf("%d results and %v", len(out), err)
				}
				return err
			}
			const k = 33                   // more than one window
			if err := run(1); err != nil { // tables and lists
				t.Fatal(err)
			}
			for _, buf := range b.staging.free {
				clear(buf.bytes)
			}
			count := 1
			switch c.call {
			case "cuMemAllocHost_v2":
				b.staging.free = nil
			case "cuMemAlloc_v2", "cuMemHostAlloc":
				count = 1 << 30 // the pool tries again
			}
			d.Set(fmt.Sprintf("fail %s 2 %d %d", c.call, skip, count))
			err = run(k)
			d.Set()
			if (err == nil) != (c.call == "none") {
				t.Errorf("%s fails after %d: %v", c.call, skip, err)
			}
			if c.call != "cuMemAllocHost_v2" && len(b.staging.free) == 0 {
				t.Errorf("%s fails after %d: no staging buffer came back", c.call, skip)
			}
			for _, buf := range b.staging.free {
				for i, x := range buf.bytes {
					if x != 0 {
						t.Fatalf("%s fails after %d: byte %d of a staging buffer is %#x", c.call, skip, i, x)
					}
				}
			}
			runtime.KeepAlive(kept)
			if err == nil || c.call == "cuEventSynchronize" {
				continue // the kernels wipe the device's memory, if they do anything
			}
			windows := (k + windowBytes/(int(unsafe.Sizeof(job{}))+8*r.n) -
				1) / (windowBytes / (int(unsafe.Sizeof(job{})) + 8*r.n))
			most := (k + windows - 1) / windows
			words := int(unsafe.Sizeof(job{})) / 4 // with the seeds
			if mode == "device" {
				words += 2 * r.n
			}
			zeroBlocks(t, r, most*words, fmt.Sprintf("%s fails after %d", c.call, skip))
		}
	}
}

// zeroBlocks fails unless the free block of this size that was used last is zero.
func zeroBlocks(t *testing.T, r *ring, words int, what string) {
	t.Helper()
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	list := r.pool.free[block{class(4 * words), false}]
	if len(list) == 0 {
		return
	}
	for i, w := range list[len(list)-1].Words(words) {
		if w != 0 {
			t.Fatalf("%s: word %d of the messages on the device is %#x", what, i, w)
		}
	}
}
