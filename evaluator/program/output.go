package program

import "math"

// Output says how to read the slots of a decrypted result: value i is
// A*Re(slot[Slot+i]) + B, then its square root if Sqrt is set, in natural units.
type Output struct {
	A, B  float64
	Sqrt  bool
	Slot  int
	Count int
	// Bound is the promised error: a value differs from the exact one, which
	// Reference gives up to its own rounding, by more with probability below 10^-15.
	Bound float64
	// Root, with Sqrt, is the promised error of the value under the root.
	Root float64
}

// BoundAt returns the promised error of a value that was decrypted: with Sqrt it is the
// smaller the further the value is from 0, where Bound holds. For |w - v| <= e, sqrt(w)
// and sqrt(v) differ by at most e/(sqrt(w) + sqrt(w-e)) where w > e. Whoever learns it
// learns about as much of the value: it stays with the value.
func (o *Output) BoundAt(value float64) float64 {
	if !o.Sqrt {
		return o.Bound
	}
	w := value * value
	down := value                               // to 0
	if low := w - o.Root - 0x1p-50*w; low > 0 { // less what w and the difference are rounded by
		down = o.Root / (value + math.Sqrt(low))
	}
	up := o.Root / (value + math.Sqrt(w+o.Root))
	return min(o.Bound, max(down, up)+0x1p-50*value)
}

// useful is Useful for values of lo to hi before the root.
func useful(lo, hi float64, out Output) bool {
	width := hi - lo
	if out.Sqrt {
		width = math.Sqrt(max(hi, 0)) - math.Sqrt(max(lo, 0))
	}
	return out.Bound < width/100
}
