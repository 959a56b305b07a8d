// Package signed checks Ed25519 signatures under keys that come again and again. From the second signature on a key has
// a table of its multiples, with which a check takes a third of the time. It accepts exactly what crypto/ed25519
// accepts: the equation, without a cofactor, and the decoding of points and scalars are the same.
//
// Nothing here is secret: the time depends on key, message and signature.
package signed

import (
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/binary"
	"sync"

	"filippo.io/edwards25519"
)

// Keys remembers the tables of public keys. It is safe for concurrent use. The zero value remembers none.
type Keys struct {
	most int

	mu     sync.RWMutex
	tables map[[ed25519.PublicKeySize]byte]*table // nil: the key was seen once
	order  [][ed25519.PublicKeySize]byte          // of tables, the oldest first
	missed int                                    // while there was no room
}

// NewKeys returns a Keys for at most that many tables. With more keys than that, some are checked without a table.
func NewKeys(most int) *Keys {
	return &Keys{most: most, tables: map[[ed25519.PublicKeySize]byte]*table{}}
}

// Verify reports whether signature is that of message under key, as ed25519.Verify does, but for a key of another
// length, under which nothing is signed.
func (k *Keys) Verify(key ed25519.PublicKey, message, signature []byte) bool {
	if len(key) != ed25519.PublicKeySize {
		return false
	}
	if t := k.table([ed25519.PublicKeySize]byte(key)); t != nil {
		return t.verify(key, message, signature)
	}
	return ed25519.Verify(key, message, signature)
}

// table returns the table of a key, or nil if it has none yet.
func (k *Keys) table(key [ed25519.PublicKeySize]byte) *table {
	if k == nil || k.most < 1 {
		return nil
	}
	k.mu.RLock()
	t, seen := k.tables[key]
	k.mu.RUnlock()
	if t != nil || seen && !k.due() {
		return t
	}
	if seen {
		if t = newTable(key); t == nil { // no point: nothing verifies
			return nil
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !seen {
		if len(k.tables) >= 2*k.most { // keys that were seen once must not fill the memory
			for other, has := range k.tables {
				if has == nil {
					delete(k.tables, other)
				}
			}
		}
		k.tables[key] = nil
		return nil
	}
	if now, again := k.tables[key]; again && now != nil {
		return now
	}
	if len(k.order) >= k.most {
		delete(k.tables, k.order[0])
		k.order = k.order[1:]
	}
	k.tables[key] = t
	k.order = append(k.order, key)
	return t
}

// missesPerTable is how many checks without a table make room for one, where there is none: keys that take turns would
// have tables made for nothing.
const missesPerTable = 16

// due reports whether a key that has no table gets one now.
func (k *Keys) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.order) < k.most {
		return true
	}
	k.missed++
	return k.missed%missesPerTable == 0
}

// A scalar is digits of a few bits, from minus half of their range on, each of a power of two. For a public key there
// are 64 digits of 4 bits, and its table has the multiples of every span-th power of 16 times the key: digits at one
// place in all spans are added, then the sum is doubled four times. For the base point there are 43 digits of 6 bits,
// and the table has the multiples of all powers.
const (
	keyWidth, baseWidth = 4, 6
	keyDigits           = 64
	baseDigits          = 43
	spans               = 16
	span                = keyDigits / spans
	multiples           = 1 << (keyWidth - 1)
	baseMultiples       = 1 << (baseWidth - 1)
)

// table is multiples of -A for a public key A.
type table [spans][multiples]edwards25519.Point

// newTable returns the table of a key, or nil if it is no point.
func newTable(key [ed25519.PublicKeySize]byte) *table {
	a, err := new(edwards25519.Point).SetBytes(key[:])
	if err != nil {
		return nil
	}
	a.Negate(a)
	t := new(table)
	for i := range t {
		fill(t[i][:], a, keyWidth*span)
	}
	return t
}

// basePoint has multiples of the base point.
var basePoint = sync.OnceValue(func() *[baseDigits][baseMultiples]edwards25519.Point {
	rows := new([baseDigits][baseMultiples]edwards25519.Point)
	b := edwards25519.NewGeneratorPoint()
	for i := range rows {
		fill(rows[i][:], b, baseWidth)
	}
	return rows
})

// fill sets row to the multiples 1, 2, ... of p, and then p to 2^bits times p.
func fill(row []edwards25519.Point, p *edwards25519.Point, bits int) {
	row[0].Set(p)
	for i := range row[1:] {
		row[i+1].Add(&row[i], p)
	}
	for range bits {
		p.Double(p)
	}
}

// addTimes adds d times the first point of row, whose multiples it has, to sum.
func addTimes(sum *edwards25519.Point, row []edwards25519.Point, d int8) {
	switch {
	case d > 0:
		sum.Add(sum, &row[d-1])
	case d < 0:
		sum.Subtract(sum, &row[-d-1])
	}
}

// verify checks R = S*B - k*A, of which signature has R and S.
func (t *table) verify(key ed25519.PublicKey, message, signature []byte) bool {
	if len(signature) != ed25519.SignatureSize {
		return false
	}
	s, err := new(edwards25519.Scalar).SetCanonicalBytes(signature[32:])
	if err != nil {
		return false
	}
	hash := sha512.New()
	hash.Write(signature[:32])
	hash.Write(key)
	hash.Write(message)
	var digest [sha512.Size]byte
	k, err := new(edwards25519.Scalar).SetUniformBytes(hash.Sum(digest[:0]))
	if err != nil {
		return false
	}
	var ofKey [keyDigits]int8
	var ofBase [baseDigits]int8
	split(ofKey[:], k, keyWidth)
	split(ofBase[:], s, baseWidth)
	r := edwards25519.NewIdentityPoint()
	for place := span - 1; place >= 0; place-- {
		if place < span-1 {
			for range keyWidth {
				r.Double(r)
			}
		}
		for i := range t {
			addTimes(r, t[i][:], ofKey[i*span+place])
		}
	}
	base := basePoint()
	for i := range base {
		addTimes(r, base[i][:], ofBase[i])
	}
	return [32]byte(r.Bytes()) == [32]byte(signature)
}

// split sets out to the digits of a scalar, which is below 2^253, so that no carry is left over.
func split(out []int8, s *edwards25519.Scalar, width int) {
	var wide [40]byte
	copy(wide[:], s.Bytes())
	carry := 0
	for i := range out {
		at := i * width
		d := int(binary.LittleEndian.Uint64(wide[at/8:])>>(at%8))&(1<<width-1) + carry
		carry = 0
		if d >= 1<<(width-1) && i < len(out)-1 {
			d, carry = d-1<<width, 1
		}
		out[i] = int8(d)
	}
}
