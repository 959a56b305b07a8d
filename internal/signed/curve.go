package signed

import (
	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
)

// The formulas are those of Hisil, Wong, Carter and Dawson (eprint 2008/522) for the curve
// -x^2 + y^2 = 1 + d*x^2*y^2, which hold for all points.

// cached is a point (x, y) as it is added to others.
type cached struct {
	plus, minus, t2d field.Element // y+x, y-x, 2*d*x*y
}

// sum is a point in extended coordinates: x = X/Z, y = Y/Z, x*y = T/Z.
type sum struct{ x, y, z, t field.Element }

// newSum returns the neutral element.
func newSum() *sum {
	s := new(sum)
	s.y.One()
	s.z.One()
	return s
}

// addTimes adds d times the first of row, whose multiples it has.
func (s *sum) addTimes(row []cached, d int8) {
	if d == 0 {
		return
	}
	q, by := &row[max(d, -d)-1], d
	plus, minus := &q.plus, &q.minus
	if by < 0 {
		plus, minus = minus, plus
	}
	var a, b, c, e, f field.Element
	a.Multiply(e.Add(&s.y, &s.x), plus)
	b.Multiply(f.Subtract(&s.y, &s.x), minus)
	c.Multiply(&s.t, &q.t2d)
	e.Add(&s.z, &s.z)
	if by < 0 {
		f.Add(&e, &c)
		e.Subtract(&e, &c)
	} else {
		f.Subtract(&e, &c)
		e.Add(&e, &c)
	}
	s.complete(c.Subtract(&a, &b), a.Add(&a, &b), &e, &f)
}

// double doubles s.
func (s *sum) double() {
	var xx, yy, zz, both field.Element
	xx.Square(&s.x)
	yy.Square(&s.y)
	zz.Square(&s.z)
	zz.Add(&zz, &zz)
	both.Add(&s.x, &s.y)
	both.Square(&both)
	var y, z field.Element
	y.Add(&yy, &xx)
	z.Subtract(&yy, &xx)
	s.complete(both.Subtract(&both, &y), &y, &z, zz.Subtract(&zz, &z))
}

// complete sets s to the point (x/z, y/t).
func (s *sum) complete(x, y, z, t *field.Element) {
	s.x.Multiply(x, t)
	s.y.Multiply(y, z)
	s.z.Multiply(z, t)
	s.t.Multiply(x, y)
}

// encoded returns the encoding of s (RFC 8032, section 5.1.2).
func (s *sum) encoded() (out [32]byte) {
	var x, y, inverse field.Element
	inverse.Invert(&s.z)
	x.Multiply(&s.x, &inverse)
	y.Multiply(&s.y, &inverse)
	copy(out[:], y.Bytes())
	out[31] |= byte(x.IsNegative() << 7)
	return out
}

// affine returns points as they are added, with one inversion for all.
func affine(points []*edwards25519.Point) []cached {
	type coordinates struct{ x, y, z, before field.Element }
	all, product := make([]coordinates, len(points)), new(field.Element).One()
	for i, p := range points {
		x, y, z, _ := p.ExtendedCoordinates()
		all[i] = coordinates{*x, *y, *z, *product} // the product of the z before this one
		product.Multiply(product, z)
	}
	inverse := new(field.Element).Invert(product)
	d2 := twiceD()
	out := make([]cached, len(points))
	for i := len(points) - 1; i >= 0; i-- {
		var own, x, y field.Element
		c := &all[i]
		own.Multiply(inverse, &c.before)
		inverse.Multiply(inverse, &c.z)
		x.Multiply(&c.x, &own)
		y.Multiply(&c.y, &own)
		out[i].plus.Add(&y, &x)
		out[i].minus.Subtract(&y, &x)
		out[i].t2d.Multiply(&x, &y)
		out[i].t2d.Multiply(&out[i].t2d, d2)
	}
	return out
}

// twiceD returns 2*d, d = -121665/121666.
func twiceD() *field.Element {
	one := new(field.Element).One()
	d := new(field.Element).Mult32(one, 121666)
	d.Invert(d)
	d.Mult32(d, 2*121665)
	return d.Negate(d)
}
