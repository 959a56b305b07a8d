package compare

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// ErrWindow: numbers that no window holds.
var ErrWindow = errors.New("no window of numbers")

const (
	digitBits = 2              // of a digit
	places    = 1 << digitBits // of a digit: 0, and the bits "digit >= k" for k from 1 to 3
	maxBits   = 16             // of a number
)

// Window says how many numbers stand in the slots of one ciphertext, so that those of two ciphertexts are compared all
// at once. A number has digits of 2 bits, lowest first, as many as a power of two; those that it does not need are 0.
// Digit d stands in the places 4d to 4d+3: 0, then the bits "digit >= k" for k from 1 to 3. Place p of number i is
// slot p*Lanes + i%Lanes of row i/Lanes, where a row has N/2 slots and Lanes is N/2 over the places of a number.
type Window struct {
	top, digits, lanes int
}

// NewWindow returns the window of numbers from 0 to top, which is from 1 to 2^16-1. It fails with ErrWindow, also for
// parameters with too few slots.
func NewWindow(p bfv.Parameters, top int) (Window, error) {
	if top < 1 || top >= 1<<maxBits {
		return Window{}, fmt.Errorf("%w: their largest is %d, which has to be from 1 to %d", ErrWindow, top,
			1<<maxBits-1)
	}
	digits := 1
	for digits*digitBits < bits.Len(uint(top)) {
		digits *= 2
	}
	w := Window{top, digits, p.N() / 2 / (digits * places)}
	if w.lanes == 0 {
		return Window{}, fmt.Errorf("%w: %d slots are too few for numbers up to %d", ErrWindow, p.N(), top)
	}
	return w, nil
}

// Numbers is how many numbers a window holds at most.
func (w Window) Numbers() int { return 2 * w.lanes }

// Lanes is the distance of the places of a number.
func (w Window) Lanes() int { return w.lanes }

// Top is the largest number.
func (w Window) Top() int { return w.top }

// Bits is how many bits of information a number has: those of the largest.
func (w Window) Bits() int { return bits.Len(uint(w.top)) }

// slots is how many slots there are.
func (w Window) slots() int { return 2 * w.lanes * w.digits * places }

// Slot returns the slot in which Batch.Less leaves its answer for number i, from 0 to Numbers()-1.
func (w Window) Slot(i int) int { return w.slot(w.digits*places-1, i) }

func (w Window) slot(place, i int) int {
	lanes := max(w.lanes, 1)
	return i/lanes*(w.slots()/2) + place*w.lanes + i%lanes
}

// Encode makes the plaintext of numbers, to be encrypted, from at least one. It fails with ErrWindow if there are too
// many, or if one is not from 0 to Top. Neither branches nor addresses depend on the numbers.
func (w Window) Encode(ctx *bfv.Context, numbers []int) (*bfv.Plaintext, error) {
	if n := ctx.Parameters().N(); n == 0 || w.slots() != n {
		return nil, fmt.Errorf("%w: it has %d slots, the context %d", ErrWindow, w.slots(), n)
	}
	all, err := w.fill(numbers)
	if err != nil {
		return nil, err
	}
	defer clear(all)
	return ctx.EncodeSlots(all)
}

// fill returns the slots of numbers.
func (w Window) fill(numbers []int) ([]uint64, error) {
	if len(numbers) == 0 || len(numbers) > w.Numbers() {
		return nil, fmt.Errorf("%w: %d of them, there is room for 1 to %d", ErrWindow, len(numbers), w.Numbers())
	}
	outside := 0
	all := make([]uint64, w.slots())
	for i, v := range numbers {
		outside |= v | (w.top - v) // negative if either is
		for d := range w.digits {
			digit := v >> (digitBits * d) & (places - 1)
			for k := 1; k < places; k++ {
				all[w.slot(d*places+k, i)] = uint64(k-1-digit) >> 63
			}
		}
	}
	if outside < 0 {
		clear(all)
		return nil, fmt.Errorf("%w: one is not from 0 to %d", ErrWindow, w.top)
	}
	return all, nil
}

// Cost is what the comparison of two windows takes. Key switches are those of rotations, without those of products.
type Cost struct{ Depth, Products, Switches int }

// Cost returns that of Batch.Less.
func (w Window) Cost() Cost {
	log := bits.Len(uint(max(w.digits, 1))) - 1
	if log == 0 {
		return Cost{1, 1, 1 + digitBits}
	}
	return Cost{1 + log, 1 + 2*log, 1 + 2*digitBits + 2*log}
}

// Elements returns the Galois elements whose keys a Batch needs, besides the relinearisation key.
func (w Window) Elements(p bfv.Parameters) []uint64 {
	var out []uint64
	for k := w.lanes; k > 0 && k < w.slots()/2; k *= 2 {
		out = append(out, henc.GaloisElement(p.Base(), -k))
	}
	return out
}

// Budget is how many bits of noise are left when two windows under p, fresh from a public key, were compared; negative
// if the result might not decrypt.
func (w Window) Budget(p bfv.Parameters) float64 {
	m := p.Noise()
	ops := noises{m}
	out, err := less[bfv.Noise](w, ops, m.FreshPK(), m.FreshPK())
	if err != nil {
		return m.Budget(bfv.Noise{Deviation: -1})
	}
	return m.Budget(m.AddPlain(out))
}
