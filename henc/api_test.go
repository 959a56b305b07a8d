package henc_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// arguments are good and bad values by type, for calls that must not panic.
type arguments map[reflect.Type][]reflect.Value

func (a arguments) add(values ...any) {
	for _, v := range values {
		a[reflect.TypeOf(v)] = append(a[reflect.TypeOf(v)], reflect.ValueOf(v))
	}
}

// call calls f with random arguments and fails if it panics. It reports
// whether there are values for all of f's parameters.
func (a arguments) call(t *testing.T, rng *rand.Rand, name string, f reflect.Value) (called bool) {
	t.Helper()
	in, what := make([]reflect.Value, f.Type().NumIn()), name
	if f.Type().IsVariadic() {
		in = in[:len(in)-1]
	}
	for i := range in {
		choice := a[f.Type().In(i)]
		if len(choice) == 0 {
			return false
		}
		k := rng.IntN(len(choice))
		in[i], what = choice[k], fmt.Sprintf("%s, %s no. %d", what, f.Type().In(i), k)
	}
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: panic: %v", what, r)
		}
	}()
	f.Call(in)
	return true
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// keyOf gives the Galois keys of k, nil for those that it has not.
func keyOf(k *henc.EvaluationKeys) func(uint64) (*henc.SwitchingKey, error) {
	return func(g uint64) (*henc.SwitchingKey, error) { return k.Galois[g], nil }
}

// TestNothingPanics calls every method and most functions of henc and henc/secret
// with good, empty, hostile and foreign arguments, also on nil and zero receivers.
func TestNothingPanics(t *testing.T) {
	p := must(henc.Named("edge12-d1"))(t)
	ctx := must(henc.NewContext(p))(t)
	other := must(henc.NewContext(must(henc.Named("edge12-add"))(t)))(t)
	key := must(secret.Generate(ctx, seedOf("panics")))(t)
	pk := must(key.PublicKey())(t)
	enc := must(henc.NewEncryptor(ctx, pk))(t)
	keys := must(key.EvaluationKeys([]int{1}, true))(t)
	ev := henc.NewEvaluator(ctx, keys)
	ct := must(enc.EncryptReal([]float64{1}, 1, 0, nil))(t)
	freed := must(enc.EncryptReal([]float64{1}, 1, 0, nil))(t)
	ctx.Ring().Free(freed.Value)
	pt := must(ctx.Encoder().EncodeReal([]float64{1}, 1, 0x1p26))(t)
	body, keyBytes := must(ctx.MarshalCiphertext(ct))(t), must(ctx.MarshalPublicKey(pk))(t)

	args := arguments{}
	args.add(ctx, (*henc.Context)(nil), &henc.Context{}, other)
	args.add(p, henc.Parameters{}, other.Parameters())
	args.add(ct, freed, (*henc.Ciphertext)(nil), &henc.Ciphertext{},
		&henc.Ciphertext{Value: ct.Value, Level: -1, Scale: 1},
		&henc.Ciphertext{Value: ct.Value, Level: 99, Scale: math.NaN()},
		&henc.Ciphertext{Value: &cutrantt.Batch{}, Level: 1, Scale: 2},
		&henc.Ciphertext{Value: pt.Value, Level: 1, Scale: 0x1p26})
	args.add(pt, (*henc.Plaintext)(nil), &henc.Plaintext{}, &henc.Plaintext{Value: ct.Value, Level: 1, Scale: 4})
	args.add(pk, (*henc.PublicKey)(nil), &henc.PublicKey{}, &henc.PublicKey{Value: ct.Value})
	args.add(keys, (*henc.EvaluationKeys)(nil), &henc.EvaluationKeys{},
		&henc.EvaluationKeys{Relin: &henc.SwitchingKey{}, Galois: map[uint64]*henc.SwitchingKey{5: nil, 0: {}, 2: nil}})
	args.add(ct.Value, pk.Value, freed.Value, (*cutrantt.Batch)(nil), &cutrantt.Batch{})
	args.add(key, (*secret.Key)(nil), &secret.Key{})
	args.add(0, 1, -1, 5, 4096, math.MaxInt, math.MinInt)
	args.add(int64(0), int64(7), int64(math.MinInt64))
	args.add(uint32(0), uint32(math.MaxUint32))
	args.add(uint64(0), uint64(1), uint64(5), uint64(math.MaxUint64))
	args.add(0.0, 1.0, -1.0, 0x1p26, 0x1p1000, 0x1p-1000, math.NaN(), math.Inf(1))
	args.add([]float64(nil), []float64{1, 2}, []float64{math.NaN()}, make([]float64, 4096), make([]float64, 5000))
	args.add([][]float64(nil), [][]float64{{1}, nil}, [][]float64{make([]float64, 4096)})
	args.add([]complex128(nil), []complex128{1}, make([]complex128, 5000))
	args.add([][]complex128(nil), [][]complex128{{1}})
	args.add((*henc.Seed)(nil), &henc.Seed{1})
	args.add([]*henc.Seed(nil), []*henc.Seed{nil}, []*henc.Seed{nil, {2}})
	args.add((*[32]byte)(nil), &[32]byte{3})
	args.add([]byte(nil), []byte{0x89, 2}, body, body[:100], keyBytes, keyBytes[:100])
	args.add([][]byte(nil), [][]byte{body, nil, keyBytes}, [][]byte{body, body[:100]})
	args.add([]int(nil), []int{1, 0, -1}, []int{math.MinInt})
	args.add([]uint64(nil), []uint64{0, 1, 2, 3, 1 << 40})
	args.add([]int32(nil), make([]int32, 4096), []int32{math.MinInt32})
	args.add(true, false)
	args.add("", "edge12-d1")
	args.add([]*henc.Evaluator(nil), []*henc.Evaluator{nil}, []*henc.Evaluator{ev}, []*henc.Evaluator{{}})
	args.add([]*henc.Ciphertext(nil), []*henc.Ciphertext{ct}, []*henc.Ciphertext{nil})
	be := must(henc.NewBatchEvaluator([]*henc.Evaluator{ev, ev}))(t)
	batch := must(be.Of([]*henc.Ciphertext{ct, ct}, 1))(t)
	freedBatch := must(be.Clone(batch))(t)
	be.Free(freedBatch)
	args.add((*henc.Ciphertexts)(nil), &henc.Ciphertexts{}, batch, must(be.Clone(batch))(t), freedBatch,
		batch.WithScale(math.NaN()))
	args[reflect.TypeFor[io.Writer]()] = []reflect.Value{reflect.ValueOf(io.Discard), reflect.ValueOf(fullDisk{})}
	args.add(henc.EvaluationKeyStream{}, henc.EvaluationKeyStream{Elements: []uint64{5}},
		henc.EvaluationKeyStream{Elements: []uint64{5, 1, 2}, Galois: keyOf(keys)},
		henc.EvaluationKeyStream{Relin: func() (*henc.SwitchingKey, error) { return nil, nil },
			Elements: []uint64{5, 5}, Galois: keyOf(&henc.EvaluationKeys{})})
	args.add(henc.ParametersLiteral{}, henc.ParametersLiteral{Name: "x", LogN: 12, LogScale: 26, Mode: henc.ModeSingle,
		Depth: math.MaxInt})

	type named struct {
		name string
		v    any
	}
	var calls []named
	for _, r := range []named{
		{"context", ctx}, {"nil context", (*henc.Context)(nil)}, {"zero context", &henc.Context{}},
		{"parameters", p}, {"zero parameters", henc.Parameters{}}, {"noise", p.Noise()},
		{"zero noise", henc.NoiseModel{}},
		{"encoder", ctx.Encoder()}, {"nil encoder", (*henc.Encoder)(nil)}, {"zero encoder", &henc.Encoder{}},
		{"encryptor", enc}, {"nil encryptor", (*henc.Encryptor)(nil)}, {"zero encryptor", &henc.Encryptor{}},
		{"evaluator", ev}, {"nil evaluator", (*henc.Evaluator)(nil)}, {"zero evaluator", &henc.Evaluator{}},
		{"evaluator without keys", henc.NewEvaluator(ctx, nil)},
		{"evaluator without context", henc.NewEvaluator(nil, keys)},
		{"batch evaluator", be}, {"nil batch evaluator", (*henc.BatchEvaluator)(nil)},
		{"zero batch evaluator", &henc.BatchEvaluator{}},
		{"batch", batch}, {"nil batch", (*henc.Ciphertexts)(nil)}, {"zero batch", &henc.Ciphertexts{}},
		{"ciphertext", ct}, {"nil ciphertext", (*henc.Ciphertext)(nil)}, {"nil seed", (*henc.Seed)(nil)},
		{"key", key}, {"nil key", (*secret.Key)(nil)}, {"zero key", &secret.Key{}},
		{"decryptor", secret.NewDecryptor(ctx, key)}, {"nil decryptor", (*secret.Decryptor)(nil)},
		{"zero decryptor", &secret.Decryptor{}},
		{"decryptor without key", secret.NewDecryptor(ctx, nil)},
		{"decryptor of another context", secret.NewDecryptor(other, key)},
		{"seeded encryptor", secret.NewSeededEncryptor(ctx, key)},
		{"nil seeded encryptor", (*secret.SeededEncryptor)(nil)},
		{"seeded encryptor without key", secret.NewSeededEncryptor(ctx, nil)},
	} {
		v := reflect.ValueOf(r.v)
		for i := range v.NumMethod() {
			if m := v.Type().Method(i).Name; m != "Wipe" || v.IsNil() {
				calls = append(calls, named{r.name + ": " + m, v.Method(i).Interface()})
			}
		}
	}
	calls = append(calls, []named{
		{"NewParameters", henc.NewParameters}, {"Named", henc.Named}, {"SecurityBound", henc.SecurityBound},
		{"EncodingError", henc.EncodingError},
		{"NewContext", henc.NewContext}, {"NewEncryptor", henc.NewEncryptor}, {"NewEvaluator", henc.NewEvaluator},
		{"GaloisElement", henc.GaloisElement}, {"ConjugationElement", henc.ConjugationElement},
		{"SumRotations", henc.SumRotations},
		{"ComputeKeyID", henc.ComputeKeyID}, {"PeekCiphertext", henc.PeekCiphertext}, {"NewSeed", henc.NewSeed},
		{"NewBatchEvaluator", henc.NewBatchEvaluator},
		{"Generate", secret.Generate}, {"FromCoefficients", secret.FromCoefficients}, {"Unmarshal", secret.Unmarshal},
		{"NewDecryptor", secret.NewDecryptor}, {"NewSeededEncryptor", secret.NewSeededEncryptor},
	}...)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range calls {
		for range 150 {
			if f := reflect.ValueOf(c.v); !args.call(t, rng, c.name, f) {
				t.Errorf("%s: there are no arguments for %s", c.name, f.Type())
				break
			}
		}
	}
	t.Logf("%d functions and methods", len(calls))
}
