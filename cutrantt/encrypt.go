package cutrantt

// Encrypting is an optional interface of a Ring. It encrypts many messages in a few
// kernels, without a batch for every step. Its results equal those of the methods of Ring
// bit for bit. It wipes the secret values that it puts on the device, even if it fails.
//
// If the ring does not support the number of columns, the Hadamard method or the size of
// the coefficients, it returns an error that wraps ErrNotSupported before it does
// anything. The caller then takes the steps itself. All other errors are final.
type Encrypting interface {
	// EncryptPublic makes, for each job, a new batch of two polynomials over
	// limbs in the NTT domain of key, which holds (b, a) over these limbs and
	// perhaps others:
	//
	//	c0 = NTT(v)*b + NTT(m + e0),   c1 = NTT(v)*a + NTT(e1)
	//
	// with v = SampleTernary(Seed, label V), e0 and e1 = SampleCBD(Seed, labels
	// E0 and E1), m = SetFloats(Message).
	EncryptPublic(key Operand, limbs []int, labels EncryptionLabels, jobs []Encryption) ([]*Batch, error)
	// EncryptSeeded makes c0 = NTT(m + e0) - c1*s with c1 = SampleUniform(Mask,
	// label Mask). s is one polynomial in the NTT domain whose first limbs are
	// limbs.
	EncryptSeeded(s *Batch, limbs []int, labels EncryptionLabels, jobs []Encryption) ([]*Batch, error)
}

// Encoding is an optional interface of an Encrypting ring.
type Encoding interface {
	Encrypting

	// Encodes reports whether EncryptPublic and EncryptSeeded take messages with an
	// Embedding. Other rings refuse them with ErrNotSupported.
	Encodes() bool
}

// Embedding makes coefficients of the values of N/2 slots: the canonical embedding undone,
// times Scale, rounded to integers, ties to even. With n = N/2 and the table of roots,
// distance h = n/2, n/4, ..., 1 takes the numbers x, first the slots, in blocks of 2h to
//
//	x_j + x_(h+j) and (x_j - x_(h+j)) * conj(roots[h+j])    (j < h)
//
// as (re*cos + im*sin, im*cos - re*sin). Number k in the order of reversed bits, divided by n,
// is then coefficient k and, its imaginary part, coefficient n+k. Every product and every sum
// is rounded on its own, so that all devices compute the same bits.
type Embedding struct {
	// Roots holds cosine and sine of n roots of unity, one after the other; those of distance
	// h begin at root h. They must not change: a ring keeps a copy on its device.
	Roots []float64
	// Scale is finite and at least 1.
	Scale float64
	// Each is 1 for messages of real values, one to a slot, and 2 for real and imaginary
	// parts in turn.
	Each int
}

// EncryptionLabels are the stream labels of one kind of encryption.
type EncryptionLabels struct {
	V, E0, E1 uint32 // below the secret seed
	Mask      uint32 // below the public seed
}

// Encryption is one message with its randomness.
type Encryption struct {
	// Message holds N finite integral coefficients in natural order. The caller
	// has checked them: others give residues in range that mean nothing. With an Embedding
	// it holds finite values of at most N/2 slots; those of the other slots are 0.
	Message []float64
	// Embedding is nil, or one for all messages of the call.
	Embedding *Embedding
	// Bound is at least the largest magnitude of a coefficient.
	Bound float64
	Seed  *[32]byte // secret: of v, e0 and e1
	Mask  *[32]byte // public: of c1; EncryptSeeded only
}
