package cpu

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/hencedge/hencedge/cutrantt"
)

// modulus is a prime with its reduction constants and twiddle table, shared by
// every ring of the process that has the same prime, root and degree.
type modulus struct {
	barrett
	psi  uint32
	logN int

	grow  sync.Mutex
	table atomic.Pointer[[]factor]
	toom  func() *toomConstants

	split   [6]atomic.Pointer[[]uint32]                          // see splitters; by the length of n2 in bits
	vectors [2][cutrantt.MaxLogN + 1]atomic.Pointer[vectorTable] // by variant and log2 n1
}

type modulusKey struct {
	m    cutrantt.Modulus
	logN int
}

// shared holds one modulus per key for the life of the process; parameter sets
// are few and come from trusted configuration.
var shared struct {
	sync.Mutex
	m map[modulusKey]*modulus
}

func sharedModulus(m cutrantt.Modulus, logN int) *modulus {
	k := modulusKey{m, logN}
	shared.Lock()
	defer shared.Unlock()
	if t, ok := shared.m[k]; ok {
		return t
	}
	if shared.m == nil {
		shared.m = make(map[modulusKey]*modulus)
	}
	t := &modulus{barrett: newBarrett(m.Q), psi: m.Psi, logN: logN}
	t.toom = sync.OnceValue(func() *toomConstants { return newToomConstants(&t.barrett) })
	shared.m[k] = t
	return t
}

// twiddles returns at least the first n entries (n a power of two, at most N)
// of the table t[k] = psi^brv(k), brv reversing logN bits. Its prefix of n1
// entries is the table of the n1-point column transform with root psi^n2, so
// one table serves every n2:
//
//   - group i of the level with m groups multiplies by t[m+i];
//   - the inverse of t[m+i] is -t[2m-1-i], as the exponents add up to N;
//   - block 2g of n1 is modulo X^n2 - t[n1/2+g], block 2g+1 modulo X^n2 + it.
func (m *modulus) twiddles(n int) []factor {
	if t := m.table.Load(); t != nil && len(*t) >= n {
		return *t
	}
	m.grow.Lock()
	defer m.grow.Unlock()
	if t := m.table.Load(); t != nil && len(*t) >= n {
		return *t
	}
	t := make([]factor, n)
	for k, w := range m.powers(n) {
		t[k] = m.factor(w)
	}
	m.table.Store(&t)
	return t
}

// powers are the residues psi^brv(k), k < n, n a power of two.
func (m *modulus) powers(n int) []uint32 {
	power := make([]uint32, n)
	power[0] = 1
	for k := 1; k < n; k *= 2 {
		// brv(k+i) = brv(k) + brv(i) for i < k, and brv(k) = N/(2k).
		by := m.factor(m.pow(m.psi, uint32(1)<<m.logN/uint32(2*k)))
		for i := range k {
			power[k+i] = by.mul(power[i], uint64(m.q))
		}
	}
	return power
}

// reverse reverses the low k bits of x, k >= 1.
func reverse(x uint32, k int) uint32 { return bits.Reverse32(x) >> (32 - k) }
