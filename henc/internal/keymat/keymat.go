// Package keymat holds what the public side (package henc) and the secret side
// (package henc/secret) must agree on: the stream labels of seeds and the
// expansion of the uniform halves of keys.
package keymat

import (
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Stream labels below one secret seed of an encryption or of a key.
const (
	LabelV      uint32 = 0x48560001 // v of public-key encryption, ternary
	LabelE0     uint32 = 0x48560002 // e0, added to the message, binomial
	LabelE1     uint32 = 0x48560003 // e1, binomial
	LabelSecret uint32 = 0x48560010 // the secret key s, ternary
	LabelSparse uint32 = 0x48560011 // the sparse secret of bootstrapping
	LabelKeyE   uint32 = 0x48570000 // noise of digit d of a key: LabelKeyE + d
)

// LabelKeyA + d is the label, below a key's public seed, of the uniform half of
// digit d (a public key is digit 0).
const LabelKeyA uint32 = 0x48410000

// LabelCompactA is the label of the uniform half of a compact window.
const LabelCompactA uint32 = 0x48430001

// UniformA fills the single polynomial dst, in the NTT domain of any n2, with
// the uniform half that (seed, label) stands for. The residues are drawn in the
// complete domain ntt/1 and converted, so that a key is the same polynomial
// whatever n2 the machine that expands it works with.
func UniformA(r cutrantt.Ring, dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	if dst.Domain() == cutrantt.NTT(1) {
		return r.SampleUniform(dst, seed, label)
	}
	c := chain.New(r)
	tmp := c.Batch(1, dst.Limbs(), cutrantt.NTT(1))
	c.Sample(r.SampleUniform, tmp, seed, label)
	c.Op2(r.Convert, dst, tmp)
	return c.Close()
}
