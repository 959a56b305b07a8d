package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/internal/testenv"
)

// packBits writes pairs bit by bit, as docs/wire-ciphertext.md says.
func packBits(pairs []uint64, q uint32) []byte {
	w := cutrantt.PairBits(q)
	out := make([]byte, len(pairs)*w/8)
	for i, v := range pairs {
		for k := range w {
			at := i*w + k
			out[at/8] |= byte(v>>k&1) << (at % 8)
		}
	}
	return out
}

// pairsOf joins the residues of a limb in pairs.
func pairsOf(x []uint32, q uint32) []uint64 {
	pairs := make([]uint64, len(x)/2)
	for i := range pairs {
		pairs[i] = uint64(x[2*i]) + uint64(q)*uint64(x[2*i+1])
	}
	return pairs
}

// packedRig makes packed polynomials over limbs.
type packedRig struct {
	*rig
	ring  cutrantt.Packed
	limbs []int
}

// newPackedRig is newRig over the first so many moduli, for rings that take packed residues.
func newPackedRig(t *testing.T, b cutrantt.Backend, logN, count int) *packedRig {
	t.Helper()
	g := newRig(t, b, logN, moduli(t, logN, count), cutrantt.MethodAuto)
	ring, ok := g.ring.(cutrantt.Packed)
	if !ok {
		testenv.Missing(t, "cuda", "a ring that loads and stores packed residues")
	}
	return &packedRig{rig: g, ring: ring, limbs: upTo(count)}
}

// on is p with other limbs.
func (p *packedRig) on(limbs []int) *packedRig {
	return &packedRig{rig: p.rig, ring: p.ring, limbs: limbs}
}

// poly makes a polynomial of one pattern, and its residues. change changes the pairs of a
// limb before they are packed.
func (p *packedRig) poly(f pattern, change func(limb int, pairs []uint64, q uint32)) (packed []byte, x []uint32) {
	p.Helper()
	for i, l := range p.limbs {
		q, limb := p.rig.ring.Moduli()[l].Q, make([]uint32, p.rig.ring.N())
		for j := range limb {
			limb[j] = f(j, q, p.rng)
		}
		pairs := pairsOf(limb, q)
		if change != nil {
			change(i, pairs, q)
		}
		packed, x = append(packed, packBits(pairs, q)...), append(x, limb...)
	}
	return packed, x
}

// TestLoadPacked: packed residues arrive as they are, of several batches at once, and those
// that encryption does not make are left out.
func TestLoadPacked(t *testing.T) {
	eachGPU(t, func(t *testing.T, b cutrantt.Backend) {
		for _, c := range []struct{ logN, moduli, items int }{{10, 4, 5}, {13, 3, 30}, {17, 2, 1}} {
			if testing.Short() && c.logN > 13 {
				continue
			}
			t.Run(fmt.Sprintf("2^%d", c.logN), func(t *testing.T) {
				p := newPackedRig(t, b, c.logN, c.moduli)
				for _, limbs := range [][]int{p.limbs, {1}, {c.moduli - 1, 0}} {
					p.on(limbs).testLoads(c.items)
					p.on(limbs).testFaults()
				}
				p.testCompletes(min(c.items, 3))
			})
		}
	})
}

// testLoads loads batches of two polynomials, with one or both packed.
func (p *packedRig) testLoads(items int) {
	p.Helper()
	for _, d := range []cutrantt.Domain{cutrantt.NTT(16), cutrantt.Coeffs(1)} {
		for count := 1; count <= 2; count++ {
			src, want := make([][][]byte, items), make([][]uint32, items)
			for i := range src {
				for k := range count {
					f := []pattern{random, largest, ones, alternating, extremes}[(i+k)%5]
					b, x := p.poly(f, nil)
					src[i], want[i] = append(src[i], b), append(want[i], x...)
				}
				whole := bytes.Join(src[i], nil)
				if i%3 != 0 {
					staged, done := p.ring.Stage(src[i])
					if !bytes.Equal(staged, whole) {
						p.Fatalf("batch %d: %d bytes staged, or other ones, want %d", i, len(staged), len(whole))
					}
					defer done()
					src[i], whole = [][]byte{staged}, staged
				}
				if i%2 == 1 { // in other pieces: within words and limbs, of both polynomials, and empty ones
					a, b := 1+i, len(whole)/2+3*i
					src[i] = [][]byte{whole[:a], nil, whole[a:b], whole[b : len(whole)-i], whole[len(whole)-i:]}
				}
			}
			got, err := p.ring.LoadPacked(p.load(2, d, src))
			p.ok(err)
			for i, b := range got {
				if b == nil {
					p.Fatalf("batch %d of %d was not loaded", i, items)
				}
				if b.Polys() != 2 || b.Domain() != d || !b.Shape().SameLimbs(cutrantt.Shape{Limbs: p.limbs}) {
					p.Fatalf("batch %d: %v", i, b.Shape())
				}
				view, err := b.Slice(0, count, 0, len(p.limbs))
				p.ok(err)
				p.equal(fmt.Sprintf("batch %d of %d", i, items), download(p, p.rig.ring, view), want[i])
				p.rig.ring.Free(b)
			}
		}
	}
}

// load is a load of residues that stay in their domain.
func (p *packedRig) load(polys int, d cutrantt.Domain, src [][][]byte) *cutrantt.PackedLoad {
	return &cutrantt.PackedLoad{Polys: polys, Limbs: p.limbs, From: d, To: d, Residues: src}
}

// testCompletes loads batches whose second polynomial is packed or drawn, and which change
// their domain: they equal those that SampleUniform and Convert make. The first load has more
// batches than one of 4 MiB.
func (p *packedRig) testCompletes(items int) {
	p.Helper()
	const label = 7
	ring := p.rig.ring
	one, _ := p.poly(random, nil)
	few, more := items, 4<<20/len(one)+2
	for k, c := range [][2]cutrantt.Domain{
		{cutrantt.NTT(16), cutrantt.NTT(4)}, {cutrantt.NTT(16), cutrantt.NTT(16)}, {cutrantt.NTT(1), cutrantt.NTT(8)},
		{cutrantt.NTT(2), cutrantt.Coeffs(1)}, {cutrantt.Coeffs(1), cutrantt.NTT(4)},
		{cutrantt.Coeffs(1), cutrantt.Coeffs(8)},
	} {
		for drawn := range 2 {
			items := few
			if k == 0 && drawn == 1 {
				items = more
			}
			l := &cutrantt.PackedLoad{Polys: 2, Limbs: p.limbs, From: c[0], To: c[1], Label: label}
			want := make([][]uint32, items)
			for i := range items {
				var packed [][]byte
				for range 2 - drawn {
					b, x := p.poly(random, nil)
					packed, want[i] = append(packed, b), append(want[i], x...)
				}
				l.Residues = append(l.Residues, packed)
				whole := make([]uint32, 2*len(p.limbs)*ring.N())
				copy(whole, want[i])
				b, err := ring.NewBatch(2, p.limbs, c[0])
				p.ok(err)
				p.ok(ring.Upload(b, whole))
				if drawn == 1 {
					l.Seeds = append(l.Seeds, &[32]byte{byte(i), byte(i >> 8), 1})
					c1, err := b.Slice(1, 2, 0, len(p.limbs))
					p.ok(err)
					p.ok(ring.SampleUniform(c1, l.Seeds[i], label))
				}
				to, err := ring.NewBatch(2, p.limbs, c[1])
				p.ok(err)
				p.ok(ring.Convert(to, b))
				want[i] = download(p, ring, to)
				ring.Free(b)
				ring.Free(to)
			}
			got, err := p.ring.LoadPacked(l)
			p.ok(err)
			for i, b := range got {
				if b == nil || b.Domain() != c[1] || b.Polys() != 2 {
					p.Fatalf("%v: batch %d: %v", c, i, b)
				}
				p.equal(fmt.Sprintf("%v, %d drawn: batch %d of %d", c, drawn, i, items), download(p, ring, b), want[i])
				ring.Free(b)
			}
		}
	}
}

// testFaults loads batches of which every other one has a fault.
func (p *packedRig) testFaults() {
	p.Helper()
	n := p.rig.ring.N()
	set := func(limb, at int, pair func(q uint32) uint64) func(int, []uint64, uint32) {
		return func(l int, pairs []uint64, q uint32) {
			if l == limb%len(p.limbs) {
				pairs[at] = pair(q)
			}
		}
	}
	square := func(q uint32) uint64 { return uint64(q) * uint64(q) }
	most := func(q uint32) uint64 { return 1<<cutrantt.PairBits(q) - 1 }
	below := func(q uint32) uint64 { return uint64(q)*uint64(q) - 1 }
	none := func(l int, pairs []uint64, _ uint32) {
		if l == len(p.limbs)-1 {
			clear(pairs)
		}
	}
	lonely := func(at int) func(int, []uint64, uint32) {
		return func(l int, pairs []uint64, q uint32) {
			none(l, pairs, q)
			if l == len(p.limbs)-1 {
				pairs[at] = uint64(q) // the second residue of the pair is 1
			}
		}
	}
	for what, f := range map[string]struct {
		change func(int, []uint64, uint32)
		good   bool
	}{
		"nothing":                       {nil, true},
		"q^2-1":                         {set(0, 1, below), true},
		"q^2 in the first pair":         {set(0, 0, square), false},
		"q^2 in the last pair":          {set(1, n/2-1, square), false},
		"all bits":                      {set(2, n/4+37, most), false},
		"a limb of zeros":               {none, false},
		"one residue that is not zero":  {lonely(n/2 - 1), true},
		"another one that is not zero":  {lonely(33), true},
		"q^2 in a pair of another warp": {set(0, 511, square), false},
	} {
		for at := range 2 { // the polynomial with the fault
			var src [][][]byte
			var want [][]uint32
			for i := range 5 {
				b0, x0 := p.poly(random, nil)
				b1, x1 := p.poly(random, nil)
				if i%2 == 1 {
					b, _ := p.poly(random, f.change)
					if at == 0 {
						b0 = b
					} else {
						b1 = b
					}
				}
				src, want = append(src, [][]byte{b0, b1}), append(want, append(x0, x1...))
			}
			got, err := p.ring.LoadPacked(p.load(2, cutrantt.NTT(4), src))
			p.ok(err)
			for i, b := range got {
				faulty := i%2 == 1
				if (b != nil) != (f.good || !faulty) {
					p.Fatalf("%s in polynomial %d: batch %d loaded: %v", what, at, i, b != nil)
				}
				if b != nil && !faulty {
					p.equal(what+" in another batch", download(p, p.rig.ring, b), want[i])
				}
				p.rig.ring.Free(b)
			}
		}
	}
}

// TestLoadPackedRefuses: what does not fit is refused before anything is done.
func TestLoadPackedRefuses(t *testing.T) {
	eachGPU(t, func(t *testing.T, b cutrantt.Backend) {
		p := newPackedRig(t, b, 10, 3).on(upTo(2))
		ring := p.ring
		one, _ := p.poly(random, nil)
		longer := append([]byte{0}, one...)
		large := make([][]byte, 4<<20/len(one)+1)
		for i := range large {
			large[i] = one
		}
		seed := &[32]byte{1}
		type load = cutrantt.PackedLoad
		for what, c := range map[string]struct {
			change func(l *load)
			want   error
		}{
			"no polynomial":        {func(l *load) { l.Residues = [][][]byte{{}} }, cutrantt.ErrShape},
			"too many polynomials": {func(l *load) { l.Polys = 1 }, cutrantt.ErrShape},
			"unlike numbers": {func(l *load) { l.Residues = [][][]byte{{one, one}, {one}} },
				cutrantt.ErrShape},
			"a byte too few":          {func(l *load) { l.Residues[0][1] = one[1:] }, cutrantt.ErrShape},
			"a byte too many":         {func(l *load) { l.Residues[0][1] = longer }, cutrantt.ErrShape},
			"another set of limbs":    {func(l *load) { l.Limbs = upTo(3) }, cutrantt.ErrShape},
			"no such limb":            {func(l *load) { l.Limbs = []int{0, 3} }, cutrantt.ErrShape},
			"no domain":               {func(l *load) { l.From = cutrantt.Domain{N2: 3} }, cutrantt.ErrDomain},
			"no domain afterwards":    {func(l *load) { l.To = cutrantt.Domain{N2: 3} }, cutrantt.ErrDomain},
			"a seed too many":         {func(l *load) { l.Seeds = []*[32]byte{seed, seed} }, cutrantt.ErrShape},
			"no seed":                 {func(l *load) { l.Polys, l.Seeds = 3, []*[32]byte{nil} }, cutrantt.ErrShape},
			"no room for a seed":      {func(l *load) { l.Seeds = []*[32]byte{seed} }, cutrantt.ErrShape},
			"arbitrary words changed": {func(l *load) { l.Polys, l.To = 3, cutrantt.NTT(4) }, cutrantt.ErrShape},
			"more than a slot": {func(l *load) { l.Polys, l.Residues = len(large), [][][]byte{large} },
				cutrantt.ErrNotSupported},
			"nothing, which is not": {func(l *load) { l.Residues = nil }, nil},
		} {
			l := p.load(2, cutrantt.NTT(16), [][][]byte{{one, one}})
			c.change(l)
			if got, err := ring.LoadPacked(l); !errors.Is(err, c.want) || len(got) > 0 {
				t.Errorf("%s: %v, %d batches", what, err, len(got))
			}
		}
	})
}

// TestLoadPackedTogether: several callers load at the same time, while the ring works.
func TestLoadPackedTogether(t *testing.T) {
	eachGPU(t, func(t *testing.T, b cutrantt.Backend) {
		p := newPackedRig(t, b, 11, 3)
		type load struct {
			src  []byte
			want []uint32
		}
		const callers, times = 4, 6
		var loads [callers]load
		for i := range loads {
			loads[i].src, loads[i].want = p.poly(random, nil)
		}
		done := make(chan error, callers)
		for i := range loads {
			go func() {
				rng, err := rand.New(rand.NewPCG(1, uint64(i))), error(nil)
				for range times {
					if err = p.loadOnce(loads[i].src, loads[i].want, 1+rng.IntN(3)); err != nil {
						break
					}
				}
				done <- err
			}()
		}
		for range loads {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// loadOnce loads the same polynomial into a number of batches, works with them and compares.
func (p *packedRig) loadOnce(src []byte, want []uint32, items int) error {
	all := make([][][]byte, items)
	for i := range all {
		all[i] = [][]byte{src}
	}
	r, got := p.rig.ring, make([]uint32, len(want))
	out, err := p.ring.LoadPacked(p.load(1, cutrantt.NTT(16), all))
	if err != nil {
		return err
	}
	for i, b := range out {
		if b == nil {
			return fmt.Errorf("batch %d was not loaded", i)
		}
		if err := errors.Join(r.Neg(b, b), r.Neg(b, b), r.Download(got, b)); err != nil {
			return err
		}
		for j := range got {
			if got[j] != want[j] {
				return fmt.Errorf("batch %d, residue %d: %d, want %d", i, j, got[j], want[j])
			}
		}
		r.Free(b)
	}
	return nil
}

// TestStorePacked: residues arrive packed as they are, of several batches at once.
func TestStorePacked(t *testing.T) {
	eachGPU(t, func(t *testing.T, b cutrantt.Backend) {
		for _, c := range []struct{ logN, moduli, items int }{{10, 4, 5}, {13, 3, 90}, {17, 2, 1}} {
			if testing.Short() && c.logN > 13 {
				continue
			}
			t.Run(fmt.Sprintf("2^%d", c.logN), func(t *testing.T) {
				p := newPackedRig(t, b, c.logN, c.moduli)
				for _, limbs := range [][]int{p.limbs, {1}, {c.moduli - 1, 0}} {
					p.on(limbs).testStores(c.items)
				}
				p.testZeros()
			})
		}
	})
}

// testStores stores batches of two polynomials, and views of one of them.
func (p *packedRig) testStores(items int) {
	p.Helper()
	r := p.rig.ring
	src, want := make([]*cutrantt.Batch, items), make([][]byte, items)
	for i := range src {
		var x []uint32
		for k := range 2 {
			b, y := p.poly([]pattern{random, largest, ones, alternating, extremes}[(i+k)%5], nil)
			want[i], x = append(want[i], b...), append(x, y...)
		}
		var err error
		src[i], err = r.NewBatch(2, p.limbs, cutrantt.NTT(16))
		p.ok(err)
		p.ok(r.Upload(src[i], x))
		defer r.Free(src[i])
	}
	size := len(want[0]) / 2
	for first := range 2 { // both polynomials; the second one
		dst, views := make([][][]byte, items), make([]*cutrantt.Batch, items)
		for i := range src {
			for range 2 - first {
				dst[i] = append(dst[i], make([]byte, size))
			}
			var err error
			views[i], err = src[i].Slice(first, 2, 0, len(p.limbs))
			p.ok(err)
		}
		whole, err := p.ring.StorePacked(dst, views)
		p.ok(err)
		for i := range dst {
			if got := slices.Concat(dst[i]...); !slices.Equal(got, want[i][first*size:]) {
				p.Fatalf("batch %d of %d from polynomial %d on differs", i, items, first)
			}
			if !whole[i] {
				p.Errorf("batch %d of %d has a limb of zeros", i, items)
			}
		}
	}
}

// testZeros stores batches with a limb of zeros, and with one residue that is none.
func (p *packedRig) testZeros() {
	p.Helper()
	r, n := p.rig.ring, p.rig.ring.N()
	for _, c := range []struct {
		what string
		poly int
		some int // the residue that is not 0, or none
	}{{"zeros", 0, -1}, {"zeros", 1, -1}, {"the first", 1, 0}, {"the last", 1, n - 1}, {"another warp", 0, 775}} {
		var src []*cutrantt.Batch
		var dst [][][]byte
		for i := range 3 {
			_, x := p.poly(random, nil)
			_, y := p.poly(random, nil)
			if i == 1 {
				last := [][]uint32{x, y}[c.poly][len(x)-n:]
				clear(last)
				if c.some >= 0 {
					last[c.some] = 1
				}
			}
			b, err := r.NewBatch(2, p.limbs, cutrantt.NTT(16))
			p.ok(err)
			p.ok(r.Upload(b, append(x, y...)))
			size := 0
			for _, l := range p.limbs {
				size += cutrantt.PackedBytes(n, r.Moduli()[l].Q)
			}
			src, dst = append(src, b), append(dst, [][]byte{make([]byte, size), make([]byte, size)})
		}
		whole, err := p.ring.StorePacked(dst, src)
		p.ok(err)
		for i, w := range whole {
			if w != (i != 1 || c.some >= 0) {
				p.Errorf("%s in polynomial %d: batch %d whole: %v", c.what, c.poly, i, w)
			}
		}
	}
}

// TestStorePackedRefuses: what does not fit is refused.
func TestStorePackedRefuses(t *testing.T) {
	eachGPU(t, func(t *testing.T, b cutrantt.Backend) {
		p := newPackedRig(t, b, 10, 3)
		g, ring := p.rig, p.ring
		batch := func(polys int, limbs []int) *cutrantt.Batch {
			x, err := g.ring.NewBatch(polys, limbs, cutrantt.NTT(16))
			g.ok(err)
			return x
		}
		two, one, three, freed := batch(2, upTo(2)), batch(1, upTo(2)), batch(2, upTo(3)), batch(2, upTo(2))
		g.ring.Free(freed)
		size := 0
		for _, l := range upTo(2) {
			size += cutrantt.PackedBytes(1<<10, g.ring.Moduli()[l].Q)
		}
		room := func(polys, less int) [][]byte {
			out := make([][]byte, polys)
			for i := range out {
				out[i] = make([]byte, size-less)
			}
			return out
		}
		type batches = []*cutrantt.Batch
		for what, c := range map[string]struct {
			dst  [][][]byte
			src  batches
			want error
		}{
			"memory for another":      {[][][]byte{room(2, 0), room(2, 0)}, batches{two}, cutrantt.ErrShape},
			"memory for one of two":   {[][][]byte{room(1, 0)}, batches{two}, cutrantt.ErrShape},
			"a byte too few":          {[][][]byte{room(2, 1)}, batches{two}, cutrantt.ErrShape},
			"unlike numbers":          {[][][]byte{room(2, 0), room(1, 0)}, batches{two, one}, cutrantt.ErrShape},
			"unlike limbs":            {[][][]byte{room(2, 0), room(2, 0)}, batches{two, three}, cutrantt.ErrShape},
			"no batch":                {[][][]byte{room(2, 0)}, batches{nil}, cutrantt.ErrForeign},
			"a batch that was freed":  {[][][]byte{room(2, 0)}, batches{freed}, cutrantt.ErrForeign},
			"nothing, which is right": {nil, nil, nil},
		} {
			if whole, err := ring.StorePacked(c.dst, c.src); !errors.Is(err, c.want) || len(whole) > 0 {
				t.Errorf("%s: %v, %d answers", what, err, len(whole))
			}
		}
	})
}

// TestStage: what is staged stays as it is until done, however much is, and done makes room again. What finds no room
// is loaded from where it lies.
func TestStage(t *testing.T) {
	eachGPU(t, func(t *testing.T, b cutrantt.Backend) {
		p := newPackedRig(t, b, 13, 3)
		g, ring := p.rig, p.ring
		if staged, done := ring.Stage(nil); staged != nil || done != nil {
			t.Error("nothing was staged")
		}
		most := 0
		for round := range 3 {
			var src [][][]byte
			var want [][]uint32
			var all []func()
			for {
				poly, x := p.poly(random, nil)
				staged, done := ring.Stage([][]byte{poly[:len(poly)/3], nil, poly[len(poly)/3:]})
				if done == nil {
					src, want = append(src, [][]byte{poly}), append(want, x)
					break
				}
				src, want, all = append(src, [][]byte{staged}), append(want, x), append(all, done)
			}
			if round > 0 && len(all) != most {
				t.Errorf("round %d: %d polynomials were staged, %d before", round, len(all), most)
			}
			most = len(all)
			for _, i := range []int{0, 1, most / 2, most - 1, most} {
				got, err := ring.LoadPacked(p.load(1, cutrantt.NTT(16), [][][]byte{src[i], src[most], src[0]}))
				g.ok(err)
				for k, j := range []int{i, most, 0} {
					p.equal(fmt.Sprintf("polynomial %d of %d", j, most), download(p, g.ring, got[k]), want[j])
					g.ring.Free(got[k])
				}
			}
			for _, done := range all {
				done()
			}
		}
	})
}
