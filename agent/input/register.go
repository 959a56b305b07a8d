package input

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/hencedge/hencedge/config"
)

// Register says how a number lies in the bytes of registers.
type Register struct {
	data   string // one of config.DataTypes
	order  string // big, little, word_swap or byte_swap
	start  int    // lowest bit
	length int    // bits; 0 means all
}

// NewRegister takes data type, order and bits from a source.
func NewRegister(src config.Source) (Register, error) {
	r := Register{data: src.Data, order: src.Order}
	bits := config.DataBits(r.data)
	if bits == 0 {
		return r, fmt.Errorf("%w: unknown data type %q", ErrNoSensor, r.data)
	}
	if src.Start != nil || src.Length != nil {
		if src.Start != nil {
			r.start = *src.Start
		}
		r.length = bits - r.start
		if src.Length != nil {
			r.length = *src.Length
		}
		if r.start < 0 || r.length < 1 || r.start+r.length > bits || strings.HasPrefix(r.data, "float") {
			return r, fmt.Errorf("%w: %d bits from bit %d of %s", ErrNoSensor, r.length, r.start, r.data)
		}
	}
	return r, nil
}

// Size returns the number of bytes, 1 to 8.
func (r Register) Size() int { return config.DataBits(r.data) / 8 }

// Decode reads the number from exactly Size bytes in the order in which the
// device sends them. A float that is not finite is ErrReading; 64-bit integers
// are rounded to the nearest float64.
func (r Register) Decode(b []byte) (float64, error) {
	n := r.Size()
	if len(b) != n {
		return 0, fmt.Errorf("%w: %d bytes, want %d", ErrReading, len(b), n)
	}
	var raw [8]byte // the number in big-endian order, at the end
	for i := range n {
		j := i
		switch r.order {
		case "little":
			j = n - 1 - i
		case "word_swap": // words in reverse order, bytes within a word in order
			if n > 1 {
				j = n - 2 - i&^1 + i&1
			}
		case "byte_swap": // bytes within a word swapped, words in order
			if n > 1 {
				j = i ^ 1
			}
		}
		if j < 0 || j >= n {
			return 0, fmt.Errorf("%w: %s cannot be %s", ErrReading, r.data, r.order)
		}
		raw[8-n+i] = b[j]
	}
	u := binary.BigEndian.Uint64(raw[:])
	switch r.data {
	case "float32":
		return finite(float64(math.Float32frombits(uint32(u))))
	case "float64":
		return finite(math.Float64frombits(u))
	}
	length := 8 * n
	if r.length > 0 {
		u >>= r.start
		length = r.length
	}
	return Integer(u, length, r.data[0] == 'i'), nil
}

// Integer returns the number in the low bits of u, in two's complement when signed.
func Integer(u uint64, bits int, signed bool) float64 {
	u <<= 64 - bits
	if signed {
		return float64(int64(u) >> (64 - bits))
	}
	return float64(u >> (64 - bits))
}

func finite(v float64) (float64, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%w: the number is not finite", ErrReading)
	}
	return v, nil
}
