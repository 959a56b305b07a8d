package encryption

import (
	"errors"
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
)

// Kind is one kind of encryption in one context.
type Kind struct {
	Ring       cutrantt.Ring
	Parameters Parameters
	Encoder    Encoder
	NewSeed    func() (*[32]byte, error) // draws a fresh seed

	// Job returns the job of a checked message and its seed.
	Job func(message []float64, bound float64, seed *[32]byte) (cutrantt.Encryption, error)
	// Together encrypts in few kernels, where the ring can.
	Together func(r cutrantt.Encrypting, limbs []int, jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error)
	// Single encrypts one message with the methods of Ring.
	Single func(limbs []int, j cutrantt.Encryption) (*cutrantt.Batch, error)

	ErrParams, ErrMessage error // those of package henc
}

// Encrypted is an encrypted message.
type Encrypted struct {
	Value *cutrantt.Batch
	Scale float64
	Mask  *[32]byte // the public seed of c1, if it has one
}

// Encrypt checks messages, encrypts them all, and wipes their seeds. seeds is nil, or
// has an entry, which may be nil, for each message. scale 0 is that of the level.
func Encrypt[S ~[32]byte](k Kind, messages [][]float64, level int, scale float64, seeds []*S) ([]Encrypted, error) {
	if seeds != nil && len(seeds) != len(messages) {
		return nil, fmt.Errorf("%w: %d seeds for %d messages", k.ErrParams, len(seeds), len(messages))
	}
	if scale == 0 {
		scale = k.Parameters.ScaleAt(level)
	}
	jobs, errs := make([]cutrantt.Encryption, len(messages)), make([]error, len(messages))
	defer func() {
		for _, j := range jobs {
			wipe(j.Seed)
		}
	}()
	spread(len(messages), func(i int) {
		bound, err := k.check(messages[i], level, scale)
		if err != nil {
			errs[i] = inBatch(err, i, len(messages))
			return
		}
		var own *[32]byte // the caller keeps its seed
		if seeds != nil && seeds[i] != nil {
			own = new([32]byte)
			*own = *seeds[i]
		}
		jobs[i], errs[i] = k.job(messages[i], bound, own)
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	values, err := k.encrypt(k.Parameters.QLimbs(level), jobs)
	if err != nil {
		return nil, err
	}
	out := make([]Encrypted, len(values))
	for i, v := range values {
		out[i] = Encrypted{Value: v, Scale: scale, Mask: jobs[i].Mask}
	}
	return out, nil
}

// check refuses what cannot be encrypted: an unknown level, a scale that is out of
// range, other than N coefficients, or one that is not integral or too large for the
// level. It returns the largest magnitude.
func (k Kind) check(coeffs []float64, level int, scale float64) (bound float64, err error) {
	if err := k.Parameters.CheckScale(level, scale); err != nil {
		return 0, err
	}
	if n := k.Parameters.N(); len(coeffs) != n {
		return 0, fmt.Errorf("%w: %d coefficients, the ring degree is %d", k.ErrMessage, len(coeffs), n)
	}
	return k.Encoder.CheckCoeffs(coeffs, level)
}

// job returns a job with the seed, or with a fresh one for nil. It wipes the seed unless
// the job has it.
func (k Kind) job(m []float64, bound float64, seed *[32]byte) (cutrantt.Encryption, error) {
	if seed == nil {
		var err error
		if seed, err = k.NewSeed(); err != nil {
			return cutrantt.Encryption{}, err
		}
	}
	j, err := k.Job(m, bound, seed)
	if err != nil || j.Seed != seed {
		wipe(seed)
	}
	return j, err
}

// encrypt encrypts in few kernels, or step by step where the ring has no such way.
func (k Kind) encrypt(limbs []int, jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error) {
	if f, ok := k.Ring.(cutrantt.Encrypting); ok {
		out, err := k.Together(f, limbs, jobs)
		if err == nil || !errors.Is(err, cutrantt.ErrNotSupported) {
			return out, err
		}
	}
	out := make([]*cutrantt.Batch, 0, len(jobs))
	for _, j := range jobs {
		b, err := k.Single(limbs, j)
		if err != nil {
			for _, b := range out {
				k.Ring.Free(b)
			}
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func wipe(seed *[32]byte) {
	if seed != nil {
		clear(seed[:])
	}
}
