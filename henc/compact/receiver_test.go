package compact_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
)

// rig is a key holder, a receiver and boards.
type rig struct {
	set        henc.Parameters
	small, big *henc.Context
	common     *secret.Key
	key        *secret.Key
	receiver   *compact.Receiver
	boards     []*board
}

type board struct {
	secret *secret.Key
	enc    *secret.CompactEncryptor
	key    *compact.Key
}

func seedOf(t testing.TB, label string) *henc.Seed {
	t.Helper()
	return must(new(henc.Seed).Derive("hencedge compact test " + label))(t)
}

// bigParameters is a set for bootstrapping; NAME@2^LOGN is its chain in another ring.
func bigParameters(t testing.TB, set string, logN int) henc.Parameters {
	t.Helper()
	lit := must(henc.NamedInsecure(set))(t).Literal()
	if logN != lit.LogN {
		lit.LogN, lit.Insecure, lit.PsiQ, lit.PsiP = logN, true, nil, nil
	}
	return must(henc.NewParameters(lit))(t)
}

func newRig(t testing.TB, set string, p henc.Parameters, n2, boards int) *rig {
	t.Helper()
	r := &rig{set: must(compact.NamedInsecure(set))(t)}
	r.small = must(henc.NewContext(must(compact.Switching(r.set, p))(t), henc.WithN2(n2)))(t)
	r.big = must(henc.NewContext(p, henc.WithN2(n2)))(t)
	r.key = must(secret.Generate(r.big, seedOf(t, "key")))(t)
	r.common = must(r.key.CompactSecret(r.small))(t)
	r.receiver = must(compact.NewReceiver(r.set, r.small, r.big, must(r.key.CompactKey(r.common))(t)))(t)
	ctx := must(henc.NewContext(r.set, henc.WithN2(1)))(t)
	for i := range boards {
		k := must(secret.Generate(ctx, seedOf(t, fmt.Sprint("board ", i))))(t)
		r.boards = append(r.boards, &board{k, must(secret.NewCompactEncryptor(k))(t),
			must(r.receiver.Prepare(must(r.common.CompactKey(k))(t)))(t)})
	}
	return r
}

// values are n readings, half of them constant, as in the arithmetic that this follows.
func values(n int, seed uint64) []float64 {
	rng, x := rand.New(rand.NewPCG(seed, 1)), make([]float64, n)
	for i := range x {
		if x[i] = 0.97; i >= n/2 {
			x[i] = 2*rng.Float64() - 1
		}
	}
	return x
}

// slowOpen decrypts coefficients of a ciphertext at level 0 in plain integers: c0 + c1*s by
// definition, in units of the scale.
func slowOpen(t testing.TB, ctx *henc.Context, key *secret.Key, ct *henc.Ciphertext, at []int) []float64 {
	t.Helper()
	p, s := ctx.Parameters(), must(key.Coefficients())(t)
	n, q := p.N(), p.Q()[:p.LimbsAt(0)]
	plain := must(ctx.Ring().NewBatch(2, p.QLimbs(0), cutrantt.Coeffs(1)))(t)
	words := make([]uint32, plain.Len())
	if err := errors.Join(ctx.Ring().Convert(plain, ct.Value), ctx.Ring().Download(words, plain)); err != nil {
		t.Fatal(err)
	}
	modulus, out := p.QProduct(0), make([]float64, len(at))
	for j, k := range at {
		x := new(big.Int)
		for l, prime := range q {
			sum := int64(words[l*n+k])
			for i, a := range words[(len(q)+l)*n:][:n] {
				v := int64(a) * int64(s[((k-i)%n+n)%n])
				if i > k {
					v = -v
				}
				sum = (sum + v) % int64(prime)
			}
			m := new(big.Int).Div(modulus, big.NewInt(int64(prime)))
			inverse := new(big.Int).ModInverse(m, big.NewInt(int64(prime)))
			x.Add(x, m.Mul(m, inverse).Mul(m, big.NewInt(sum)))
		}
		x.Mod(x, modulus)
		if twice := new(big.Int).Lsh(x, 1); twice.Cmp(modulus) > 0 {
			x.Sub(x, modulus)
		}
		f, _ := new(big.Float).SetInt(x).Float64()
		out[j] = f / ct.Scale
	}
	return out
}

// TestReceive follows windows of several boards to one ciphertext, decrypts every stage in plain integers,
// and the last with the key of the results.
func TestReceive(t *testing.T) {
	for _, c := range []struct {
		set, boot string
		logN, n2  int
		precision compact.Precision
	}{
		{"compact10-insecure", "boot10-insecure", 10, 1, compact.Bits12},
		{"compact10-insecure", "boot15", 12, 16, compact.Bits16},
		{"compact10-insecure", "boot16", 11, 4, compact.Bits16},
		{"compact12", "boot15", 13, 1, compact.Bits12},
	} {
		t.Run(fmt.Sprintf("%s/%s@2^%d", c.set, c.boot, c.logN), func(t *testing.T) {
			p := bigParameters(t, c.boot, c.logN)
			r := newRig(t, c.set, p, c.n2, 1<<c.logN/must(compact.NamedInsecure(c.set))(t).N())
			if got := r.receiver.Windows(); got != len(r.boards) {
				t.Fatalf("%d windows in a ciphertext", got)
			}
			cts, want, at := make([]*henc.Ciphertext, len(r.boards)), []float64{}, []int{}
			for i, b := range r.boards {
				n := []int{64, 1, 33, 256}[i%4]
				x := values(n, uint64(i))
				o := compact.Origin{Device: fmt.Sprint("board ", i), Sequence: uint64(i)}
				w := must(b.enc.Encrypt(x, c.precision, o, nil))(t)
				cts[i] = must(r.receiver.Receive(w, o, b.key))(t)
				var own []int
				for j := range x {
					own = append(own, j*compact.Stride(r.set.N(), n))
					at = append(at, r.receiver.Position(i, j, n))
				}
				check(t, fmt.Sprint("received ", i), slowOpen(t, r.small, r.common, cts[i], own), x,
					c.precision.Bound()+0x1p-28)
				want = append(want, x...)
			}
			joined := must(r.receiver.Join(cts))(t)
			bound := c.precision.Bound() + 0x1p-28 + 0x1p-26
			check(t, "joined", slowOpen(t, r.big, r.key, joined, at), want, bound)
			pt := must(secret.NewDecryptor(r.big, r.key).Decrypt(joined))(t)
			coeffs, got := must(r.big.Encoder().Coeffs(pt))(t), []float64{}
			for _, k := range at {
				got = append(got, coeffs[k]/joined.Scale)
			}
			check(t, "decrypted", got, want, bound)
		})
	}
}

func check(t *testing.T, what string, got, want []float64, bound float64) {
	t.Helper()
	most := 0.0
	for i := range want {
		most = max(most, math.Abs(got[i]-want[i]))
	}
	if !(most <= bound) || len(want) >= 64 && most < bound/4 {
		t.Errorf("%s: error 2^%.2f, bound 2^%.2f", what, math.Log2(most), math.Log2(bound))
	}
}

// TestForeignKeys: the key of another board, another origin and another window give garbage.
func TestForeignKeys(t *testing.T) {
	r := newRig(t, "compact10-insecure", bigParameters(t, "boot10-insecure", 10), 1, 2)
	x, o := values(64, 1), compact.Origin{Device: "a"}
	w := must(r.boards[0].enc.Encrypt(x, compact.Bits12, o, nil))(t)
	other := o
	other.Sequence++
	for what, ct := range map[string]*henc.Ciphertext{
		"key":    must(r.receiver.Receive(w, o, r.boards[1].key))(t),
		"origin": must(r.receiver.Receive(w, other, r.boards[0].key))(t),
	} {
		at := make([]int, len(x))
		for j := range at {
			at[j] = j * 16
		}
		far := 0
		for j, v := range slowOpen(t, r.small, r.common, ct, at) {
			if math.Abs(v-x[j]) > 1 {
				far++
			}
		}
		if far < 50 {
			t.Errorf("another %s leaves %d readings nearly right", what, len(x)-far)
		}
	}
}

// TestKeysDiffer: keys of two boards share neither a nor e, and one board's are made again.
func TestKeysDiffer(t *testing.T) {
	r := newRig(t, "compact10-insecure", bigParameters(t, "boot10-insecure", 10), 1, 2)
	first := must(r.common.CompactKey(r.boards[0].secret))(t)
	again := must(r.common.CompactKey(r.boards[0].secret))(t)
	second := must(r.common.CompactKey(r.boards[1].secret))(t)
	if *first.Seed != *again.Seed || *first.Seed == *second.Seed {
		t.Error("the seeds of keys do not follow from the secrets")
	}
	if first.Value.Polys() != 4 || len(first.Value.Limbs()) != 3 {
		t.Errorf("a key of %d polynomials and %d limbs", first.Value.Polys(), len(first.Value.Limbs()))
	}
}

// TestSwitching: the rings of the named sets are within the security table.
func TestSwitching(t *testing.T) {
	for _, name := range henc.BootstrapNames() {
		for _, set := range compact.Names() {
			p := must(compact.Switching(must(compact.Named(set))(t), must(henc.NamedBootstrap(name))(t)))(t)
			if p.Insecure() || p.LogQP() > float64(p.SecurityBound()) || p.SecurityBound() == 0 {
				t.Errorf("%s: %.1f bits of %d", p.Name(), p.LogQP(), p.SecurityBound())
			}
		}
	}
	set, boot := must(compact.Named("compact12"))(t), must(henc.NamedBootstrap("boot15"))(t)
	for what, c := range map[string][2]henc.Parameters{
		"no set":            {boot, boot},
		"a smaller ring":    {set, must(henc.NamedInsecure("boot10-insecure"))(t)},
		"no special primes": {set, must(henc.Named("edge12-add"))(t)},
		"a large modulus":   {set, must(henc.Named("edge13-d2p"))(t)},
		"nothing":           {},
	} {
		if what == "a large modulus" {
			lit := c[1].Literal()
			lit.Depth, lit.Name = 0, "wide"
			c[1] = must(henc.NewParameters(lit))(t)
		}
		if _, err := compact.Switching(c[0], c[1]); !errors.Is(err, henc.ErrParams) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestReceiverRefuses(t *testing.T) {
	p := bigParameters(t, "boot15", 11)
	r := newRig(t, "compact10-insecure", p, 1, 1)
	b := r.boards[0]
	o := compact.Origin{Device: "a"}
	w := must(b.enc.Encrypt([]float64{0.5}, compact.Bits12, o, nil))(t)
	embed, device := must(r.key.CompactKey(r.common))(t), must(r.common.CompactKey(b.secret))(t)
	for what, c := range map[string]struct {
		set        henc.Parameters
		small, big *henc.Context
		key        *henc.SwitchingKey
		want       error
	}{
		"no set":       {p, r.small, r.big, embed, henc.ErrParams},
		"another ring": {r.set, r.big, r.big, embed, henc.ErrParams},
		"no ring":      {r.set, nil, r.big, embed, henc.ErrParams},
		"no key":       {r.set, r.small, r.big, nil, henc.ErrNoKey},
		"another key":  {r.set, r.small, r.big, device, henc.ErrParams},
	} {
		if _, err := compact.NewReceiver(c.set, c.small, c.big, c.key); !errors.Is(err, c.want) {
			t.Errorf("receiver, %s: %v", what, err)
		}
	}
	if _, err := r.receiver.Prepare(embed); !errors.Is(err, henc.ErrParams) {
		t.Errorf("the key of another ring: %v", err)
	}
	if _, err := r.receiver.Prepare(nil); !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("no key: %v", err)
	}
	large := *w
	large.Values = []uint32{1 << 18}
	foreign := *w
	foreign.Params = must(compact.Named("compact12"))(t)
	twin := newRig(t, "compact10-insecure", p, 1, 1)
	for what, c := range map[string]struct {
		w    *compact.Window
		o    compact.Origin
		key  *compact.Key
		want error
	}{
		"no window":      {nil, o, b.key, henc.ErrMalformed},
		"a large value":  {&large, o, b.key, henc.ErrRange},
		"foreign":        {&foreign, o, b.key, henc.ErrParams},
		"no key":         {w, o, nil, henc.ErrParams},
		"another's key":  {w, o, twin.boards[0].key, henc.ErrParams},
		"a long name":    {w, compact.Origin{Device: string(make([]byte, 256))}, b.key, henc.ErrLength},
		"a long name, 2": {w, compact.Origin{Stream: string(make([]byte, 256))}, b.key, henc.ErrLength},
	} {
		if _, err := r.receiver.Receive(c.w, c.o, c.key); !errors.Is(err, c.want) {
			t.Errorf("receive, %s: %v", what, err)
		}
	}
	ct := must(r.receiver.Receive(w, o, b.key))(t)
	for what, c := range map[string]struct {
		cts  []*henc.Ciphertext
		want error
	}{
		"none":         {nil, henc.ErrLength},
		"too many":     {[]*henc.Ciphertext{ct, ct, ct}, henc.ErrLength},
		"another ring": {[]*henc.Ciphertext{must(r.receiver.Join([]*henc.Ciphertext{ct}))(t)}, henc.ErrParams},
	} {
		if _, err := r.receiver.Join(c.cts); !errors.Is(err, c.want) {
			t.Errorf("join, %s: %v", what, err)
		}
	}
	for _, c := range [][3]int{{-1, 0, 1}, {2, 0, 1}, {0, 1, 1}, {0, -1, 1}, {0, 0, 1025}} {
		if got := r.receiver.Position(c[0], c[1], c[2]); got != -1 {
			t.Errorf("window %d, reading %d of %d is at %d", c[0], c[1], c[2], got)
		}
	}
	var none *compact.Receiver
	if none.Windows() != 0 || none.Position(0, 0, 1) != -1 {
		t.Error("no receiver has windows")
	}
	if _, err := none.Join([]*henc.Ciphertext{ct}); !errors.Is(err, henc.ErrLength) {
		t.Errorf("no receiver: %v", err)
	}
	if _, err := b.secret.CompactKey(r.key); !errors.Is(err, henc.ErrParams) {
		t.Errorf("a key for a ring without special primes: %v", err)
	}
	if _, err := r.common.CompactKey(r.key); !errors.Is(err, henc.ErrParams) {
		t.Errorf("a key from a larger ring: %v", err)
	}
	if _, err := (*secret.Key)(nil).CompactSecret(r.small); !errors.Is(err, henc.ErrParams) {
		t.Errorf("no key: %v", err)
	}
}

// TestPack packs windows of several sizes, joins them, and decrypts all coefficients in plain integers: those
// of missing windows are 0.
func TestPack(t *testing.T) {
	r := newRig(t, "compact10-insecure", bigParameters(t, "boot15", 11), 4, 3)
	p := r.packer(t)
	for _, c := range []struct{ readings, windows, missing int }{{64, 16, 3}, {33, 2, -1}, {1, 40, 7}, {1024, 1, -1},
		{513, 1, -1}, {300, 2, 0}} {
		most := 1024 / map[int]int{64: 64, 33: 64, 1: 1, 1024: 1024, 513: 1024, 300: 512}[c.readings]
		if got := p.Windows(c.readings); got != most {
			t.Fatalf("%d windows of %d readings", got, c.readings)
		}
		want, packed := make([]float64, r.big.Parameters().N()), make([]*henc.Ciphertext, 2)
		for i := range packed {
			cts := make([]*henc.Ciphertext, c.windows)
			for k := range cts {
				if k == c.missing {
					continue
				}
				b, o := r.boards[k%3], compact.Origin{Device: "board", Sequence: uint64(k), BootEpoch: uint64(i)}
				x := values(c.readings, uint64(k))
				w := must(b.enc.Encrypt(x, compact.Bits16, o, nil))(t)
				cts[k] = must(r.receiver.Receive(w, o, b.key))(t)
				for j, v := range x {
					want[p.Position(i, k, j, c.readings)] = v
				}
				for j := len(x); j < 1024/most; j++ { // anything
					want[p.Position(i, k, j, 1024/most)] = math.NaN()
				}
			}
			packed[i] = must(p.Pack(cts, c.readings))(t)
		}
		joined := must(r.receiver.Join(packed))(t)
		all := make([]int, len(want))
		for i := range all {
			all[i] = i
		}
		// What is packed has the error of a window, and what is no reading none but that of the key switches.
		bound := compact.Bits16.Bound() + 0x1p-20
		rest := 0.0
		for i, v := range slowOpen(t, r.big, r.key, joined, all) {
			if d := math.Abs(v - want[i]); d > bound {
				t.Fatalf("%d windows of %d: coefficient %d is off by 2^%.2f", c.windows, c.readings, i, math.Log2(d))
			} else if want[i] == 0 {
				rest = max(rest, d)
			}
		}
		if most > c.windows && (rest > 0x1p-19 || rest == 0) {
			t.Errorf("%d windows of %d: unused coefficients are up to 2^%.2f", c.windows, c.readings, math.Log2(rest))
		}
	}
}

func (r *rig) packer(t testing.TB) *compact.Packer {
	t.Helper()
	return must(r.receiver.NewPacker(must(r.common.GaloisKeys(compact.PackElements(r.small.Parameters())))(t)))(t)
}

func TestPackRefuses(t *testing.T) {
	r := newRig(t, "compact10-insecure", bigParameters(t, "boot15", 11), 1, 1)
	p, b, o := r.packer(t), r.boards[0], compact.Origin{}
	w := must(b.enc.Encrypt(values(64, 1), compact.Bits12, o, nil))(t)
	ct := must(r.receiver.Receive(w, o, b.key))(t)
	joined := must(r.receiver.Join([]*henc.Ciphertext{ct}))(t)
	for what, c := range map[string]struct {
		cts      []*henc.Ciphertext
		readings int
		want     error
	}{
		"no windows":      {nil, 64, henc.ErrLength},
		"missing windows": {make([]*henc.Ciphertext, 3), 64, henc.ErrLength},
		"too many":        {make([]*henc.Ciphertext, 17), 64, henc.ErrLength},
		"no readings":     {[]*henc.Ciphertext{ct}, 0, henc.ErrLength},
		"many readings":   {[]*henc.Ciphertext{ct}, 1025, henc.ErrLength},
		"another ring":    {[]*henc.Ciphertext{ct, joined}, 64, henc.ErrParams},
	} {
		if got, err := p.Pack(c.cts, c.readings); !errors.Is(err, c.want) || got != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, c := range [][4]int{{-1, 0, 0, 64}, {2, 0, 0, 64}, {0, 16, 0, 64}, {0, -1, 0, 64}, {0, 0, 64, 64}} {
		if got := p.Position(c[0], c[1], c[2], c[3]); got != -1 {
			t.Errorf("%v is at %d", c, got)
		}
	}
	keys := must(r.common.GaloisKeys(compact.PackElements(r.small.Parameters())))(t)
	delete(keys, 3)
	if _, err := r.receiver.NewPacker(keys); !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("a key is missing: %v", err)
	}
	keys[3] = must(r.key.CompactKey(r.common))(t)
	if _, err := r.receiver.NewPacker(keys); !errors.Is(err, henc.ErrParams) {
		t.Errorf("a key of another ring: %v", err)
	}
	var none *compact.Receiver
	if _, err := none.NewPacker(keys); !errors.Is(err, henc.ErrParams) {
		t.Errorf("no receiver: %v", err)
	}
	p.Free()
	if _, err := p.Pack([]*henc.Ciphertext{ct}, 64); !errors.Is(err, henc.ErrLength) {
		t.Errorf("after Free: %v", err)
	}
	if got := (*compact.Packer)(nil).Windows(64); got != 0 {
		t.Errorf("no packer takes %d windows", got)
	}
}

// BenchmarkServer is the server's part of a window of 64 readings, until it is in a ciphertext for
// bootstrapping, with the moduli of boot15.
func BenchmarkServer(b *testing.B) {
	r := newRig(b, "compact12", bigParameters(b, "boot15", 12), 1, 1)
	p, o := r.packer(b), compact.Origin{Device: "a"}
	w := must(r.boards[0].enc.Encrypt(values(64, 1), compact.Bits12, o, nil))(b)
	cts := make([]*henc.Ciphertext, p.Windows(64))
	b.Run("receive", func(b *testing.B) {
		for b.Loop() {
			r.small.Ring().Free(must(r.receiver.Receive(w, o, r.boards[0].key))(b).Value)
		}
	})
	for i := range cts {
		cts[i] = must(r.receiver.Receive(w, o, r.boards[0].key))(b)
	}
	b.Run("pack", func(b *testing.B) {
		for b.Loop() {
			r.small.Ring().Free(must(p.Pack(cts, 64))(b).Value)
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(cts)), "us/window")
	})
}
