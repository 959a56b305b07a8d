package program

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt/backendtest"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// testStream is a stream with one channel per range.
func testStream(name, params string, samples int, ranges ...[2]float64) config.Stream {
	st := config.Stream{Name: name, Params: params, Window: config.Window{Samples: samples},
		Packing: config.PackingReal}
	for i, r := range ranges {
		st.Channels = append(st.Channels, config.Channel{Name: fmt.Sprintf("c%d", i), Unit: "u", Range: r})
	}
	return st
}

// testVars are x, y (one stream of device a), z (another stream of it) and w
// (device b), with windows of equal length, and s and t, with shorter ones.
func testVars(params string, samples int) map[string]Var {
	one := testStream("one", params, samples, [2]float64{-1, 1}, [2]float64{20, 30})
	two := testStream("two", params, samples, [2]float64{0, 5}, [2]float64{-40, 125}, [2]float64{-2, 2})
	short := testStream("short", params, max(samples/4, 1), [2]float64{-1, 3}, [2]float64{0, 100})
	return map[string]Var{
		"x": {"a", one, 0}, "y": {"a", one, 1}, "z": {"a", two, 2}, "w": {"b", one, 1},
		"s": {"a", short, 0}, "t": {"a", short, 1},
	}
}

func mustParams(t testing.TB, name string) henc.Parameters {
	t.Helper()
	p, err := henc.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bench is a key holder, an encryptor and evaluators for one parameter set.
type bench struct {
	ctx  *henc.Context
	key  *secret.Key
	enc  *henc.Encryptor
	dec  *secret.Decryptor
	mu   sync.Mutex
	keys *henc.EvaluationKeys
}

var (
	benches  = map[string]*bench{}
	benchesM sync.Mutex
)

func testBench(t testing.TB, name string) *bench {
	t.Helper()
	benchesM.Lock()
	defer benchesM.Unlock()
	if benches[name] == nil {
		benches[name] = newBench(t, mustParams(t, name))
	}
	return benches[name]
}

func newBench(t testing.TB, p henc.Parameters, options ...henc.Option) *bench {
	t.Helper()
	ctx, err := henc.NewContext(p, append([]henc.Option{henc.WithBackend(backendtest.New(t))}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := henc.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	key, err := secret.Generate(ctx, seed)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	enc, err := henc.NewEncryptor(ctx, pk)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := key.EvaluationKeys(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{ctx: ctx, key: key, enc: enc, dec: secret.NewDecryptor(ctx, key), keys: keys}
}

// evaluator makes an evaluator with exactly the keys that the circuit asks for.
func (b *bench) evaluator(t testing.TB, c interface {
	NeedsRelin() bool
	Rotations() []int
}) *henc.Evaluator {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := &henc.EvaluationKeys{Galois: map[uint64]*henc.SwitchingKey{}, KeyID: b.keys.KeyID}
	if c.NeedsRelin() {
		keys.Relin = b.keys.Relin
	}
	for _, k := range c.Rotations() {
		g := henc.GaloisElement(b.ctx.Parameters(), k)
		if b.keys.Galois[g] == nil {
			made, err := b.key.GaloisKeys([]uint64{g})
			if err != nil {
				t.Fatal(err)
			}
			b.keys.Galois[g] = made[g]
		}
		keys.Galois[g] = b.keys.Galois[g]
	}
	return henc.NewEvaluator(b.ctx, keys)
}

// sample draws every window that the circuit reads, encrypts the streams and
// returns the samples by VarKey for Reference.
func (b *bench) sample(t testing.TB, c *Circuit, rng *rand.Rand) (map[Input]*henc.Ciphertext, map[string][]float64) {
	t.Helper()
	return b.sampleInputs(t, c, c.Inputs(), rng)
}

// sampleSet is sample for the programs of a set, which have the same variables.
func (b *bench) sampleSet(t testing.TB, s *Set, rng *rand.Rand) (map[Input]*henc.Ciphertext, map[string][]float64) {
	t.Helper()
	return b.sampleInputs(t, s.circuits[0], s.Inputs(), rng)
}

func (b *bench) sampleInputs(t testing.TB, c *Circuit, ins []Input, rng *rand.Rand) (map[Input]*henc.Ciphertext,
	map[string][]float64) {
	t.Helper()
	return b.sampleAt(t, c, ins, 0, rng)
}

// sampleAt is sampleInputs for a device at a place.
func (b *bench) sampleAt(t testing.TB, c *Circuit, ins []Input, place int, rng *rand.Rand) (
	map[Input]*henc.Ciphertext, map[string][]float64) {
	t.Helper()
	cts, plain := map[Input]*henc.Ciphertext{}, map[string][]float64{}
	for _, in := range ins {
		var st config.Stream
		for _, v := range c.prog.Vars {
			if v.Device == in.Device && v.Stream.Name == in.Stream {
				st = v.Stream
			}
		}
		n := c.prog.present(in, st)
		first := st.Place(place, b.ctx.Parameters().Slots())
		slots := make([]float64, first+st.Slots())
		shape := rng.IntN(4)
		for ch, spec := range st.Channels {
			mid, half := spec.Affine()
			natural := make([]float64, n)
			for i := range natural {
				u := 2*rng.Float64() - 1
				switch shape {
				case 1: // extremes
					u = float64(2*rng.IntN(2) - 1)
				case 2: // constant at one end
					u = 1
				case 3: // nearly constant
					u = 0.3 + 0.01*u
				}
				natural[i] = mid + half*u
				if !st.Histogram() {
					slots[first+ch*st.Stride()+i] = u
				}
			}
			if st.Histogram() {
				countSlots(t, slots[first+ch*st.Stride():][:st.Stride()], st, ch, natural, rng)
			}
			for name, v := range c.prog.Vars {
				if v.Device == in.Device && v.Stream.Name == in.Stream && v.Channel == ch {
					plain[VarKey(name, in.Lag)] = natural
				}
			}
		}
		level := st.LevelAt(b.ctx.Parameters().Depth())
		ct, err := b.enc.EncryptReal(slots, level, InputScale(b.ctx.Parameters(), st), nil)
		if err != nil {
			t.Fatal(err)
		}
		cts[in] = ct
	}
	for name, v := range c.prog.Vars { // what is multiplied by 0 is no input, but Reference wants to see it
		for lag := range MaxLag + 1 {
			if n := c.prog.present(Input{v.Device, v.Stream.Name, lag}, v.Stream); plain[VarKey(name, lag)] == nil {
				plain[VarKey(name, lag)] = make([]float64, n)
			}
		}
	}
	return cts, plain
}

// decrypt reads a result as the key holder does.
func (b *bench) decrypt(t testing.TB, ct *henc.Ciphertext, out Output) []float64 {
	t.Helper()
	slots, err := b.dec.DecryptReal(ct)
	if err != nil {
		t.Fatal(err)
	}
	return readOutput(slots, out)
}

func (b *bench) marshal(t testing.TB, ct *henc.Ciphertext) []byte {
	t.Helper()
	body, err := b.ctx.MarshalCiphertext(ct)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
