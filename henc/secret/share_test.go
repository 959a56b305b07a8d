package secret_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// memory is a counter for tests.
type memory struct {
	mu   sync.Mutex
	used map[[16]byte]uint64
	err  error
}

func (m *memory) Increment(key [16]byte) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return 0, m.err
	}
	if m.used == nil {
		m.used = map[[16]byte]uint64{}
	}
	m.used[key]++
	return m.used[key], nil
}

// TestShareNoise: the shared values carry noise of the promised deviation, are
// multiples of the promised step, and differ from call to call.
func TestShareNoise(t *testing.T) {
	ctx := context(t, "edge13-d2p", 16)
	p := ctx.Parameters()
	k := must(secret.Generate(ctx, seed(t, "share")))(t)
	dec := secret.NewDecryptor(ctx, k)
	x := make([]float64, p.Slots())
	for i := range x {
		x[i] = math.Sin(float64(i))
	}
	ct := must(secret.NewSeededEncryptor(ctx, k).EncryptReal(x, 0, 0, nil))(t)
	budget := &secret.Budget{Queries: 4, Bits: 30, Counter: &memory{}}
	opts := secret.ShareOptions{ErrorBound: 0x1p-38}
	flood := must(p.Flood(0, ct.Scale, henc.FloodSpec{Queries: 4, Bits: 30, ErrorBound: 0x1p-38, Magnitude: 1, Accuracy: 0x1p-8}))(t)
	a, b := must(dec.Share(ct, budget, opts))(t), must(dec.Share(ct, budget, opts))(t)
	var sum, diff float64
	for i := range x {
		if r := a[i] / flood.RoundTo; r != math.Trunc(r) {
			t.Fatalf("slot %d: %g is not a multiple of %g", i, a[i], flood.RoundTo)
		}
		sum += (a[i] - x[i]) * (a[i] - x[i])
		diff += (a[i] - b[i]) * (a[i] - b[i])
	}
	n := float64(len(x))
	// The rounding to a step of at most one deviation adds up to 1/12 of variance.
	if got := math.Sqrt(sum/n) / flood.SlotStdDev; got < 0.95 || got > 1.1 {
		t.Errorf("noise is %.3f of the promised deviation", got)
	}
	if got := math.Sqrt(diff/n) / flood.SlotStdDev; got < 1.3 || got > 1.6 {
		t.Errorf("two shares differ by %.3f deviations, want sqrt(2)", got)
	}
}

func TestShareBudget(t *testing.T) {
	ctx := context(t, "edge13-d2p", 16)
	k := must(secret.Generate(ctx, nil))(t)
	dec := secret.NewDecryptor(ctx, k)
	ct := must(secret.NewSeededEncryptor(ctx, k).EncryptReal([]float64{0.5}, 0, 0, nil))(t)
	store := &memory{}
	budget := &secret.Budget{Queries: 2, Bits: 30, Counter: store}
	opts := secret.ShareOptions{ErrorBound: 0x1p-38}
	for range 2 {
		must(dec.Share(ct, budget, opts))(t)
	}
	if _, err := dec.Share(ct, budget, opts); !errors.Is(err, secret.ErrBudget) {
		t.Errorf("third of two queries: %v", err)
	}
	if id := must(k.PublicKey())(t).KeyID; store.used[id] != 3 {
		t.Errorf("counts %v, want 3 for key %x", store.used, id)
	}
	store.err = errors.New("disk full")
	if _, err := dec.Share(ct, budget, opts); !errors.Is(err, store.err) {
		t.Errorf("counter failure: %v", err)
	}
}

// TestShareRefusals: what cannot be shared safely or usefully is refused before a
// query is spent, with the numbers in the message.
func TestShareRefusals(t *testing.T) {
	pair, single := context(t, "edge13-d2p", 16), context(t, "edge12-d1", 16)
	kp, ks := must(secret.Generate(pair, nil))(t), must(secret.Generate(single, nil))(t)
	ct := must(secret.NewSeededEncryptor(pair, kp).EncryptReal([]float64{0.5}, 0, 0, nil))(t)
	tight := must(secret.NewSeededEncryptor(pair, kp).EncryptReal([]float64{0.5}, 0, 0x1p54, nil))(t)
	small := must(secret.NewSeededEncryptor(single, ks).EncryptReal([]float64{0.5}, 0, 0, nil))(t)
	store := &memory{}
	budget := func(q uint64, bits int) *secret.Budget {
		return &secret.Budget{Queries: q, Bits: bits, Counter: store}
	}
	var none *secret.Decryptor
	for _, tt := range []struct {
		name   string
		ctx    *henc.Context
		k      *secret.Key
		ct     *henc.Ciphertext
		budget *secret.Budget
		opts   secret.ShareOptions
		want   error
		says   string
	}{
		{"scale too small", single, ks, small, budget(1, 30), secret.ShareOptions{ErrorBound: 0x1p-14}, henc.ErrFlood, "the modulus at level 0 has 2^30.0"},
		{"too many queries", pair, kp, ct, budget(1<<40, 30), secret.ShareOptions{ErrorBound: 0x1p-38}, henc.ErrFlood, "1099511627776 queries"},
		{"too many bits", pair, kp, ct, budget(1, 64), secret.ShareOptions{ErrorBound: 0x1p-38}, henc.ErrFlood, "wanted at most 2^-8.0"},
		{"no room", pair, kp, tight, budget(1, 30), secret.ShareOptions{ErrorBound: 0x1p-20, Accuracy: 100}, henc.ErrFlood, "the modulus at level 0 has 2^56.0"},
		{"too few bits", pair, kp, ct, budget(1, 10), secret.ShareOptions{ErrorBound: 0x1p-38}, henc.ErrParams, ""},
		{"no queries", pair, kp, ct, budget(0, 30), secret.ShareOptions{ErrorBound: 0x1p-38}, henc.ErrParams, ""},
		{"no bound", pair, kp, ct, budget(1, 30), secret.ShareOptions{}, henc.ErrParams, "error bound"},
		{"NaN bound", pair, kp, ct, budget(1, 30), secret.ShareOptions{ErrorBound: math.NaN()}, henc.ErrParams, "error bound"},
		{"infinite magnitude", pair, kp, ct, budget(1, 30), secret.ShareOptions{ErrorBound: 1e-9, Magnitude: math.Inf(1)}, henc.ErrParams, "magnitude"},
		{"negative accuracy", pair, kp, ct, budget(1, 30), secret.ShareOptions{ErrorBound: 1e-9, Accuracy: -1}, henc.ErrParams, "accuracy"},
		{"no budget", pair, kp, ct, nil, secret.ShareOptions{ErrorBound: 0x1p-38}, henc.ErrParams, ""},
		{"no counter", pair, kp, ct, &secret.Budget{Queries: 1, Bits: 30}, secret.ShareOptions{ErrorBound: 0x1p-38}, henc.ErrParams, ""},
		{"no ciphertext", pair, kp, nil, budget(1, 30), secret.ShareOptions{ErrorBound: 0x1p-38}, henc.ErrDegree, ""},
		{"no key", pair, nil, ct, budget(1, 30), secret.ShareOptions{ErrorBound: 0x1p-38}, henc.ErrParams, ""},
		{"foreign key", pair, ks, ct, budget(1, 30), secret.ShareOptions{ErrorBound: 0x1p-38}, henc.ErrParams, ""},
	} {
		_, err := secret.NewDecryptor(tt.ctx, tt.k).Share(tt.ct, tt.budget, tt.opts)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q with %q", tt.name, err, tt.want, tt.says)
		}
	}
	if _, err := none.Share(ct, budget(1, 30), secret.ShareOptions{}); !errors.Is(err, henc.ErrParams) {
		t.Errorf("nil decryptor: %v", err)
	}
	if len(store.used) != 0 {
		t.Errorf("refusals spent queries: %v", store.used)
	}
	// A bound below what any ciphertext can have is raised to that.
	p := pair.Parameters()
	a := must(p.Flood(0, ct.Scale, henc.FloodSpec{Queries: 1, Bits: 30, ErrorBound: 1e-300, Magnitude: 1, Accuracy: 1}))(t)
	if floor := p.Noise().FreshSeeded(ct.Scale); a.SlotStdDev < floor*0x1p15 {
		t.Errorf("an absurd bound gives noise 2^%.1f", math.Log2(a.SlotStdDev))
	}
}
