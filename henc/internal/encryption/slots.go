package encryption

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/embed"
	"github.com/hencedge/hencedge/internal/crew"
)

// Slots encrypts slot values with a function that encrypts coefficients. S are the
// seeds of messages, C the ciphertexts.
type Slots[S ~[32]byte, C any] struct {
	Ring       cutrantt.Ring
	Parameters Parameters
	Encoder    Encoder
	Encrypt    func(messages []Message, level int, scale float64, seeds []*S) ([]*C, error)
	Missing    error // what every method returns if Encrypt is nil
}

// Parameters is what this package needs of henc.Parameters.
type Parameters interface {
	N() int
	QLimbs(level int) []int
	ScaleAt(level int) float64
	CheckScale(level int, scale float64) error
}

// Encoder is what this package needs of henc.Encoder. Coefficients come from package
// embed and go back to it.
type Encoder interface {
	EncodeCoeffs(values []complex128, scale float64) ([]float64, error)
	EncodeCoeffsReal(values []float64, scale float64) ([]float64, error)
	EncodeCoeffsPacked(values []float64, scale float64) ([]float64, error)
	CheckCoeffs(coeffs []float64, level int) (largest float64, err error)
	Embedding(each int, scale float64) *cutrantt.Embedding
}

// Real encrypts one real value per slot.
func (s Slots[S, C]) Real(values []float64, level int, scale float64, seed *S) (*C, error) {
	return One(s.RealBatch([][]float64{values}, level, scale, []*S{seed}))
}

// Complex encrypts one complex value per slot.
func (s Slots[S, C]) Complex(values []complex128, level int, scale float64, seed *S) (*C, error) {
	return One(s.ComplexBatch([][]complex128{values}, level, scale, []*S{seed}))
}

// Packed encrypts two real values per slot.
func (s Slots[S, C]) Packed(values []float64, level int, scale float64, seed *S) (*C, error) {
	return One(s.PackedBatch([][]float64{values}, level, scale, []*S{seed}))
}

// RealBatch is Real for several messages.
func (s Slots[S, C]) RealBatch(values [][]float64, level int, scale float64, seeds []*S) ([]*C, error) {
	return s.encrypt(slotted{
		count: len(values), values: values, each: 1,
		encode: func(i int, scale float64) ([]float64, error) { return s.Encoder.EncodeCoeffsReal(values[i], scale) },
	}, level, scale, seeds)
}

// ComplexBatch is Complex for several messages.
func (s Slots[S, C]) ComplexBatch(values [][]complex128, level int, scale float64, seeds []*S) ([]*C, error) {
	var parts [][]float64
	if s.encodes() {
		parts = make([][]float64, len(values))
		Spread(len(values), func(i int) {
			parts[i] = make([]float64, 0, 2*len(values[i]))
			for _, v := range values[i] {
				parts[i] = append(parts[i], real(v), imag(v))
			}
		})
		defer func() {
			for _, p := range parts {
				clear(p)
			}
		}()
	}
	return s.encrypt(slotted{
		count: len(values), values: parts, each: 2,
		encode: func(i int, scale float64) ([]float64, error) { return s.Encoder.EncodeCoeffs(values[i], scale) },
	}, level, scale, seeds)
}

// PackedBatch is Packed for several messages.
func (s Slots[S, C]) PackedBatch(values [][]float64, level int, scale float64, seeds []*S) ([]*C, error) {
	return s.encrypt(slotted{
		count: len(values), values: values, each: 2,
		encode: func(i int, scale float64) ([]float64, error) { return s.Encoder.EncodeCoeffsPacked(values[i], scale) },
	}, level, scale, seeds)
}

// slotted is messages of slot values.
type slotted struct {
	count  int
	values [][]float64 // for rings that encode
	each   int         // of them in a slot
	encode func(i int, scale float64) ([]float64, error)
}

// encodes reports whether the ring makes coefficients of values.
func (s Slots[S, C]) encodes() bool {
	r, ok := s.Ring.(cutrantt.Encoding)
	return ok && r.Encodes()
}

// encrypt encrypts messages: the ring encodes them or, where it cannot or where they might be too
// large for the level, the processor.
func (s Slots[S, C]) encrypt(m slotted, level int, scale float64, seeds []*S) ([]*C, error) {
	if s.Encrypt == nil {
		return nil, fmt.Errorf("encrypt: %w", s.Missing)
	}
	if scale == 0 {
		scale = s.Parameters.ScaleAt(level)
	}
	if err := s.Parameters.CheckScale(level, scale); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if s.encodes() {
		messages, embedding := make([]Message, m.count), s.Encoder.Embedding(m.each, scale)
		for i := range messages {
			messages[i] = Message{Numbers: m.values[i], Embedding: embedding}
		}
		cts, err := s.Encrypt(messages, level, scale, seeds)
		if !errors.Is(err, cutrantt.ErrNotSupported) {
			return cts, err
		}
	}
	return s.encoded(m, level, scale, seeds)
}

// encoded encodes messages, on several cores, and encrypts them.
func (s Slots[S, C]) encoded(m slotted, level int, scale float64, seeds []*S) ([]*C, error) {
	coeffs, errs := make([][]float64, m.count), make([]error, m.count)
	defer func() {
		for _, c := range coeffs {
			embed.PutCoeffs(c)
		}
	}()
	Spread(m.count, func(i int) { coeffs[i], errs[i] = m.encode(i, scale) })
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("encrypt: %w", inBatch(err, i, m.count))
		}
	}
	return s.Encrypt(Coefficients(coeffs), level, scale, seeds)
}

// One returns the only ciphertext of a batch of one message.
func One[C any](cts []*C, err error) (*C, error) {
	if err != nil {
		return nil, err
	}
	return cts[0], nil
}

// inBatch says which of several messages an error is about.
func inBatch(err error, i, count int) error {
	if count == 1 {
		return err
	}
	return fmt.Errorf("message %d: %w", i, err)
}

// Spread calls f for 0, 1, ..., count-1 on as many cores as there are.
func Spread(count int, f func(i int)) {
	crew.Do(count, runtime.GOMAXPROCS(0), f)
}
