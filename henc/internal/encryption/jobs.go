package encryption

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/embed"
	"github.com/hencedge/hencedge/internal/crew"
)

// Kind is one kind of encryption in one context.
type Kind struct {
	Ring       cutrantt.Ring
	Parameters Parameters
	Encoder    Encoder
	NewSeed    func() (*[32]byte, error) // draws a fresh seed

	// Job completes the job of a checked message and its seed.
	Job func(j cutrantt.Encryption) (cutrantt.Encryption, error)
	// Together encrypts in few kernels, where the ring can.
	Together func(r cutrantt.Encrypting, limbs []int, jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error)
	// Single encrypts one message with the methods of Ring.
	Single func(limbs []int, j cutrantt.Encryption) (*cutrantt.Batch, error)

	ErrParams, ErrMessage error // those of package henc
}

// Message is what is encrypted.
type Message struct {
	// Numbers are N coefficients, or values of slots.
	Numbers []float64
	// Embedding makes coefficients of values, on the ring; nil for coefficients.
	Embedding *cutrantt.Embedding
}

// Coefficients are messages of coefficients.
func Coefficients(all [][]float64) []Message {
	out := make([]Message, len(all))
	for i, c := range all {
		out[i].Numbers = c
	}
	return out
}

// Encrypted is an encrypted message.
type Encrypted struct {
	Value *cutrantt.Batch
	Scale float64
	Mask  *[32]byte // the public seed of c1, if it has one
}

// Encrypt checks messages, encrypts them all, and wipes their seeds. seeds is nil, or
// has an entry, which may be nil, for each message. scale 0 is that of the level. Of values it
// may return cutrantt.ErrNotSupported: the caller then encodes them.
func Encrypt[S ~[32]byte](k Kind, messages []Message, level int, scale float64, seeds []*S) ([]Encrypted, error) {
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
	most := runtime.GOMAXPROCS(0)
	if len(messages) > 1 && messages[0].Embedding != nil { // steps of 20 us, with waits for a device between them
		most = crew.Most
		defer crew.Hold()()
	}
	crew.Do(len(messages), most, func(i int) {
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
// level. It returns the largest magnitude, of values a bound of it.
func (k Kind) check(m Message, level int, scale float64) (bound float64, err error) {
	if err := k.Parameters.CheckScale(level, scale); err != nil {
		return 0, err
	}
	if m.Embedding != nil {
		return k.checkValues(m, level)
	}
	coeffs := m.Numbers
	if n := k.Parameters.N(); len(coeffs) != n {
		return 0, fmt.Errorf("%w: %d coefficients, the ring degree is %d", k.ErrMessage, len(coeffs), n)
	}
	return k.Encoder.CheckCoeffs(coeffs, level)
}

// checkValues bounds the coefficients of values. A coefficient is a mean of the slots' numbers,
// each turned by a root of unity, times the scale: at most sqrt(2) times the largest real or
// imaginary part, errors of rounding and the last one to an integer aside. Values with which that
// might be too much are for the host, which knows the coefficients.
func (k Kind) checkValues(m Message, level int) (bound float64, err error) {
	largest, _ := embed.Magnitude(m.Numbers)
	bound = math.Ceil(1.5*largest*m.Embedding.Scale + 1)
	if most := m.Embedding.Each * k.Parameters.N() / 2; len(m.Numbers) > most {
		return 0, fmt.Errorf("%w: %d values for %d", cutrantt.ErrNotSupported, len(m.Numbers), most)
	}
	if _, err := k.Encoder.CheckCoeffs([]float64{bound}, level); err != nil {
		return 0, fmt.Errorf("%w: %w", cutrantt.ErrNotSupported, err)
	}
	return bound, nil
}

// job returns a job with the seed, or with a fresh one for nil. It wipes the seed unless
// the job has it.
func (k Kind) job(m Message, bound float64, seed *[32]byte) (cutrantt.Encryption, error) {
	if seed == nil {
		var err error
		if seed, err = k.NewSeed(); err != nil {
			return cutrantt.Encryption{}, err
		}
	}
	j, err := k.Job(cutrantt.Encryption{Message: m.Numbers, Embedding: m.Embedding, Bound: bound, Seed: seed})
	if err != nil || j.Seed != seed {
		wipe(seed)
	}
	return j, err
}

// encrypt encrypts in few kernels, or step by step where the ring has no such way.
func (k Kind) encrypt(limbs []int, jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error) {
	if f, ok := k.Ring.(cutrantt.Encrypting); ok {
		out, err := k.Together(f, limbs, jobs)
		if err == nil || !errors.Is(err, cutrantt.ErrNotSupported) || jobs[0].Embedding != nil {
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
