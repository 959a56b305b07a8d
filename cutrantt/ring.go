package cutrantt

// Modulus is a prime q < 2^30, q = 1 mod 2N, with its pinned primitive 2N-th
// root of unity psi (psi^N = -1 mod q).
//
// Block order: with n1 = N/n2 rows, the Longa-Naehrig levels leave block b
// modulo X^n2 - w_b where, for n1 >= 2,
//
//	w_b = psi^(n2 * (2*brv_(log2 n1)(b) + 1))
//
// (brv_k reverses k bits). For n2 = 16 this is the w_(2g) = psi^brv(N/32+g),
// w_(2g+1) = -w_(2g) rule, and for n2 = 1 position b holds f(w_b), which is
// the order of Lattigo and of most libraries.
type Modulus struct {
	Q   uint32
	Psi uint32
}

// Method selects the algorithm of the Hadamard product modulo X^n2 - w.
type Method uint8

// The methods. Every one gives the same residues.
const (
	MethodAuto       Method = iota // the backend's choice for its device and n2
	MethodSchoolbook               // reduce each term (paper, Algorithm 9)
	MethodLazy                     // accumulate n2 products in 64 bits, one reduction per output
	MethodKaratsuba                // one stride-Karatsuba step (Y = X^2) over lazy halves; n2 >= 2
	MethodToomCook4                // stride Toom-Cook-4 (paper, Algorithm 10, corrected); n2 >= 4
)

// Methods lists the explicit methods.
func Methods() []Method {
	return []Method{MethodSchoolbook, MethodLazy, MethodKaratsuba, MethodToomCook4}
}

// String is the name used on the command line and in benchmark records.
func (m Method) String() string {
	switch m {
	case MethodAuto:
		return "auto"
	case MethodSchoolbook:
		return "schoolbook"
	case MethodLazy:
		return "lazy"
	case MethodKaratsuba:
		return "karatsuba"
	case MethodToomCook4:
		return "toomcook4"
	}
	return "invalid"
}

// Supports reports whether the method exists for blocks of n2 residues. Mul,
// MulAdd and Precompute return ErrNotSupported where it does not.
func (m Method) Supports(n2 int) bool {
	least := 1
	switch m {
	case MethodKaratsuba:
		least = 2
	case MethodToomCook4:
		least = 4
	}
	return m <= MethodToomCook4 && n2 >= least && Coeffs(n2).Valid()
}

// Backend makes rings on one kind of device.
type Backend interface {
	// Name is "reference", "cpu" or "cuda".
	Name() string
	// Device describes the hardware in words, for reports.
	Device() string
	// NewRing checks the moduli and builds what the ring needs lazily.
	NewRing(logN int, moduli []Modulus, opts Options) (Ring, error)
}

// Preference is an optional interface of a Backend.
type Preference interface {
	// Columns returns the n2 with which the device encrypts and switches keys fastest for
	// degree 2^logN, by measurement. 1 is the complete transform.
	Columns(logN int) int
}

// Columns is the preference of b, or MaxN2 if it has none.
func Columns(b Backend, logN int) int {
	if p, ok := b.(Preference); ok {
		return p.Columns(logN)
	}
	return MaxN2
}

// SumPreference is an optional interface of a Backend.
type SumPreference interface {
	// SumColumns is Columns for work that consists of key switches and SumProducts, such as
	// bootstrapping.
	SumColumns(logN int) int
}

// SumColumns is the preference of b, or Columns if it has none.
func SumColumns(b Backend, logN int) int {
	if p, ok := b.(SumPreference); ok {
		return p.SumColumns(logN)
	}
	return Columns(b, logN)
}

// Options of a ring. The zero value is usable.
type Options struct {
	Method  Method // Hadamard method; MethodAuto lets the backend choose
	Workers int    // CPU workers per operation; 0 means GOMAXPROCS
}

// Operand is a fixed multiplicand (public key, evaluation key) with whatever
// the method precomputes of it (w*b, Toom-Cook evaluation points, Shoup
// quotients). It is immutable and safe for concurrent use.
type Operand interface {
	// Shape is the shape of the batch it was made from; its domain is NTT.
	Shape() Shape
	// Release wipes the operand and gives its memory back; it must not be used
	// again (a later MulOperand returns ErrForeign). Idempotent, and optional
	// unless the operand is secret.
	Release()
}

// Ring is arithmetic over device-resident batches. Methods are safe for
// concurrent use as long as no two calls write, or write and read, one batch.
//
// Unless stated otherwise: dst and the sources have the same limbs and, for
// element-wise operations, the same domain and polynomial count; dst may be
// the same batch as (but must not partly overlap) a source; every residue is
// in [0, q) before and after. A source with Polys() == 1 where dst has more is
// applied to each polynomial of dst (broadcast) by Add, Sub, Mul and MulAdd.
// dst's domain label is set by the call where the operation determines it.
// Violations return an error that wraps ErrShape, ErrDomain, ErrForeign,
// ErrRange or ErrNotSupported and leave dst's contents unspecified but within
// range; nothing panics. On an asynchronous backend a call may return before
// the work is done; Download and Sync wait and report what failed.
type Ring interface {
	Backend() Backend
	LogN() int
	N() int
	Moduli() []Modulus // not to be modified
	Method() Method    // what was asked for in Options

	// NewBatch allocates a zeroed batch of at least one polynomial over one or
	// more different moduli.
	NewBatch(polys int, limbs []int, d Domain) (*Batch, error)
	// Free gives the memory back; b and its views must not be used again.
	// Freeing is optional (a finaliser may do it) and idempotent.
	Free(b *Batch)
	// Wipe overwrites b with zeros, for secrets.
	Wipe(b *Batch) error
	// Upload copies host residues, in the order (poly, limb, col, row), into
	// dst. len(src) must be dst.Len(); a residue >= q is ErrRange.
	Upload(dst *Batch, src []uint32) error
	// Download is the inverse of Upload and waits for pending work on src.
	Download(dst []uint32, src *Batch) error
	// Sync waits for all pending work and returns its first error.
	Sync() error

	// Copy copies residues and domain; shapes must agree.
	Copy(dst, src *Batch) error
	// SetSmall sets the coefficients of every limb of the single polynomial
	// dst from signed integers (natural coefficient order, |v| < 2^30),
	// reduced modulo each q. dst's domain must be a coefficient domain.
	SetSmall(dst *Batch, v []int32) error
	// SetFloats is SetSmall for integral float64 values of any finite
	// magnitude (encoded messages), reduced exactly.
	SetFloats(dst *Batch, v []float64) error

	// Forward transforms coefficients/n2 to ntt/n2; Inverse undoes it.
	// Convert brings src to dst's domain from any domain: transforms, layout
	// changes, and finishing or undoing levels between n2 values directly. In
	// place it takes two views of one batch that differ in their labels.
	Forward(dst, src *Batch) error
	Inverse(dst, src *Batch) error
	Convert(dst, src *Batch) error

	Add(dst, a, b *Batch) error
	Sub(dst, a, b *Batch) error
	Neg(dst, a *Batch) error
	// MulScalar multiplies limb i by c[i] < q_i.
	MulScalar(dst, a *Batch, c []uint32) error
	// AddScalar adds the constant polynomial c[i] < q_i to limb i.
	AddScalar(dst, a *Batch, c []uint32) error
	// Mul is the Hadamard product in the NTT domain: block b modulo
	// X^n2 - w_b. MulAdd adds it to dst.
	Mul(dst, a, b *Batch) error
	MulAdd(dst, a, b *Batch) error
	// Precompute prepares b as a fixed operand.
	Precompute(b *Batch) (Operand, error)
	// MulOperand sets dst_k = sum over i of a_i * b_(i*K+k), for k < K =
	// dst.Polys(), i < a.Polys(); b has a.Polys()*K polynomials. The limbs of a
	// and dst are equal and must be a subset of b's (matched by modulus index;
	// an evaluation key serves every level). K = 2, one term is HENC's pair of
	// products that share v; K = 2, d terms is the key-switch inner product.
	MulOperand(dst, a *Batch, b Operand) error

	// Automorphism applies X -> X^g, g odd in [1, 2N), in either domain.
	// dst must not be a.
	Automorphism(dst, a *Batch, g uint64) error
	// Extend is ModUp: it reads src (coefficient domain, modulus S = product
	// of its limbs) as the centred integer x in about [-S/2, S/2] and writes
	// x modulo every limb of dst (coefficient domain, same n2). Limbs of dst
	// that are also in src are copied. dst shares no memory with src, and src
	// has at most 255 limbs. The integer that rounds is fixed point:
	// with y_i = x_i*(S/q_i)^-1 mod q_i and R_i = floor(2^56/q_i),
	// v = (sum y_i*R_i + 2^55) >> 56, x = sum y_i*(S/q_i) - v*S. All backends
	// therefore agree bit for bit.
	Extend(dst, src *Batch) error
	// DivRound is ModDown and RESCALE: src's limbs are dst's followed by the
	// dropped ones with product D, in one domain; dst = (src - [src]_D)/D with
	// [src]_D centred as in Extend, that is src/D rounded. dst may be the view
	// of src's leading limbs.
	DivRound(dst, src *Batch) error

	// SampleUniform fills the single polynomial dst with exact uniform
	// residues: limb with modulus index i takes stream i of prng.Uniform, in
	// storage order of dst's domain. The time taken depends on the residues,
	// which are public.
	SampleUniform(dst *Batch, seed *[32]byte, label uint32) error
	// SampleTernary and SampleCBD draw one small polynomial with prng.Ternary
	// or prng.CBD (natural coefficient order, so that the polynomial does not
	// depend on n2) and expand it over the limbs of dst (coefficient domain).
	SampleTernary(dst *Batch, seed *[32]byte, label uint32) error
	SampleCBD(dst *Batch, seed *[32]byte, label uint32) error
}
