package henc

import (
	"errors"
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
)

// BatchEncryptor is a SlotEncryptor that encrypts several vectors at one level
// and scale together, which a GPU does much faster than one by one. seeds is nil,
// or has an entry, which may be nil, for each vector; the results are those of
// the methods for one vector. A call fails as a whole.
type BatchEncryptor interface {
	SlotEncryptor
	EncryptRealBatch(values [][]float64, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error)
	EncryptComplexBatch(values [][]complex128, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error)
	EncryptPackedBatch(values [][]float64, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error)
}

// Steps is what the kinds of encryption differ in. It is for package
// henc/secret.
type Steps struct {
	// Job makes the job of a checked message and its seed.
	Job func(message []float64, bound float64, seed *Seed) (cutrantt.Encryption, error)
	// Together encrypts in few kernels, where the ring can.
	Together func(r cutrantt.Encrypting, limbs []int, jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error)
	// Single encrypts one message with the methods of Ring.
	Single func(limbs []int, j cutrantt.Encryption) (*cutrantt.Batch, error)
}

// EncryptJobs checks messages, encrypts them all, and wipes their seeds. It is
// for package henc/secret.
func EncryptJobs(ctx *Context, messages [][]float64, level int, scale float64, seeds []*Seed, s Steps) ([]*Ciphertext, error) {
	if seeds != nil && len(seeds) != len(messages) {
		return nil, fmt.Errorf("%w: %d seeds for %d messages", ErrParams, len(seeds), len(messages))
	}
	jobs, errs := make([]cutrantt.Encryption, len(messages)), make([]error, len(messages))
	defer func() {
		for _, j := range jobs {
			(*Seed)(j.Seed).Wipe()
		}
	}()
	spread(len(messages), func(i int) {
		_, bound, err := CheckMessage(ctx, messages[i], level, scale)
		if err != nil {
			errs[i] = inBatch(err, i, len(messages))
			return
		}
		var given *Seed
		if seeds != nil {
			given = seeds[i]
		}
		jobs[i], errs[i] = newJob(s, messages[i], bound, given)
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	if scale == 0 {
		scale = ctx.Parameters().ScaleAt(level)
	}
	values, err := encryptJobs(ctx.Ring(), ctx.Parameters().QLimbs(level), jobs, s)
	if err != nil {
		return nil, err
	}
	cts := make([]*Ciphertext, len(values))
	for i, v := range values {
		cts[i] = &Ciphertext{Value: v, Level: level, Scale: scale, Seed: jobs[i].Mask}
	}
	return cts, nil
}

// newJob makes a job with a copy of the seed, or with a fresh one for nil.
func newJob(s Steps, m []float64, bound float64, seed *Seed) (cutrantt.Encryption, error) {
	secret, err := takeSeed(seed)
	if err != nil {
		return cutrantt.Encryption{}, err
	}
	j, err := s.Job(m, bound, secret)
	if err != nil || j.Seed != (*[32]byte)(secret) {
		secret.Wipe() // the job has another seed, derived from it
	}
	return j, err
}

// encryptJobs encrypts in few kernels, or step by step where the ring has no
// such way.
func encryptJobs(r cutrantt.Ring, limbs []int, jobs []cutrantt.Encryption, s Steps) ([]*cutrantt.Batch, error) {
	if f, ok := r.(cutrantt.Encrypting); ok {
		out, err := s.Together(f, limbs, jobs)
		if err == nil || !errors.Is(err, cutrantt.ErrNotSupported) {
			return out, err
		}
	}
	out := make([]*cutrantt.Batch, 0, len(jobs))
	for _, j := range jobs {
		b, err := s.Single(limbs, j)
		if err != nil {
			for _, b := range out {
				r.Free(b)
			}
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// inBatch says which of several messages an error is about.
func inBatch(err error, i, count int) error {
	if count == 1 {
		return err
	}
	return fmt.Errorf("message %d: %w", i, err)
}

// one is the result for one message.
func one(cts []*Ciphertext, err error) (*Ciphertext, error) {
	if err != nil {
		return nil, err
	}
	return cts[0], nil
}
