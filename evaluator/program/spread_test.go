package program

import (
	"math"
	"testing"
)

// TestLimitCovers compares the promise with the exact tails of the two laws that
// errors lie between.
func TestLimitCovers(t *testing.T) {
	// Laplace with deviation 1: P(|x| > k) = exp(-k*sqrt 2).
	l := laplace(1).limit()
	if p := math.Exp(-l * math.Sqrt2); p > failure {
		t.Errorf("Laplace: exceeded with probability %g, want at most %g", p, failure)
	}
	if exact := math.Log(1/failure) / math.Sqrt2; l > 1.35*exact {
		t.Errorf("Laplace: limit %.1f deviations, exact is %.1f", l, exact)
	}
	n := spread{sd: 1}.limit()
	if p := math.Erfc(n / math.Sqrt2); p > failure {
		t.Errorf("normal: exceeded with probability %g, want at most %g", p, failure)
	}
	if n > 9 {
		t.Errorf("normal: limit %.1f deviations", n)
	}
	// Averages of many slots tend to the normal law.
	if m := laplace(1).sum(4096).times(1.0 / 64).limit(); m > 9.2 || m < n {
		t.Errorf("average of 4096 Laplace errors: limit %.2f deviations, normal has %.2f", m, n)
	}
	if (spread{}).limit() != 0 {
		t.Error("no error has a limit other than 0")
	}
}

func TestSpreadSums(t *testing.T) {
	a, b := laplace(3), laplace(4)
	if s := a.plus(b); math.Abs(s.sd-5) > 1e-12 {
		t.Errorf("independent: deviation %g, want 5", s.sd)
	}
	if s := a.with(b); s.sd != 7 || math.Abs(s.tail-7/math.Sqrt2) > 1e-12 {
		t.Errorf("dependent: %+v, want deviation 7 with the same shape", s)
	}
	if s := a.with(a); math.Abs(s.limit()-2*a.limit()) > 1e-6*s.limit() {
		t.Errorf("twice an error: limit %g, want %g", s.limit(), 2*a.limit())
	}
	if s := a.with(spread{}); s != a {
		t.Errorf("nothing added: %+v", s)
	}
	d := deviation{own: laplace(1), common: laplace(1), fixed: 1}
	if s := d.sum(16, 10); s.own.sd != 4 || s.common.sd != 10 || s.fixed != 16 {
		t.Errorf("sum over slots: %+v", s)
	}
	if s := d.shared(); s.own.sd != 0 || s.common.sd != 2 {
		t.Errorf("shared: %+v", s)
	}
}

// TestSlotNoiseIsNotNormal measures why promises are not counted in standard
// deviations: fresh noise has heavier tails than the normal law, whose kurtosis
// is 3. A sum of two independent Laplace errors has 4.5.
func TestSlotNoiseIsNotNormal(t *testing.T) {
	b := testBench(t, "edge12-d1")
	scale := b.ctx.Parameters().DefaultScale()
	var m2, m4, n float64
	for range 12 {
		ct, err := b.enc.EncryptReal(nil, 0, scale, nil)
		if err != nil {
			t.Fatal(err)
		}
		slots, err := b.dec.DecryptReal(ct)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range slots {
			m2, m4, n = m2+v*v, m4+v*v*v*v, n+1
		}
	}
	sd := math.Sqrt(m2 / n)
	if want := b.ctx.Parameters().Noise().FreshPK(scale); sd < want/1.2 || sd > want*1.2 {
		t.Errorf("deviation %g, the model says %g", sd, want)
	}
	if k := m4 / n / (sd * sd * sd * sd); k < 3.7 || k > 6 {
		t.Errorf("kurtosis %.2f, want about 4.5", k)
	} else {
		t.Logf("kurtosis %.2f over %.0f slots", k, n)
	}
}

// TestRotationNoise holds the bound for the noise of a sum over slots against its exact
// law. Rotation i by 2^i adds its noise, which later rotations copy, to the slots that
// are multiples of 2^(i+1); the noise in a slot is normal with the key's value there as
// deviation, and that value, the same for every rotation, is complex normal. So slot m,
// met by k rotations, contributes -log(1 - k*t^2/2) to the logarithm of the generating
// function.
func TestRotationNoise(t *testing.T) {
	for stages := 1; stages <= 12; stages++ {
		n := 1 << stages
		met := make([]int, n)
		for i := range stages {
			for m := 0; m < n; m += 2 << i {
				met[m]++
			}
		}
		s := rotations(1, stages, n-1)
		if total := sumInts(met); math.Abs(s.sd*s.sd-float64(total)) > 1e-9*float64(total) {
			t.Errorf("%d slots: variance %g, want %d", n, s.sd*s.sd, total)
		}
		for part := 0.01; part < 1; part += 0.01 {
			x := part / s.tail
			exact := 0.0
			for _, k := range met {
				exact -= math.Log(1 - float64(k)*x*x/2)
			}
			if bound := s.sd * s.sd * x * x / 2 / (1 - part*part); exact > bound*(1+1e-9) {
				t.Errorf("%d slots at t = %.3f: the exact law has %.4f, the bound is %.4f", n, x, exact, bound)
				break
			}
		}
	}
}

func sumInts(v []int) (sum int) {
	for _, x := range v {
		sum += x
	}
	return sum
}
