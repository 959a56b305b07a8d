package cuda

import (
	"fmt"
	"math"

	"github.com/hencedge/hencedge/cutrantt"
)

var _ cutrantt.Encoding = (*ring)(nil)

// Encodes: an integrated GPU, which is weak at float64, takes coefficients.
func (r *ring) Encodes() bool { return !r.backend.mapped }

// checkEmbedding checks the values of jobs with an embedding, and completes e.
func (r *ring) checkEmbedding(e *encryption, jobs []cutrantt.Encryption) error {
	m := jobs[0].Embedding
	if !r.Encodes() {
		return fmt.Errorf("%w: messages of slots on this GPU", cutrantt.ErrNotSupported)
	}
	if len(m.Roots) != r.n || m.Each != 1 && m.Each != 2 || !(m.Scale >= 1) || math.IsInf(m.Scale, 0) {
		return fmt.Errorf(
			"%w: an embedding of %d numbers for degree %d, %d values a slot, scale %g", cutrantt.ErrRange,
			len(m.Roots), r.n, m.Each, m.Scale,
		)
	}
	for i, j := range jobs {
		if j.Embedding != m {
			return fmt.Errorf("%w: message %d has another embedding than the first", cutrantt.ErrShape, i)
		}
		if most := m.Each * r.n / 2; len(j.Message) > most {
			return fmt.Errorf(
				"%w: message %d has %d values, at most %d fit", cutrantt.ErrShape, i, len(j.Message), most,
			)
		}
		e.count = max(e.count, len(j.Message))
	}
	e.embedding, e.inPlace = m, false
	return nil
}

// embed queues the passes that make coefficients, at messages, of the values of k messages
// there. What lies behind the coefficients, as much again, is used up.
func (r *ring) embed(e *encryption, k int, messages pointer) error {
	roots, err := r.roots(e.embedding)
	if err != nil {
		return err
	}
	a := embedArgs{
		args:   args{dst: messages + pointer(8*r.n*k)},
		values: messages, roots: roots, coeffs: messages,
		share: 2 / float64(r.n), scale: e.embedding.Scale,
		count: uint32(e.count), each: uint32(e.embedding.Each),
	}
	for left := r.logN - 1; left > 0; a.each = 0 {
		levels := 3
		if left == 2 || left == 4 {
			levels = 2
		}
		left -= levels
		a.logStep = uint32(left)
		blocks := r.n / 2 >> levels / embedThreads
		if err := launch(r, numbered("embed", levels), blocks, k, embedThreads, 0, a); err != nil {
			return err
		}
	}
	return nil
}

// embedThreads is the threads of a block of kernels/embed.cu.
const embedThreads = 64

// roots is the table of an embedding on the device. The ring keeps one.
func (r *ring) roots(m *cutrantt.Embedding) (pointer, error) {
	of := &m.Roots[0]
	if r.embedding.of == of {
		return r.embedding.at, nil
	}
	at, err := r.pool.get(2 * r.n)
	if err != nil {
		return 0, err
	}
	if err := r.backend.drv.CopyIn(at, bytesOf(m.Roots), r.pool.stream); err != nil {
		r.pool.put(at, 2*r.n)
		return 0, err
	}
	if r.embedding.of != nil {
		r.pool.put(r.embedding.at, 2*r.n)
	}
	r.embedding = embedding{at, of}
	return at, nil
}

// embedding is the table of roots on the device.
type embedding struct {
	at pointer
	of *float64 // the first number of the host's table, which stays alive
}
