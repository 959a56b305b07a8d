package cuda

import (
	"errors"
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
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
	return r.exec(func() error {
		if dst.Mem().(*memory).mapped {
			return r.uploadMapped(dst, src)
		}
		drv, st := r.backend.drv, &r.backend.staging
		buffers, err := st.pair()
		if err != nil {
			return err
		}
		defer r.settle(buffers, len(src))
		for i, run := range runs(r.segments(dst)) {
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
			return fmt.Errorf("%w: limb %d of the host's residues, position %d is %d, modulus %d", cutrantt.ErrRange, s.host/r.n, j, x, q)
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

// settle waits until the stream is done with the staging buffers of a transfer
// of n residues and gives them back.
func (r *ring) settle(buffers [2]*buffer, n int) {
	_ = r.backend.drv.Wait(r.pool.stream)
	for _, b := range buffers {
		r.backend.staging.put(b, min(4*n, chunk))
	}
}

func (r *ring) Download(dst []uint32, src *cutrantt.Batch) error {
	if err := r.check.Transfer(src, len(dst)); err != nil {
		return err
	}
	return r.exec(func() error {
		drv, st := r.backend.drv, &r.backend.staging
		if len(dst) == 0 {
			return drv.Wait(r.pool.stream)
		}
		if src.Mem().(*memory).mapped {
			return r.downloadMapped(dst, src)
		}
		buffers, err := st.pair()
		if err != nil {
			return err
		}
		defer r.settle(buffers, len(dst))
		parts := runs(r.segments(src))
		fetch := func(i int) error {
			b := buffers[i%2]
			if err := drv.CopyOut(b.bytes[:4*words(parts[i])], parts[i][0].device, r.pool.stream); err != nil {
				return err
			}
			return drv.Record(b.done, r.pool.stream)
		}
		if err := fetch(0); err != nil {
			return err
		}
		for i, part := range parts {
			if i+1 < len(parts) {
				if err := fetch(i + 1); err != nil {
					return err
				}
			}
			b := buffers[i%2]
			if err := drv.WaitEvent(b.done); err != nil {
				return err
			}
			n := words(part)
			copy(bytesOf(dst[part[0].host:part[0].host+n]), b.bytes[:4*n])
		}
		return nil
	}, src)
}

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
	return at, r.backend.drv.CopyIn(at, bytesOf(w), r.pool.stream)
}
