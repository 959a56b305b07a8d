package cuda

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/internal/crew"
)

// Packed residues come back in copies of at most a pinned buffer, of which storeBuffers are on
// their way at a time. The first one and the last ones are small, down to storeLeast bytes: the host
// begins early and has little left to do at the end. From the buffers they go to their destinations
// in pieces of storePiece bytes. storeBytes
// is what the GPU packs in one launch. A processor helps the caller for each storeShare bytes.
const (
	storeBuffers = 8
	storeLeast   = 1 << 20
	storePiece   = 128 << 10
	storeBytes   = 64 << 20
	storeShare   = 1 << 20
)

func (r *ring) StorePacked(dst [][][]byte, src []*cutrantt.Batch) ([]bool, error) {
	if err := r.checkStore(dst, src); err != nil || len(src) == 0 {
		return nil, err
	}
	k, err := r.packing(src[0].Limbs())
	if err != nil {
		return nil, err
	}
	polys, whole := src[0].Polys(), make([]bool, 0, len(src))
	for per := min(max(storeBytes/(polys*k.bytes), 1), mostItems); len(src) > 0; {
		n := min(per, len(src))
		g := &storing{r: r, k: k, polys: polys, limbs: len(src[0].Limbs()), src: src[:n], dst: dst[:n]}
		g.told = make([]uint32, g.blocks()*g.limbs)
		g.bytes = n*polys*k.bytes + 4*len(g.told)
		if err := g.store(); err != nil {
			return nil, err
		}
		whole = g.read(whole)
		src, dst = src[n:], dst[n:]
	}
	return whole, nil
}

// checkStore checks the arguments of StorePacked.
func (r *ring) checkStore(dst [][][]byte, src []*cutrantt.Batch) error {
	if len(dst) != len(src) {
		return fmt.Errorf("%w: memory for %d batches of %d", cutrantt.ErrShape, len(dst), len(src))
	}
	if err := r.check.Batches(src...); err != nil {
		return err
	}
	size := 0
	for i, b := range src {
		if i == 0 {
			for _, l := range b.Limbs() {
				size += cutrantt.PackedBytes(r.n, r.check.Moduli()[l].Q)
			}
		}
		if b.Polys() < 1 || b.Polys() != src[0].Polys() || !b.Shape().SameLimbs(src[0].Shape()) {
			return fmt.Errorf(
				"%w: batch %d has %d polynomials with limbs %v, the first %d with %v", cutrantt.ErrShape, i, b.Polys(),
				b.Limbs(), src[0].Polys(), src[0].Limbs(),
			)
		}
		if len(dst[i]) != b.Polys() {
			return fmt.Errorf(
				"%w: memory for %d of %d polynomials of batch %d", cutrantt.ErrShape, len(dst[i]), b.Polys(), i,
			)
		}
		for _, p := range dst[i] {
			if len(p) != size {
				return fmt.Errorf("%w: %d bytes for packed residues of %d", cutrantt.ErrShape, len(p), size)
			}
		}
	}
	return nil
}

// storing is the batches that one launch packs.
type storing struct {
	r       *ring
	k       packing
	polys   int // of a batch
	limbs   int
	src     []*cutrantt.Batch
	dst     [][][]byte
	bytes   int      // of all that comes back
	told    []uint32 // a word for each block, at the end of it
	from    []int    // where each copy begins, and the end
	pieces  []stored // of all that comes back, in order
	buffers []*buffer
	failed  atomic.Bool
}

// stored is where a piece of what comes back goes.
type stored struct {
	part, at int // its copy, and where it lies in it
	to       []byte
}

// cut cuts what comes back into pieces: the polynomials of all batches, then what the blocks tell.
func (g *storing) cut() {
	at, end := 0, 0 // of all, of the copy
	g.pieces = make([]stored, 0, g.bytes/storePiece+len(g.src)*g.polys+32)
	add := func(to []byte) {
		for len(to) > 0 {
			if at == end {
				g.from = append(g.from, end)
				if size := (g.bytes - end) / 2; end > 0 && size > storeLeast {
					end += min(size&^7, chunk)
				} else {
					end = min(end+storeLeast, g.bytes)
				}
			}
			n, part := min(len(to), end-at, storePiece), len(g.from)-1
			g.pieces = append(g.pieces, stored{part, at - g.from[part], to[:n]})
			at += n
			to = to[n:]
		}
	}
	for _, polys := range g.dst {
		for _, p := range polys {
			add(p)
		}
	}
	add(bytesOf(g.told))
	g.from = append(g.from, g.bytes)
}

// copies is how many copies bring all.
func (g *storing) copies() int { return len(g.from) - 1 }

// blocks are the blocks of each limb.
func (g *storing) blocks() int { return len(g.src) * g.polys * (g.r.n >> 10) }

// store packs, and takes copy after copy through the pinned buffers. It holds the ring only while
// it queues work.
func (g *storing) store() (err error) {
	r := g.r
	defer runtime.KeepAlive(g.src)
	r.backend.calls.Add(1) // the buffers are the context's: it stays until they are put back
	defer r.backend.calls.Add(-1)
	if g.bytes >= crew.Worth { // the bus takes longer for all than helpers sleep
		defer crew.Hold()()
	}
	var at pointer
	var pieces *crew.Task
	defer func() {
		if err != nil {
			g.failed.Store(true)
			_ = r.Sync() // a copy may be under way
		}
		if pieces != nil {
			pieces.Finish()
		}
		for _, b := range g.buffers {
			r.backend.staging.put(b, 0)
		}
		if at != 0 {
			r.pool.put(at, g.bytes/4)
		}
	}()
	err = r.exec(func() (err error) {
		if at, err = r.pool.get(g.bytes / 4); err != nil {
			return err
		}
		if err := g.pack(at); err != nil {
			return err
		}
		g.cut() // while the GPU packs
		for i := range min(storeBuffers, g.copies()) {
			if err := g.fetch(at, i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	pieces = crew.Prepare(len(g.pieces), min(g.bytes/storeShare+1, crew.Most), g.take)
	for i := range g.copies() {
		if err := r.wait(g.buffers[i%storeBuffers].done); err != nil {
			return err
		}
		pieces.Ready(g.after(i))
		if i+storeBuffers < g.copies() {
			pieces.Through(g.after(i))
			if err := r.exec(func() error { return g.fetch(at, i+storeBuffers) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// after is the first piece behind copy i.
func (g *storing) after(i int) int {
	at, _ := slices.BinarySearchFunc(g.pieces, i+1, func(p stored, i int) int { return p.part - i })
	return at
}

// pack queues the kernel. It is called by exec.
func (g *storing) pack(at pointer) error {
	r := g.r
	items := make([]packedItem, len(g.src))
	for i, b := range g.src {
		to := tensor{at + pointer(i*g.polys*g.k.bytes), uint64(g.k.bytes / 4)}
		items[i] = packedItem{residues: r.tensor(b), packed: to}
	}
	a := packedArgs{
		args: args{limbs: g.k.limbs}, packed: g.k.table, found: at + pointer(g.bytes-4*len(g.told)),
		polys: uint32(g.polys),
	}
	return launchItems(r, "packed_store", g.blocks(), g.limbs, packedThreads, 0, a, items)
}

// fetch queues copy i to its buffer. It is called by exec.
func (g *storing) fetch(at pointer, i int) error {
	drv, stream := g.r.backend.drv, g.r.pool.stream
	if i < storeBuffers {
		b, err := g.r.backend.staging.get()
		if err != nil {
			return err
		}
		g.buffers = append(g.buffers, b)
	}
	b := g.buffers[i%storeBuffers]
	if err := drv.CopyOut(b.bytes[:g.from[i+1]-g.from[i]], at+pointer(g.from[i]), stream); err != nil {
		return err
	}
	return drv.Record(b.done, stream)
}

// take copies a piece, which has arrived, to where it belongs.
func (g *storing) take(i int) {
	p := g.pieces[i]
	if !g.failed.Load() {
		copy(p.to, g.buffers[p.part%storeBuffers].bytes[p.at:])
	}
}

// read appends for each batch whether all of its limbs have a residue that is not 0.
func (g *storing) read(whole []bool) []bool {
	first, blocks, count := len(whole), g.r.n>>10, len(g.src)*g.polys
	for range g.src {
		whole = append(whole, true)
	}
	for l := range g.limbs {
		for p := range count {
			var all uint32
			for _, f := range g.told[(l*count+p)*blocks:][:blocks] {
				all |= f
			}
			if all != foundSome {
				whole[first+p/g.polys] = false
			}
		}
	}
	return whole
}
