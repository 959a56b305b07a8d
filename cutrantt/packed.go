package cutrantt

import "math/bits"

// Packed is an optional interface of a Ring. It reads and writes residues as they travel
// (docs/wire-ciphertext.md, "Residues"), so that they cross the bus packed and the host has
// nothing to compute.
type Packed interface {
	// LoadPacked makes the batches of l.
	//
	// Instead of a batch it returns nil for residues that are not what encryption makes: a
	// pair is not below q^2, or all residues of a limb are 0. The caller has to find out
	// which, and may go on with the latter. When LoadPacked returns, all of this is known,
	// and l is not used any more.
	//
	// If a batch is too large for the ring, or if the ring does not support something else of
	// it, LoadPacked returns an error that wraps ErrNotSupported before it does anything.
	LoadPacked(l *PackedLoad) ([]*Batch, error)

	// StorePacked writes polynomial p of src[i] to dst[i][p], which has PackedBytes of the
	// limbs' moduli, and waits until it is there. All of src have one number of polynomials
	// and the same limbs. The residues are public: copies of them may stay in memory.
	//
	// whole[i] reports whether every limb of src[i] has a residue that is not 0, as those of
	// all that encryption makes. Without it the caller has to find out which has none.
	//
	// Its ErrNotSupported is that of LoadPacked.
	StorePacked(dst [][][]byte, src []*Batch) (whole []bool, err error)

	// Stage copies pieces, one after another, to memory that the device reads, and returns what they are there, in one
	// piece. LoadPacked has nothing to copy of that: of what it takes together, many goroutines have copied a part
	// each. The bytes are public. They stay as they are until done, which is called once, when no LoadPacked reads
	// them. Where there is no room Stage returns nil, nil, and LoadPacked takes the pieces as they are.
	Stage(pieces [][]byte) (staged []byte, done func())
}

// MostStaged bounds the memory of a device's rings for what Packed.Stage copies, bytes.
const MostStaged = 128 << 20

// PackedLoad describes batches that are loaded together. They have one shape.
type PackedLoad struct {
	Polys int   // of a batch
	Limbs []int // of each polynomial
	From  Domain
	To    Domain // of the batches; From is that of what is packed or drawn

	// Residues are the leading polynomials of each batch, the same number for every batch. Each
	// polynomial has PackedBytes of the limbs' moduli. Those of a batch follow each other, in
	// pieces that may be cut anywhere.
	Residues [][][]byte
	// Seeds draw the next polynomial of each batch, as Ring.SampleUniform does with Label.
	// They are public. Where there are none, the residues of the other polynomials are
	// arbitrary words until an operation has written all of them, as those of
	// Fused.NewResult; To has to be From if there are such.
	Seeds []*[32]byte
	Label uint32
}

// PairBits is the width of two packed residues modulo q: the bit length of q^2-1.
func PairBits(q uint32) int { return bits.Len64(uint64(q)*uint64(q) - 1) }

// PackedBytes is the length of n packed residues modulo q, n a multiple of 16.
func PackedBytes(n int, q uint32) int { return n / 16 * PairBits(q) }
