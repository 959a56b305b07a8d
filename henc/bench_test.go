package henc

import (
	"math/rand/v2"
	"testing"

	"github.com/hencedge/hencedge/henc/internal/embed/embedtest"
)

var benchSets = []string{"edge12-d1", "edge13-d2p", "std14-d5", "std15-d11"}

func BenchmarkEncode(b *testing.B) {
	for _, name := range benchSets {
		b.Run(name, func(b *testing.B) {
			c := mustContext(b, mustNamed(b, name))
			p := c.Parameters()
			z := embedtest.RandomSlots(rand.New(rand.NewPCG(1, 1)), p.Slots())
			for b.Loop() {
				if _, err := c.Encoder().EncodeComplex(z, p.MaxLevel(), p.DefaultScale()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range benchSets {
		b.Run(name, func(b *testing.B) {
			c := mustContext(b, mustNamed(b, name))
			p := c.Parameters()
			z := embedtest.RandomSlots(rand.New(rand.NewPCG(1, 1)), p.Slots())
			pt, err := c.Encoder().EncodeComplex(z, p.MaxLevel(), p.DefaultScale())
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := c.Encoder().DecodeComplex(pt); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMarshalCiphertext(b *testing.B) {
	for _, name := range benchSets {
		b.Run(name, func(b *testing.B) {
			c := mustContext(b, mustNamed(b, name))
			p := c.Parameters()
			ct := randomCiphertext(b, c, p.MaxLevel(), p.DefaultScale(), false)
			b.SetBytes(int64(p.CiphertextBytes(p.MaxLevel(), false)))
			for b.Loop() {
				mustMarshal(b, c, ct)
			}
		})
	}
}

func BenchmarkUnmarshalCiphertext(b *testing.B) {
	for _, name := range benchSets {
		b.Run(name, func(b *testing.B) {
			c := mustContext(b, mustNamed(b, name))
			p := c.Parameters()
			wire := mustMarshal(b, c, randomCiphertext(b, c, p.MaxLevel(), p.DefaultScale(), false))
			b.SetBytes(int64(len(wire)))
			for b.Loop() {
				if _, err := c.UnmarshalCiphertext(wire); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
