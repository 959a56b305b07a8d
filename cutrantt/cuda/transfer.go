package cuda

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/internal/crew"
)

// runs groups segments that lie next to each other on both sides and together
// fit one staging buffer.
func runs(s []segment) [][]segment {
	var out [][]segment
	for len(s) > 0 {
		k, n := 1, s[0].n
		for k < len(s) && s[k].device == s[k-1].device+4*pointer(s[k-1].n) && 4*(n+s[k].n) <= chunk {
			n += s[k].n
			k++
		}
		out = append(out, s[:k])
		s = s[k:]
	}
	return out
}

// words is the length of a run.
func words(run []segment) int {
	n := 0
	for _, s := range run {
		n += s.n
	}
	return n
}

func (r *ring) Upload(dst *cutrantt.Batch, src []uint32) error {
	if err := r.check.Transfer(dst, len(src)); err != nil {
		return err
	}
	if len(src) == 0 {
		return nil
	}
	return r.exec(func() (err error) {
		if dst.Mem().(*memory).mapped {
			return r.uploadMapped(dst, src)
		}
		drv, st := r.backend.drv, &r.backend.staging
		parts := runs(r.segments(dst))
		buffers, err := st.several(len(parts))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.settle(buffers, parts)) }()
		for i, run := range parts {
			b := buffers[i%2]
			if i > 1 {
				if err := drv.WaitEvent(b.done); err != nil {
					return err
				}
			}
			at := 0
			for _, s := range run {
				from := src[s.host : s.host+s.n]
				if err := r.inRange(from, dst, s); err != nil {
					return err
				}
				at += copy(b.bytes[at:], bytesOf(from))
			}
			if err := drv.CopyIn(run[0].device, b.bytes[:at], r.pool.stream); err != nil {
				return err
			}
			if err := drv.Record(b.done, r.pool.stream); err != nil {
				return err
			}
		}
		return nil
	}, dst)
}

// inRange checks the residues of a segment of dst.
func (r *ring) inRange(from []uint32, dst *cutrantt.Batch, s segment) error {
	q := r.check.Moduli()[dst.Limbs()[s.limb]].Q
	var bad uint32
	for _, x := range from {
		bad |= q - 1 - x // the sign bit: x >= q, as q and x-q are below 2^31, or x is large
		bad |= x
	}
	if bad>>31 == 0 {
		return nil
	}
	for j, x := range from {
		if x >= q {
			return fmt.Errorf(
				"%w: limb %d of the host's residues, position %d is %d, modulus %d", cutrantt.ErrRange, s.host/r.n, j,
				x, q,
			)
		}
	}
	return nil
}

// uploadMapped writes residues where the GPU reads them, when it is done with
// what was there.
func (r *ring) uploadMapped(dst *cutrantt.Batch, src []uint32) error {
	if err := r.backend.drv.Wait(r.pool.stream); err != nil {
		return err
	}
	for _, s := range r.segments(dst) {
		from := src[s.host : s.host+s.n]
		if err := r.inRange(from, dst, s); err != nil {
			return err
		}
		copy(s.device.Words(s.n), from)
	}
	return nil
}

// downloadMapped reads residues where the GPU wrote them.
func (r *ring) downloadMapped(dst []uint32, src *cutrantt.Batch) error {
	if err := r.backend.drv.Wait(r.pool.stream); err != nil {
		return err
	}
	for _, s := range r.segments(src) {
		copy(dst[s.host:s.host+s.n], s.device.Words(s.n))
	}
	return nil
}

// settle waits until the stream is done with the staging buffers of a transfer in
// parts and gives them back. Its error matters: what they held may not have arrived.
func (r *ring) settle(buffers []*buffer, parts [][]segment) error {
	err := r.backend.drv.Wait(r.pool.stream)
	r.backend.staging.putUsed(buffers, parts)
	return err
}

// done waits until the stream has used a staging buffer, whose content kernels may
// follow to other memory. Where the event cannot be waited for it tries the stream.
func (r *ring) done(b *buffer) error {
	err := r.backend.drv.WaitEvent(b.done)
	if err != nil {
		_ = r.backend.drv.Wait(r.pool.stream)
	}
	return err
}

// putUsed gives back the buffers of a transfer whose parts went through them by
// turns.
func (s *staging) putUsed(buffers []*buffer, parts [][]segment) {
	for i, b := range buffers {
		used := 0
		for k := i; k < len(parts); k += len(buffers) {
			used = max(used, 4*words(parts[k]))
		}
		s.put(b, used)
	}
}

// several returns two buffers, for transfers that overlap the host's copying, or
// one for a single part.
func (s *staging) several(parts int) (bs []*buffer, err error) {
	for range min(parts, 2) {
		b, err := s.get()
		if err != nil {
			for _, b := range bs {
				s.put(b, 0)
			}
			return nil, err
		}
		bs = append(bs, b)
	}
	return bs, nil
}

// Download holds the ring only while it queues copies: what the host does with
// one batch goes on beside the next.
func (r *ring) Download(dst []uint32, src *cutrantt.Batch) error {
	if err := r.check.Transfer(src, len(dst)); err != nil {
		return err
	}
	if len(dst) == 0 {
		return r.Sync()
	}
	if src.Mem().(*memory).mapped {
		return r.exec(func() error { return r.downloadMapped(dst, src) }, src)
	}
	defer runtime.KeepAlive(src)
	r.backend.calls.Add(1) // the staging buffers are the context's: it stays until they are put back
	defer r.backend.calls.Add(-1)
	parts := runs(r.segments(src))
	var buffers []*buffer
	err := r.exec(func() (err error) {
		buffers, err = r.backend.staging.several(len(parts))
		return err
	})
	if err != nil {
		return err
	}
	drv := r.backend.drv
	for i := 0; i < len(parts) && err == nil; i++ {
		err = r.exec(func() error { // the first copy, and always the next one
			for k := i; k <= min(i+1, len(parts)-1); k++ {
				if k > i || i == 0 {
					b := buffers[k%2]
					if err := drv.CopyOut(b.bytes[:4*words(parts[k])], parts[k][0].device, r.pool.stream); err != nil {
						return err
					}
					if err := drv.Record(b.done, r.pool.stream); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err == nil {
			if err = r.backend.locked(func() error { return drv.WaitEvent(buffers[i%2].done) }); err != nil {
				err = fmt.Errorf("cuda: %w", err)
			}
		}
		if err == nil {
			to, from := dst[parts[i][0].host:], buffers[i%2].bytes
			const piece = 64 << 10 // words
			n := words(parts[i])
			share((n+piece-1)/piece, 4*n, func(k int) {
				lo, hi := k*piece, min((k+1)*piece, n)
				copy(bytesOf(to[lo:hi]), from[4*lo:4*hi])
			})
		}
	}
	if err != nil {
		_ = r.Sync() // a copy may be under way
	}
	r.backend.staging.putUsed(buffers, parts)
	return err
}

// share calls f for 0, 1, ..., count-1, on several processors where there are
// enough bytes for them to do.
func share(count, bytes int, f func(i int)) {
	crew.Do(count, sharers(bytes), f)
}

// sharers is how many processors share work on so many bytes.
func sharers(bytes int) int { return min(bytes>>18, crew.Most) }

// Sync waits for the ring's stream.
func (r *ring) Sync() error {
	return r.exec(func() error { return r.backend.drv.Wait(r.pool.stream) })
}

// constant copies words to device memory that stays for the ring's life.
func (r *ring) constant(w []uint32) (pointer, error) {
	if len(w) == 0 {
		return 0, errors.New("no constants to copy")
	}
	at, err := r.pool.get(len(w))
	if err != nil {
		return 0, err
	}
	if err := r.backend.drv.CopyIn(at, bytesOf(w), r.pool.stream); err != nil {
		r.pool.put(at, len(w))
		return 0, err
	}
	return at, nil
}
