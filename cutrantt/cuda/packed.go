package cuda

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
	"github.com/hencedge/hencedge/internal/pieces"
)

var _ cutrantt.Packed = (*ring)(nil)

// packedLimb mirrors struct PackedLimb of kernels/args.cuh.
type packedLimb struct {
	inverse  uint64
	at, bits uint32
}

// packing is how the limbs of a polynomial are packed.
type packing struct {
	table pointer // packedLimb of each limb
	limbs pointer // modulus indices
	bytes int     // of a polynomial, a multiple of 8
}

// mostPackings bounds the sets of limbs that are loaded packed: programs use one for each
// level. They stay, since kernels of two streams read them.
const mostPackings = 256

// foundBytes is the end of a slot, for what the checks find: a word for each 1024 residues,
// which have more than 1024 bytes when packed.
const foundBytes = chunk / 256

// packedThreads is the threads of a block, for 1024 residues.
const packedThreads = 256

// slots is how many groups of packed polynomials are on their way at a time.
const slots = 3

// loader brings packed residues to the GPU and has them checked in a stream of its own, so
// that the answer does not wait for the computations in the ring's stream. They are unpacked
// in the ring's stream, when the answer is known.
type loader struct {
	stream   driver.Stream
	launcher *driver.Launcher
	free     chan *slot // slots of them, made when they are first used
	all      []*slot    // those that were made; in a turn of the ring
}

// slot is a pinned buffer and device memory of the same size. It belongs to one group from
// the copy into the buffer until the residues are unpacked.
type slot struct {
	host *buffer // done: the checks have answered
	at   pointer
	used driver.Event // after the kernel that unpacks
	busy bool         // used was recorded
}

// loading is the group of batches that a slot takes: those of load from first on.
type loading struct {
	r       *ring
	k       packing
	load    *cutrantt.PackedLoad
	first   int
	src     [][][]byte
	polys   int // packed ones of a batch
	out     []*cutrantt.Batch
	s       *slot
	words   int // of what the checks find
	checked []bool
}

func (r *ring) LoadPacked(l *cutrantt.PackedLoad) (out []*cutrantt.Batch, err error) {
	if err := r.checkPacked(l); err != nil || len(l.Residues) == 0 {
		return nil, err
	}
	r.tune(int(l.To.N2))
	defer func() {
		if err != nil {
			for _, b := range out {
				if b != nil {
					r.Free(b)
				}
			}
			out = nil
		}
	}()
	k, err := r.packing(l.Limbs)
	if err != nil {
		return nil, err
	}
	src := l.Residues
	each := pieces.Len(src[0])
	if each > chunk-foundBytes {
		return nil, fmt.Errorf("%w: packed residues of %d bytes in a batch", cutrantt.ErrNotSupported, each)
	}
	out = make([]*cutrantt.Batch, len(src))
	for first, per := 0, (chunk-foundBytes)/each; first < len(src); first += per {
		end := min(first+per, len(src))
		g := &loading{r: r, k: k, load: l, first: first, src: src[first:end], polys: each / k.bytes,
			out: out[first:end]}
		if err := g.take(); err != nil {
			return out, err
		}
	}
	return out, nil
}

// checkPacked checks the argument of LoadPacked.
func (r *ring) checkPacked(l *cutrantt.PackedLoad) error {
	for _, d := range []cutrantt.Domain{l.From, l.To} {
		if err := r.check.Shape(l.Polys, l.Limbs, d); err != nil {
			return err
		}
	}
	size, drawn := 0, 0
	for _, i := range l.Limbs {
		size += cutrantt.PackedBytes(r.n, r.check.Moduli()[i].Q)
	}
	if len(l.Seeds) > 0 {
		if drawn = 1; len(l.Seeds) != len(l.Residues) || slices.Contains(l.Seeds, nil) {
			return fmt.Errorf("%w: %d batches need a seed each", cutrantt.ErrShape, len(l.Residues))
		}
	}
	for i, s := range l.Residues {
		have := pieces.Len(s)
		if have%size != 0 {
			return fmt.Errorf("%w: %d bytes of packed residues, want %d for each polynomial", cutrantt.ErrShape, have,
				size)
		}
		n, first := have/size, pieces.Len(l.Residues[0])/size
		if n < 1 || n+drawn > l.Polys || n != first || n+drawn < l.Polys && l.From != l.To {
			return fmt.Errorf(
				"%w: %d packed polynomials and %d drawn ones for batch %d of %d, %d packed ones for the first",
				cutrantt.ErrShape, n, drawn, i, l.Polys, first,
			)
		}
	}
	return nil
}

// packing returns how these limbs are packed. The tables are on the device when it returns.
func (r *ring) packing(limbs []int) (k packing, err error) {
	key := fmt.Sprint(limbs)
	err = r.exec(func() error {
		var ok bool
		if k, ok = r.packings[key]; ok {
			return nil
		}
		if len(r.packings) >= mostPackings {
			return fmt.Errorf(
				"%w: packed residues of more than %d sets of limbs", cutrantt.ErrNotSupported, mostPackings,
			)
		}
		if err := r.openLoader(); err != nil {
			return err
		}
		table, numbers := make([]packedLimb, 0, len(limbs)), make([]uint32, 0, len(limbs))
		for _, l := range limbs {
			q := r.check.Moduli()[l].Q
			table = append(table, packedLimb{math.MaxUint64 / uint64(q), uint32(k.bytes / 8),
				uint32(cutrantt.PairBits(q))})
			numbers = append(numbers, uint32(l))
			k.bytes += cutrantt.PackedBytes(r.n, q)
		}
		words := unsafe.Slice((*uint32)(unsafe.Pointer(&table[0])), 4*len(table))
		if k.table, err = r.constant(append(words[:len(words):len(words)], numbers...)); err != nil {
			return err
		}
		k.limbs = k.table + pointer(4*len(words))
		// the loader's stream reads them
		if err := r.backend.drv.Wait(r.pool.stream); err != nil {
			r.pool.put(k.table, len(words)+len(numbers))
			return err
		}
		r.packings[key] = k
		return nil
	})
	return k, err
}

// openLoader makes the ring's loader. It is called by exec.
func (r *ring) openLoader() error {
	if r.pool.loader != nil {
		return nil
	}
	stream, err := r.backend.drv.NewStream()
	if err != nil {
		return err
	}
	l := &loader{stream: stream, launcher: r.backend.drv.NewLauncher(stream, false), free: make(chan *slot, slots)}
	for range slots {
		l.free <- nil
	}
	r.pool.loader = l
	return nil
}

// close gives back what the loader holds but its memory, which is the pool's. It needs the
// backend's context.
func (l *loader) close(b *backend) error {
	err := errors.Join(b.drv.Wait(l.stream), l.launcher.Forget(), b.drv.DestroyStream(l.stream))
	for _, s := range l.all {
		err = errors.Join(err, b.drv.DestroyEvent(s.used))
		b.staging.put(s.host, 0)
	}
	return err
}

// slot makes a slot. Its memory may have been used in the ring's stream before.
func (r *ring) slot() (s *slot, err error) {
	err = r.exec(func() (err error) {
		drv, st := r.backend.drv, &r.backend.staging
		made := &slot{}
		if made.host, err = st.get(); err != nil {
			return err
		}
		if made.at, err = r.pool.get(chunk / 4); err == nil {
			if made.used, err = drv.NewEvent(); err == nil {
				if err = drv.Wait(r.pool.stream); err == nil {
					r.pool.loader.all = append(r.pool.loader.all, made)
					s = made
					return nil
				}
				err = errors.Join(err, drv.DestroyEvent(made.used))
			}
			r.pool.put(made.at, chunk/4)
		}
		st.put(made.host, 0)
		return err
	})
	return s, err
}

// Stage's memory is the context's: it stays until done.
func (r *ring) Stage(all [][]byte) (staged []byte, done func()) {
	b := r.backend
	b.calls.Add(1)
	var free func()
	if n := pieces.Len(all); n <= chunk-foundBytes && b.err() == nil {
		staged, free = b.stage.Take(n, func() (m []byte, err error) {
			err = b.locked(func() error { m, err = b.drv.AllocHost(chunk); return err })
			return m, err
		})
	}
	if free == nil {
		b.calls.Add(-1)
		return nil, nil
	}
	to := staged
	for _, p := range all {
		to = to[copy(to, p):]
	}
	return staged, func() {
		free()
		b.calls.Add(-1)
	}
}

// take takes a group through a slot.
func (g *loading) take() (err error) {
	r := g.r
	defer runtime.KeepAlive(r)
	r.backend.calls.Add(1) // the buffer is the context's: it stays until it is put back
	defer r.backend.calls.Add(-1)
	l := r.pool.loader
	g.s = <-l.free
	defer func() { l.free <- g.s }()
	if g.s == nil {
		if g.s, err = r.slot(); err != nil {
			return err
		}
	}
	if g.s.busy { // its device memory is read until then
		if err := r.wait(g.s.used); err != nil {
			return err
		}
		g.s.busy = false
	}
	if err := g.check(g.copyIn()); err != nil {
		return err
	}
	return r.exec(g.unpack)
}

// wait waits for an event without a turn of the ring.
func (r *ring) wait(e driver.Event) error {
	if err := r.backend.locked(func() error { return r.backend.drv.WaitEvent(e) }); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	return nil
}

// piece is pinned memory that goes to a place of a slot.
type piece struct {
	at    int
	bytes []byte
}

// copyIn returns the pinned memory in which the group lies, polynomial after polynomial. What does not is copied to
// the pinned buffer.
func (g *loading) copyIn() (all []piece) {
	src, host := slices.Concat(g.src...), g.s.host.bytes
	staged := g.r.backend.stage.Hold(src)
	var copied []piece
	at, bytes, goesOn := 0, 0, false // the last of all ends here, in the pinned buffer
	for i, p := range src {
		switch last := len(all) - 1; {
		case len(p) == 0:
			continue
		case staged[i]:
			all = append(all, piece{at, p})
		case goesOn:
			all[last].bytes = host[all[last].at : at+len(p)]
		default:
			all = append(all, piece{at, host[at : at+len(p)]})
		}
		if goesOn = !staged[i]; goesOn {
			copied, bytes = append(copied, piece{at, p}), bytes+len(p)
		}
		at += len(p)
	}
	share(len(copied), bytes, func(i int) { copy(host[copied[i].at:], copied[i].bytes) })
	return all
}

// check has the group, which lies in pinned memory, copied and checked, and waits for the answer.
func (g *loading) check(all []piece) error {
	r, l, b := g.r, g.r.pool.loader, g.s.host
	blocks := len(g.src) * g.polys * (r.n >> 10)
	g.words = blocks * len(g.load.Limbs)
	at, found := g.s.at+pointer(chunk-foundBytes), b.bytes[chunk-foundBytes:][:4*g.words]
	queued := false
	err := r.exec(func() error { // turns order the launches
		drv := r.backend.drv
		queued = true
		for _, p := range all {
			if err := drv.CopyIn(g.s.at+pointer(p.at), p.bytes, l.stream); err != nil {
				return err
			}
		}
		p := (*packedArgs)(unsafe.Pointer(&r.arguments))
		*p = packedArgs{
			args:   args{a: g.s.at, as: uint64(g.k.bytes / 4), limbs: g.k.limbs},
			packed: g.k.table, found: at,
		}
		r.complete(&p.args)
		if err := r.startOn(l, "packed_check", blocks, len(g.load.Limbs), int(unsafe.Sizeof(*p))); err != nil {
			return err
		}
		if err := drv.CopyOut(found, at, l.stream); err != nil {
			return err
		}
		return drv.Record(b.done, l.stream)
	})
	if err == nil {
		err = r.wait(b.done)
	}
	if err != nil {
		if queued { // the copies may be under way
			_ = r.backend.locked(func() error { return r.backend.drv.Wait(l.stream) })
		}
		return err
	}
	g.read(unsafe.Slice((*uint32)(unsafe.Pointer(&found[0])), g.words))
	return nil
}

// startOn queues a kernel whose arguments are in r.arguments in the loader's stream.
func (r *ring) startOn(l *loader, name string, x, y, size int) error {
	k := r.backend.kernels[name]
	if k == nil {
		return fmt.Errorf("no kernel %q", name)
	}
	if err := l.launcher.Launch(k.fn, x, y, packedThreads, 0, unsafe.Pointer(&r.arguments), size); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	k.launched(packedThreads, 0)
	r.launches.Add(1)
	return nil
}

// What packed_check finds in a block.
const (
	foundBeyond = 1 // a pair is not below q^2
	foundSome   = 2 // a residue is not 0
)

// read decides from the words of all blocks, limb after limb, which batches are as they
// should be: no pair is beyond q^2, and no limb is zero.
func (g *loading) read(found []uint32) {
	g.checked = make([]bool, len(g.src))
	blocks, count := g.r.n>>10, len(g.src)*g.polys
	for i := range g.checked {
		g.checked[i] = true
	}
	for l := range g.load.Limbs {
		for p := range count {
			var all uint32
			for _, f := range found[(l*count+p)*blocks:][:blocks] {
				all |= f
			}
			if all != foundSome {
				g.checked[p/g.polys] = false
			}
		}
	}
}

// unpack makes the batches that are as they should be, and queues the kernels that fill
// them. It is called by exec.
func (g *loading) unpack() error {
	r, l := g.r, g.load
	items, raw := make([]packedItem, 0, len(g.src)), make([]*cutrantt.Batch, len(g.src))
	if l.From != l.To {
		defer func() { // what reads it is queued
			for _, b := range raw {
				if b != nil {
					r.Free(b)
				}
			}
		}()
	}
	for i, ok := range g.checked {
		if !ok {
			continue
		}
		var err error
		if raw[i], err = r.room(l, l.From); err != nil {
			return err
		}
		from := tensor{g.s.at + pointer(i*g.polys*g.k.bytes), uint64(g.k.bytes / 4)}
		items = append(items, packedItem{residues: r.tensor(raw[i]), packed: from})
		g.out[i] = raw[i]
		if l.From == l.To {
			continue
		}
		if g.out[i], err = r.room(l, l.To); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		return nil
	}
	a := packedArgs{args: args{limbs: g.k.limbs}, packed: g.k.table, polys: uint32(g.polys)}
	err := launchItems(r, "packed_load", len(items)*g.polys*(r.n>>10), len(l.Limbs), packedThreads, 0, a, items)
	if err == nil {
		err = r.backend.drv.Record(g.s.used, r.pool.stream)
	}
	if err != nil {
		_ = r.backend.drv.Wait(r.pool.stream) // the kernel may be under way
		return err
	}
	g.s.busy = true
	for i, b := range raw {
		if b == nil {
			continue
		}
		if err := g.complete(i, b); err != nil {
			return err
		}
	}
	return nil
}

// complete draws what is not packed of batch i and converts it.
func (g *loading) complete(i int, b *cutrantt.Batch) error {
	if l := g.load; len(l.Seeds) > 0 {
		next, err := b.Slice(g.polys, g.polys+1, 0, len(l.Limbs))
		if err != nil {
			return err
		}
		if err := g.r.drawUniform(next, l.Seeds[g.first+i], l.Label); err != nil {
			return err
		}
	}
	if g.load.From == g.load.To {
		return nil
	}
	return g.r.convert(g.out[i], b)
}

// room makes a batch of a load, of any content. It is called by exec.
func (r *ring) room(l *cutrantt.PackedLoad, d cutrantt.Domain) (*cutrantt.Batch, error) {
	m, err := r.allocateKind(l.Polys*len(l.Limbs)*r.n, r.backend.mapped)
	if err != nil {
		return nil, err
	}
	return cutrantt.MakeBatch(cutrantt.Shape{Polys: l.Polys, Limbs: l.Limbs, Domain: d}, r.n, m), nil
}
