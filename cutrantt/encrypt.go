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

// EncryptionLabels are the stream labels of one kind of encryption.
type EncryptionLabels struct {
	V, E0, E1 uint32 // below the secret seed
	Mask      uint32 // below the public seed
}

// Encryption is one message with its randomness.
type Encryption struct {
	// Message holds N finite integral coefficients in natural order. The caller
	// has checked them: others give residues in range that mean nothing.
	Message []float64
	// Bound is at least the largest magnitude in Message.
	Bound float64
	Seed  *[32]byte // secret: of v, e0 and e1
	Mask  *[32]byte // public: of c1; EncryptSeeded only
}
