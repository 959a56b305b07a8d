package steps_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/bfv/steps"
)

// decode reads a row back from its bits: each digit is the number of its bits that are set.
func decode(c *steps.Code, bits []uint64) []int {
	var row []int
	for f, top := range c.Tops() {
		n := 0
		for i := range steps.Digits(top) {
			at, d := c.First(f, i), 0
			for k := range steps.Largest(top, i) {
				d += int(bits[at+k])
			}
			n |= d << (steps.Width * i)
		}
		row = append(row, n)
	}
	return row
}

// FuzzBits: every row of a code comes back from its bits, which are thermometers, and no other row is encoded.
func FuzzBits(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 255, 255, 1, 0, 0, 16, 0, 15})
	f.Fuzz(func(t *testing.T, b []byte) {
		var tops, row []int
		for ; len(b) >= 4 && len(tops) < 64; b = b[4:] {
			tops = append(tops, int(binary.BigEndian.Uint16(b)))
			row = append(row, int(int16(binary.BigEndian.Uint16(b[2:]))))
		}
		c, err := steps.NewCode(tops)
		if (err != nil) != (len(tops) == 0 || slices.Contains(tops, 0)) {
			t.Fatalf("%v: %v", tops, err)
		}
		if err != nil {
			return
		}
		if c.Size() > 1<<c.Log() || c.Size() > 1 && c.Size() <= 1<<(c.Log()-1) {
			t.Fatalf("%d bits, log %d", c.Size(), c.Log())
		}
		bad := slices.ContainsFunc(row, func(v int) bool { return v < 0 })
		for i, v := range row {
			bad = bad || v > tops[i]
		}
		bits, err := c.Bits(row)
		if bad {
			if !errors.Is(err, steps.ErrRow) {
				t.Fatalf("%v up to %v: %v", row, tops, err)
			}
			return
		}
		if err != nil || len(bits) != c.Size() {
			t.Fatalf("%d bits of %d: %v", len(bits), c.Size(), err)
		}
		for f, top := range tops {
			for i := range steps.Digits(top) {
				digit := bits[c.First(f, i):][:steps.Largest(top, i)]
				if !slices.IsSortedFunc(digit, func(a, b uint64) int { return int(b) - int(a) }) {
					t.Fatalf("no thermometer: %v", digit)
				}
			}
		}
		if got := decode(c, bits); !slices.Equal(got, row) {
			t.Fatalf("%v comes back as %v", row, got)
		}
	})
}

// TestKeys: the rotations of key sets for integers are those that rows of up to N/2 bits need.
func TestKeys(t *testing.T) {
	for _, name := range henc.IntegerNames() {
		p, err := bfv.Named(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		have := map[uint64]bool{henc.ConjugationElement(p.Base()): true}
		for _, k := range bfv.KeyRotations(p.Base()) {
			have[henc.GaloisElement(p.Base(), k)] = true
		}
		var tops []int
		for size := 0; size < p.N()/2; size++ { // a bit each
			tops = append(tops, 1)
		}
		c, err := steps.NewCode(tops)
		if err != nil {
			t.Fatal(err)
		}
		need := steps.Elements(p, c)
		for _, g := range need {
			if !have[g] {
				t.Errorf("%s: no key of element %d", name, g)
			}
		}
		if len(have) > len(need) {
			t.Errorf("%s: %d keys, %d are needed", name, len(have), len(need))
		}
		ctx, err := bfv.NewContext(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := steps.Encode(ctx, c, make([]int, 3)); !errors.Is(err, steps.ErrRow) {
			t.Errorf("a short row: %v", err)
		}
		if _, err := steps.Encode(ctx, nil, nil); !errors.Is(err, steps.ErrCode) {
			t.Errorf("no code: %v", err)
		}
	}
}
