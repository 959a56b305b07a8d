package encrypted

import (
	"fmt"

	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// Encode makes the plaintext of a row of steps, to be encrypted: the bits of its code as coefficients, divided by what
// their separation multiplies them with. It fails as Code.Bits, and with rangecover.ErrPlan if there are more bits
// than coefficients.
func Encode(ctx *bfv.Context, code *rangecover.Code, steps []int) (*bfv.Plaintext, error) {
	p := ctx.Parameters()
	if code.Size() > p.N() {
		return nil, fmt.Errorf("%w: %d bits a row, %d coefficients", rangecover.ErrPlan, code.Size(), p.N())
	}
	bits, err := code.Bits(steps)
	if err != nil {
		return nil, err
	}
	defer clear(bits)
	half, scale := uint64(p.T()+1)/2, uint64(1)
	for range code.Log() {
		scale = scale * half % uint64(p.T())
	}
	for i := range bits {
		bits[i] *= scale
	}
	return ctx.EncodeCoeffs(bits)
}

// Elements returns the Galois elements whose keys an evaluator of rows of a code needs, whatever the model.
func Elements(p bfv.Parameters, code *rangecover.Code) []uint64 {
	var out []uint64
	for j := range code.Log() {
		out = append(out, uint64(p.N()>>j+1))
	}
	for k := 1; k < p.N()/2; k *= 2 {
		out = append(out, henc.GaloisElement(p.Base(), -k))
	}
	return append(out, henc.ConjugationElement(p.Base()))
}

// Open returns the sums of the outputs from the results of a row. decrypt returns the slots of a ciphertext.
func Open(
	shape rangecover.Shape, results []rangecover.Result[*bfv.Ciphertext],
	decrypt func(*bfv.Ciphertext) ([]uint64, error),
) ([]int64, error) {
	plain := make([]rangecover.Result[[]uint64], len(results))
	for i, r := range results {
		var err error
		if plain[i].Test, err = decrypt(r.Test); err != nil {
			return nil, err
		}
		for _, ct := range r.Values {
			values, err := decrypt(ct)
			if err != nil {
				return nil, err
			}
			plain[i].Values = append(plain[i].Values, values)
		}
	}
	return shape.Open(plain)
}
