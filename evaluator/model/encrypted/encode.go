package encrypted

import (
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/henc/bfv"
)

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
