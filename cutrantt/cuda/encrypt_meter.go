package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/hencedge/hencedge/internal/meter"

	"github.com/hencedge/hencedge/cutrantt"
)

var _ meter.EncryptionMeter = (*ring)(nil)

// metered is sets of k jobs each whose messages and seeds are on the device.
type metered struct {
	r          *ring
	e          *encryption
	k          int
	sets       []meteredSet // nil once released
	small, mid secrets      // shared by all sets, as calls get the same memory again
	out        []*cutrantt.Batch
	held       []holding // all of its memory, which is wiped before it goes back
}

// meteredSet is where the records of a set are. Those that the last kernel gets are
// others, with the same public parts: it wipes their seeds, which are zero, and the
// memory behind them, which is as long as the messages.
type meteredSet struct{ input, last pointer }

// holding is memory that holds secrets until it is wiped.
type holding struct {
	secrets
	mapped bool
}

func (r *ring) MeterPublic(
	pk cutrantt.Operand, limbs []int, labels cutrantt.EncryptionLabels, jobs []cutrantt.Encryption,
) (meter.MeteredEncryptions, error) {
	e, err := r.publicEncryption(pk, limbs, labels, jobs)
	if err != nil {
		return nil, err
	}
	m, err := r.metered(e, jobs, 1)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (r *ring) MeterSeeded(
	s *cutrantt.Batch, limbs []int, labels cutrantt.EncryptionLabels, jobs []cutrantt.Encryption,
) (meter.MeteredEncryptions, error) {
	e, err := r.seededEncryption(s, limbs, labels, jobs)
	if err != nil {
		return nil, err
	}
	m, err := r.metered(e, jobs, 1)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// metered takes checked jobs to the device, in sets of k.
func (r *ring) metered(e *encryption, jobs []cutrantt.Encryption, k int) (*metered, error) {
	defer runtime.KeepAlive(e.of)
	if e.embedding != nil {
		return nil, fmt.Errorf("%w: encryptions of slots that repeat", cutrantt.ErrNotSupported)
	}
	e.limbs = slices.Clone(e.limbs)
	m := &metered{r: r, e: e, k: k}
	err := r.exec(func() (err error) {
		b, err := r.backend.staging.get()
		if err != nil {
			return err
		}
		defer func() { // nothing secret stays in the host's memory
			if err != nil {
				_ = r.backend.drv.Wait(r.pool.stream) // a copy may be under way
			}
			r.backend.staging.put(b, 2*int(unsafe.Sizeof(job{}))+8*r.n)
		}()
		if m.small, err = m.hold(k*10*r.n/4, false); err != nil {
			return err
		}
		if m.mid, err = m.hold(e.kinds*k*e.group(r.n, k)*r.n, false); err != nil {
			return err
		}
		for ; len(jobs) > 0; jobs = jobs[k:] {
			if err := m.add(jobs[:k], b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for _, x := range m.out {
			r.Free(x)
		}
		return nil, errors.Join(err, m.Release())
	}
	return m, nil
}

// hold allocates memory that is wiped in the end.
func (m *metered) hold(words int, mapped bool) (secrets, error) {
	at, err := m.r.pool.kind(block{class(4 * words), mapped})
	if err != nil {
		return secrets{}, err
	}
	s := secrets{at, words}
	m.held = append(m.held, holding{s, mapped})
	return s, nil
}

// add takes one set to the device by way of b.
func (m *metered) add(jobs []cutrantt.Encryption, b *buffer) error {
	r, drv, size := m.r, m.r.backend.drv, int(unsafe.Sizeof(job{}))
	messages, err := m.hold(m.k*2*r.n, m.e.inPlace)
	if err != nil {
		return err
	}
	input, err := m.hold(m.k*size/4, false)
	if err != nil {
		return err
	}
	behind := m.k * 2 * r.n
	if m.e.inPlace { // the host wipes the messages
		behind = 0
	}
	last, err := m.hold(m.k*size/4+behind, false)
	if err != nil {
		return err
	}
	for i, j := range jobs {
		out, err := r.result(m.e)
		if err != nil {
			return err
		}
		m.out = append(m.out, out)
		t := r.tensor(out)
		public := job{message: messages.at + pointer(8*r.n*i), dst: t.at, ds: t.stride}
		if j.Mask != nil {
			public.mask = *j.Mask
		}
		records := unsafe.Slice((*job)(unsafe.Pointer(&b.bytes[0])), 2)
		records[0], records[1] = public, public
		records[0].seed = *j.Seed
		at, message := pointer(size*i), b.bytes[2*size:2*size+8*r.n]
		if err := drv.CopyIn(input.at+at, b.bytes[:size], r.pool.stream); err != nil {
			return err
		}
		if err := drv.CopyIn(last.at+at, b.bytes[size:2*size], r.pool.stream); err != nil {
			return err
		}
		if !m.e.inPlace {
			copy(message, bytesOf(j.Message))
			if err := drv.CopyIn(public.message, message, r.pool.stream); err != nil {
				return err
			}
		}
		if err := drv.Wait(r.pool.stream); err != nil { // b is used again, and so may be the memory of the message
			return err
		}
		if m.e.inPlace {
			copy(bytesOf(public.message.Words(2*r.n)), bytesOf(j.Message))
		}
	}
	m.sets = append(m.sets, meteredSet{input.at, last.at})
	return nil
}

func (m *metered) Queue(i int) error {
	defer runtime.KeepAlive(m.e.of)
	return m.r.exec(func() error { // after an error small and mid hold something until the next call, or Release
		if i < 0 || i >= len(m.sets) {
			return fmt.Errorf("%w: encryption %d of %d (none after the release)", cutrantt.ErrRange, i, len(m.sets))
		}
		if err := m.r.check.Batches(m.out[m.k*i : m.k*(i+1)]...); err != nil {
			return err
		}
		switch key := m.e.of.(type) {
		case *operand:
			if key.mem.Len() == 0 {
				return fmt.Errorf("%w: the key was released", cutrantt.ErrForeign)
			}
		case *cutrantt.Batch:
			if err := m.r.check.Batches(key); err != nil {
				return err
			}
		}
		return m.r.encryptQueued(m.e, m.k, m.sets[i].input, m.small, m.mid, m.e.group(m.r.n, m.k), m.sets[i].last)
	})
}

func (m *metered) Results() []*cutrantt.Batch { return m.out }

func (m *metered) wipe(s secrets) error {
	return m.r.backend.drv.Fill(s.at, 0, s.words, m.r.pool.stream)
}

func (m *metered) Release() error {
	return m.r.exec(func() (err error) {
		m.sets = nil
		var left []holding
		for _, h := range m.held {
			if e := m.wipe(h.secrets); e != nil {
				err = errors.Join(err, e)
				left = append(left, h)
				continue
			}
			m.r.pool.back(h.at, block{class(4 * h.words), h.mapped})
		}
		m.held = left
		return errors.Join(err, m.r.backend.drv.Wait(m.r.pool.stream))
	})
}
