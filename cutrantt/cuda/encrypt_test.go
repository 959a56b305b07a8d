package cuda

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
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
		j := cutrantt.Encryption{Message: make([]float64, r.n), Bound: 1 << 40, Seed: &[32]byte{byte(i), 9}, Mask: &[32]byte{byte(i), 8}}
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
				if i := slices.IndexFunc(buf.bytes[:4*k*(int(words)+2*r.n)], func(x byte) bool { return x != 0 }); i >= 0 {
					t.Errorf("%s without %q: byte %d of a staging buffer is %#x", name, missing, i, buf.bytes[i])
				}
			}
			for what, n := range map[string]int{"messages": messages, "small integers": k * 10 * r.n / 4, "transforms": kind.transforms * k * limbs * r.n} {
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
					public := what == "messages" && missing == "" && i < k*int(words) && i%int(words) >= 8 // after the seed
					if w != 0 && !public {
						t.Errorf("%s without %q: word %d of the %s is %#x", name, missing, i, what, w)
						break
					}
				}
			}
		}
	}
}

// rejecting is the prime just above 2^32/5 for degree 2^logN, which rejects a fifth of
// the words of a stream.
func rejecting(t *testing.T, logN int) cutrantt.Modulus {
	t.Helper()
	step := 2 << logN
	for q := (1<<32/5/step+1)*step + 1; q < cutrantt.MaxQ; q += step {
		for g := uint32(3); g < 60; g++ {
			m := cutrantt.Modulus{Q: uint32(q), Psi: powMod(g, uint32((q-1)>>(logN+1)), uint32(q))}
			if m.Check(logN) == nil {
				return m
			}
		}
	}
	t.Fatalf("no prime above 2^32/5 for degree 2^%d", logN)
	return cutrantt.Modulus{}
}

// earlyTwin is a ring with a prime that rejects a fifth of the words, the last but one,
// and the same on the CPU.
func earlyTwin(t *testing.T, logN, limbs int) *twin {
	t.Helper()
	ms := benchModuli(t, logN, limbs-1)
	ms = append(ms[:limbs-2], rejecting(t, logN), ms[limbs-2])
	w := &twin{T: t, rng: rand.New(rand.NewPCG(uint64(logN), uint64(limbs)))}
	for i, b := range []cutrantt.Backend{gpu(t), cpu.New()} {
		r, err := b.NewRing(logN, ms, cutrantt.Options{})
		w.ok(err)
		w.ring[i] = r
	}
	return w
}

// TestDrawnFirst: the first kernel of a seeded encryption draws c1 of the limbs that it is
// told, and nothing else of the ciphertext; the last one takes c1 of these from memory,
// leaves it as it is, and draws the others.
func TestDrawnFirst(t *testing.T) {
	const limbs, unwritten = 4, 0x5a5a5a5a
	for _, c := range []struct {
		logN  int
		drawn []int
	}{{15, []int{0, 2}}, {15, []int{}}, {15, []int{0, 1, 2, 3}}, {16, []int{2}}, {17, []int{2, 3}}} {
		w := earlyTwin(t, c.logN, limbs)
		r, host := w.ring[0].(*ring), w.ring[1]
		q := newQueued(t, r, false, 16, limbs, 1)
		q.e.drawn = c.drawn
		at, words := q.out[0][0], 2*limbs*r.n
		step := func(f func() error) []uint32 { // the ciphertext after f
			t.Helper()
			got := make([]uint32, words)
			w.ok(r.exec(func() error {
				if err := f(); err != nil {
					return err
				}
				if err := r.backend.drv.CopyOut(bytesOf(got), at, r.pool.stream); err != nil {
					return err
				}
				return r.backend.drv.Wait(r.pool.stream)
			}))
			return got
		}
		batch := func(d cutrantt.Domain) *cutrantt.Batch {
			t.Helper()
			b, err := host.NewBatch(1, upTo(limbs), d)
			w.ok(err)
			return b
		}
		residues := func(b *cutrantt.Batch) []uint32 {
			t.Helper()
			x := make([]uint32, b.Len())
			w.ok(host.Download(x, b))
			return x
		}
		job := q.jobs[0][0]
		uniform, m, e := batch(cutrantt.NTT(16)), batch(cutrantt.Coeffs(16)), batch(cutrantt.Coeffs(16))
		w.ok(host.SampleUniform(uniform, job.Mask, q.e.labels.Mask))
		w.ok(host.SetFloats(m, job.Message))
		w.ok(host.SampleCBD(e, job.Seed, q.e.labels.E0))
		w.ok(host.Add(m, m, e))
		w.ok(host.Forward(m, m))
		c1, noise := residues(uniform), residues(m) // c0 is the noisy message where c1 is 0

		first := step(func() error {
			if err := r.backend.drv.Fill(at, unwritten, words, r.pool.stream); err != nil {
				return err
			}
			return r.encryptFirst(q.e, 1, q.input[0], q.small)
		})
		limb := func(x []uint32, l int) []uint32 { return x[l*r.n : (l+1)*r.n] }
		empty := slices.Repeat([]uint32{unwritten}, r.n)
		for l := range limbs {
			if !slices.Equal(limb(first, l), empty) {
				t.Fatalf("2^%d, %v: the first kernel writes limb %d of c0", c.logN, c.drawn, l)
			}
			want := empty
			if slices.Contains(c.drawn, l) {
				want = limb(c1, l)
			}
			if !slices.Equal(limb(first, limbs+l), want) {
				t.Fatalf("2^%d, %v: limb %d of c1 after the first kernel", c.logN, c.drawn, l)
			}
		}

		last := step(func() error {
			for _, l := range c.drawn { // what the last kernel must find
				if err := r.backend.drv.Fill(at+pointer(4*(limbs+l)*r.n), 0, r.n, r.pool.stream); err != nil {
					return err
				}
			}
			return r.encryptGroup(q.e, 1, q.input[0], q.small, q.mid, 0, limbs, false)
		})
		for l := range limbs {
			early := slices.Contains(c.drawn, l)
			want := limb(c1, l)
			if early {
				want = make([]uint32, r.n)
			}
			if !slices.Equal(limb(last, limbs+l), want) {
				t.Fatalf("2^%d, %v: limb %d of c1 after the last kernel", c.logN, c.drawn, l)
			}
			if slices.Equal(limb(last, l), limb(noise, l)) != early {
				t.Fatalf("2^%d, %v: limb %d of c0 is not made from c1 in memory", c.logN, c.drawn, l)
			}
		}
	}
}

// seededOnHost is a seeded encryption step by step on the CPU; s has all limbs in their order.
func (w *twin) seededOnHost(s *cutrantt.Batch, limbs []int, labels cutrantt.EncryptionLabels, j cutrantt.Encryption) []uint32 {
	w.Helper()
	r, ntt := w.ring[1], s.Domain()
	batch := func(polys int, d cutrantt.Domain) *cutrantt.Batch {
		b, err := r.NewBatch(polys, limbs, d)
		w.ok(err)
		return b
	}
	out, key, m, e := batch(2, ntt), batch(1, ntt), batch(1, cutrantt.Coeffs(int(ntt.N2))), batch(1, cutrantt.Coeffs(int(ntt.N2)))
	for i, l := range limbs {
		to, err := key.Slice(0, 1, i, i+1)
		w.ok(err)
		from, err := s.Slice(0, 1, l, l+1)
		w.ok(err)
		w.ok(r.Copy(to, from))
	}
	c0, err := out.Slice(0, 1, 0, len(limbs))
	w.ok(err)
	c1, err := out.Slice(1, 2, 0, len(limbs))
	w.ok(err)
	w.ok(r.SetFloats(m, j.Message))
	w.ok(r.SampleCBD(e, j.Seed, labels.E0))
	w.ok(r.Add(m, m, e))
	w.ok(r.Forward(m, m))
	w.ok(r.SampleUniform(c1, j.Mask, labels.Mask))
	w.ok(r.Mul(c0, c1, key))
	w.ok(r.Sub(c0, m, c0))
	x := make([]uint32, out.Len())
	w.ok(r.Download(x, out))
	return x
}

// TestDrawnEncrypt: however many limbs are drawn first, and in batches, where none is, the
// ciphertext is the CPU's.
func TestDrawnEncrypt(t *testing.T) {
	const limbs = 4
	b := gpu(t).(*backend)
	defer func(n int) { b.draws = n }(b.draws)
	for _, logN := range []int{15, 16, 17} {
		if testing.Short() && logN == 17 {
			continue
		}
		w := earlyTwin(t, logN, limbs)
		order := []int{3, 1, 2, 0} // of the key and the ciphertext
		key := w.batch(1, upTo(limbs), cutrantt.NTT(16))
		jobs := make([]cutrantt.Encryption, 2)
		for i := range jobs {
			jobs[i] = cutrantt.Encryption{Message: make([]float64, 1<<logN), Bound: 1 << 40, Seed: &[32]byte{byte(i), 1}, Mask: &[32]byte{byte(i), 2}}
			for k := range jobs[i].Message {
				jobs[i].Message[k] = float64(w.rng.Int64N(1<<41) - 1<<40)
			}
		}
		labels := cutrantt.EncryptionLabels{E0: 2, Mask: 4}
		encrypt := func(jobs []cutrantt.Encryption) (all [][]uint32) {
			t.Helper()
			r := w.ring[0]
			out, err := r.(cutrantt.Encrypting).EncryptSeeded(key[0], order, labels, jobs)
			w.ok(err)
			for _, c := range out {
				x := make([]uint32, c.Len())
				w.ok(r.Download(x, c))
				r.Free(c)
				all = append(all, x)
			}
			return all
		}
		var want [][]uint32
		for _, j := range jobs {
			want = append(want, w.seededOnHost(key[1], order, labels, j))
		}
		tiles := 1 << logN / seededTile
		for _, draws := range []int{0, tiles - 1, tiles, 3*tiles + 1, 100 * tiles} {
			b.draws = draws
			for k := 1; k <= len(jobs); k++ {
				if testing.Short() && k > 1 && draws != tiles {
					continue
				}
				for i, got := range encrypt(jobs[:k]) {
					if !slices.Equal(got, want[i]) {
						t.Fatalf("2^%d, %d blocks that draw, %d messages: message %d differs from the CPU", logN, draws, k, i)
					}
				}
			}
		}
	}
}

// TestDrawnChoice: limbs whose primes reject few words come first, as many as blocks draw;
// batches, other columns, small degrees and mapped memory have none.
func TestDrawnChoice(t *testing.T) {
	b := gpu(t).(*backend)
	defer func(n int, mapped bool) { b.draws, b.mapped = n, mapped }(b.draws, b.mapped)
	b.mapped = false
	r := earlyTwin(t, 15, 4).ring[0].(*ring)
	small := earlyTwin(t, 14, 4).ring[0].(*ring)
	e := func(kinds, n2 int, limbs ...int) *encryption { return &encryption{kinds: kinds, n2: n2, limbs: limbs} }
	// The primes reject 2^32 mod q words of 2^32: those from 2^30 down more with each step,
	// and number 2 a fifth.
	for _, c := range []struct {
		what   string
		r      *ring
		e      *encryption
		draws  int
		jobs   int
		mapped bool
		want   []int
	}{
		{"a block less than a limb", r, e(1, 16, 0, 1, 2, 3), 15, 1, false, nil},
		{"one limb", r, e(1, 16, 2, 1, 0, 3), 16, 1, false, []int{2}},
		{"three limbs", r, e(1, 16, 2, 3, 0, 1), 63, 1, false, []int{1, 2, 3}},
		{"more than there are", r, e(1, 16, 2, 3), 1000, 1, false, []int{0, 1}},
		{"public key", r, e(3, 16, 0, 1), 1000, 1, false, nil},
		{"two messages", r, e(1, 16, 0, 1), 1000, 2, false, nil},
		{"8 columns", r, e(1, 8, 0, 1), 1000, 1, false, nil},
		{"2^14", small, e(1, 16, 0, 1), 1000, 1, false, nil},
		{"mapped memory", r, e(1, 16, 0, 1), 1000, 1, true, nil},
	} {
		b.draws, b.mapped = c.draws, c.mapped
		if got := c.r.drawnFirst(c.e, c.jobs); !slices.Equal(got, c.want) {
			t.Errorf("%s: limbs %v, want %v", c.what, got, c.want)
		}
	}
}
