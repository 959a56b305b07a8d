package henc_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
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
	o := newObjects(t)
	args := arguments{}
	args.addPlain()
	o.addTo(t, args)
	calls := slices.Concat(o.methods(), functions())
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

// objects are good objects of every type, two of which were freed.
type objects struct {
	p                 henc.Parameters
	ctx, other        *henc.Context
	key               *secret.Key
	pk                *henc.PublicKey
	enc               *henc.Encryptor
	keys              *henc.EvaluationKeys
	ev                *henc.Evaluator
	be                *henc.BatchEvaluator
	ct, freed         *henc.Ciphertext
	batch, freedBatch *henc.Ciphertexts
	pt                *henc.Plaintext
	lt, freedLt       *henc.LinearTransform
	toFree            *henc.LinearTransform // whose methods are called
	plan              *bootstrap.Plan
	body, keyBytes    []byte
}

func newObjects(t *testing.T) *objects {
	t.Helper()
	o := &objects{}
	o.p = must(henc.Named("edge12-d1"))(t)
	o.ctx = must(henc.NewContext(o.p))(t)
	o.other = must(henc.NewContext(must(henc.Named("edge12-add"))(t)))(t)
	o.key = must(secret.Generate(o.ctx, seedOf("panics")))(t)
	o.pk = must(o.key.PublicKey())(t)
	o.enc = must(henc.NewEncryptor(o.ctx, o.pk))(t)
	o.keys = must(o.key.EvaluationKeys([]int{1}, true))(t)
	o.ev = henc.NewEvaluator(o.ctx, o.keys)
	o.ct = must(o.enc.EncryptReal([]float64{1}, 1, 0, nil))(t)
	o.freed = must(o.enc.EncryptReal([]float64{1}, 1, 0, nil))(t)
	o.ctx.Ring().Free(o.freed.Value)
	o.pt = must(o.ctx.Encoder().EncodeReal([]float64{1}, 1, 0x1p26))(t)
	o.body, o.keyBytes = must(o.ctx.MarshalCiphertext(o.ct))(t), must(o.ctx.MarshalPublicKey(o.pk))(t)
	o.be = must(henc.NewBatchEvaluator([]*henc.Evaluator{o.ev, o.ev}))(t)
	o.batch = must(o.be.Of([]*henc.Ciphertext{o.ct, o.ct}, 1))(t)
	o.freedBatch = must(o.be.Clone(o.batch))(t)
	o.be.Free(o.freedBatch)
	shift := map[int][]complex128{1: make([]complex128, o.p.Slots())}
	o.lt = must(henc.NewLinearTransform(o.ctx, shift, 1, 4))(t)
	o.freedLt = must(henc.NewLinearTransform(o.ctx, shift, 1, 4))(t)
	o.freedLt.Free()
	o.toFree = must(henc.NewLinearTransform(o.ctx, shift, 1, 4))(t)
	small := must(henc.NamedInsecure("boot10-insecure"))(t)
	o.plan = must(bootstrap.NewPlan(small, must(bootstrap.LiteralOf(small))(t)))(t)
	return o
}

// addTo adds the objects, and empty, hostile and foreign ones of the same types.
func (o *objects) addTo(t *testing.T, args arguments) {
	t.Helper()
	args.add(o.ctx, (*henc.Context)(nil), &henc.Context{}, o.other)
	args.add(o.p, henc.Parameters{}, o.other.Parameters())
	args.add(o.ct, o.freed, (*henc.Ciphertext)(nil), &henc.Ciphertext{},
		&henc.Ciphertext{Value: o.ct.Value, Level: -1, Scale: 1},
		&henc.Ciphertext{Value: o.ct.Value, Level: 99, Scale: math.NaN()},
		&henc.Ciphertext{Value: &cutrantt.Batch{}, Level: 1, Scale: 2},
		&henc.Ciphertext{Value: o.pt.Value, Level: 1, Scale: 0x1p26})
	args.add(o.pt, (*henc.Plaintext)(nil), &henc.Plaintext{}, &henc.Plaintext{Value: o.ct.Value, Level: 1, Scale: 4})
	args.add(o.pk, (*henc.PublicKey)(nil), &henc.PublicKey{}, &henc.PublicKey{Value: o.ct.Value})
	args.add(o.keys, (*henc.EvaluationKeys)(nil), &henc.EvaluationKeys{},
		&henc.EvaluationKeys{Sparse: &henc.SparseKeys{To: &henc.SwitchingKey{Value: &cutrantt.Batch{}}}},
		&henc.EvaluationKeys{Relin: &henc.SwitchingKey{}, Galois: map[uint64]*henc.SwitchingKey{5: nil, 0: {}, 2: nil}})
	args.add(o.keys.Relin, (*henc.SwitchingKey)(nil), &henc.SwitchingKey{},
		&henc.SwitchingKey{Value: &cutrantt.Batch{}}, &henc.SwitchingKey{Value: o.ct.Value})
	args.add([16]byte{}, [16]byte{1})
	args.add(uint32(0), uint32(math.MaxUint32))
	args.add(o.ct.Value, o.pk.Value, o.freed.Value, (*cutrantt.Batch)(nil), &cutrantt.Batch{})
	args.add(o.key, (*secret.Key)(nil), &secret.Key{})
	args.add((func(*henc.Evaluator) error)(nil), func(*henc.Evaluator) error { return nil })
	args.add([]*henc.Evaluator(nil), []*henc.Evaluator{nil}, []*henc.Evaluator{o.ev}, []*henc.Evaluator{{}})
	args.add([]*henc.Ciphertext(nil), []*henc.Ciphertext{o.ct}, []*henc.Ciphertext{nil})
	args.add([][2]*henc.Ciphertexts(nil), make([][2]*henc.Ciphertexts, 1), [][2]*henc.Ciphertexts{{o.batch, o.batch}},
		[][2]*henc.Ciphertexts{{o.batch, o.batch}, {o.batch, nil}, {o.freedBatch, &henc.Ciphertexts{}}})
	args.add([]henc.Multiple(nil), make([]henc.Multiple, 1), []henc.Multiple{{Of: o.batch, By: 1, Scale: 4}},
		[]henc.Multiple{{o.batch, math.NaN(), math.Inf(1)}, {o.freedBatch, -1, 0}, {&henc.Ciphertexts{}, 1, 1}},
		[]henc.Multiple{{o.batch, 0x1p900, 0x1p900}})
	args.add((*henc.Ciphertexts)(nil), &henc.Ciphertexts{}, o.batch, must(o.be.Clone(o.batch))(t), o.freedBatch,
		o.batch.WithScale(math.NaN()))
	args.add(o.lt, o.freedLt, (*henc.LinearTransform)(nil), &henc.LinearTransform{})
	args.add(map[int][]complex128(nil), map[int][]complex128{0: nil}, map[int][]complex128{math.MinInt: {1}},
		map[int][]complex128{7: make([]complex128, o.p.Slots())})
	args.add(o.plan, (*bootstrap.Plan)(nil), &bootstrap.Plan{})
	args.add((*henc.SparseKeys)(nil), &henc.SparseKeys{}, &henc.SparseKeys{
		To: &henc.SwitchingKey{Value: &cutrantt.Batch{}}, From: &henc.SwitchingKey{Value: &cutrantt.Batch{}}})
	args.add(bootstrap.Literal{}, must(bootstrap.LiteralOf(o.plan.Parameters()))(t),
		bootstrap.Literal{Stages: math.MaxInt, ToCoefficients: math.MaxInt, ToSlots: math.MaxInt, LogLargest: 9,
			LogSlots: math.MaxInt},
		bootstrap.Literal{Stages: 1, ToCoefficients: math.MaxInt, ToSlots: math.MaxInt, LogLargest: math.MinInt})
	args.add([]byte(nil), []byte{0x89, 2}, o.body, o.body[:100], o.keyBytes, o.keyBytes[:100])
	args.add([][]byte(nil), [][]byte{o.body, nil, o.keyBytes}, [][]byte{o.body, o.body[:100]})
	args.add([][]byte(nil), [][]byte{}, [][]byte{nil}, [][]byte{o.body[:7], nil, o.body[7:]}, [][]byte{o.keyBytes})
	args.add([]*henc.Staged(nil), []*henc.Staged{nil}, []*henc.Staged{{}, o.ctx.Stage([][]byte{o.body})})
	args[reflect.TypeFor[io.Reader]()] = []reflect.Value{reflect.ValueOf(strings.NewReader("\x87\x02\x03"))}
	args[reflect.TypeFor[io.Writer]()] = []reflect.Value{reflect.ValueOf(io.Discard), reflect.ValueOf(fullDisk{})}
	args.add(henc.EvaluationKeyStream{}, henc.EvaluationKeyStream{Elements: []uint64{5}},
		henc.EvaluationKeyStream{Elements: []uint64{5, 1, 2}, Galois: keyOf(o.keys)},
		henc.EvaluationKeyStream{Relin: func() (*henc.SwitchingKey, error) { return nil, nil },
			Elements: []uint64{5, 5}, Galois: keyOf(&henc.EvaluationKeys{})})
	args.add(henc.ParametersLiteral{}, henc.ParametersLiteral{Name: "x", LogN: 12, LogScale: 26, Mode: henc.ModeSingle,
		Depth: math.MaxInt})
}

// addPlain adds numbers, texts and lists of them.
func (args arguments) addPlain() {
	args.add(0, 1, -1, 5, 4096, math.MaxInt, math.MinInt)
	args.add(int64(0), int64(7), int64(math.MinInt64))
	args.add(uint32(0), uint32(math.MaxUint32))
	args.add(uint64(0), uint64(1), uint64(5), uint64(math.MaxUint64))
	args.add(0.0, 1.0, -1.0, 0x1p26, 0x1p1000, 0x1p-1000, math.NaN(), math.Inf(1))
	args.add([]bool(nil), []bool{true}, make([]bool, 5000))
	args.add([]float64(nil), []float64{1, 2}, []float64{math.NaN()}, make([]float64, 4096), make([]float64, 5000))
	args.add([][]float64(nil), [][]float64{{1}, nil}, [][]float64{make([]float64, 4096)})
	args.add([]complex128(nil), []complex128{1}, make([]complex128, 5000))
	args.add([][]complex128(nil), [][]complex128{{1}})
	args.add((*henc.Seed)(nil), &henc.Seed{1})
	args.add([]*henc.Seed(nil), []*henc.Seed{nil}, []*henc.Seed{nil, {2}})
	args.add((*[32]byte)(nil), &[32]byte{3})
	args.add([]int(nil), []int{1, 0, -1}, []int{math.MinInt})
	args.add([]uint64(nil), []uint64{0, 1, 2, 3, 1 << 40})
	args.add([]int32(nil), make([]int32, 4096), []int32{math.MinInt32})
	args.add(true, false)
	args.add("", "edge12-d1")
}

// named is a function, or a receiver of methods.
type named struct {
	name string
	v    any
}

// methods returns every method of good, nil and zero receivers, but for wiping the keys
// that others need.
func (o *objects) methods() (calls []named) {
	for _, r := range []named{
		{"context", o.ctx}, {"nil context", (*henc.Context)(nil)}, {"zero context", &henc.Context{}},
		{"parameters", o.p}, {"zero parameters", henc.Parameters{}}, {"noise", o.p.Noise()},
		{"zero noise", henc.NoiseModel{}},
		{"encoder", o.ctx.Encoder()}, {"nil encoder", (*henc.Encoder)(nil)}, {"zero encoder", &henc.Encoder{}},
		{"encryptor", o.enc}, {"nil encryptor", (*henc.Encryptor)(nil)}, {"zero encryptor", &henc.Encryptor{}},
		{"evaluator", o.ev}, {"nil evaluator", (*henc.Evaluator)(nil)}, {"zero evaluator", &henc.Evaluator{}},
		{"evaluator without keys", henc.NewEvaluator(o.ctx, nil)},
		{"evaluator without context", henc.NewEvaluator(nil, o.keys)},
		{"batch evaluator", o.be}, {"nil batch evaluator", (*henc.BatchEvaluator)(nil)},
		{"zero batch evaluator", &henc.BatchEvaluator{}},
		{"batch", o.batch}, {"nil batch", (*henc.Ciphertexts)(nil)}, {"zero batch", &henc.Ciphertexts{}},
		{"ciphertext", o.ct}, {"nil ciphertext", (*henc.Ciphertext)(nil)}, {"nil seed", (*henc.Seed)(nil)},
		{"zero sparse keys", &henc.SparseKeys{}}, {"nil sparse keys", (*henc.SparseKeys)(nil)},
		{"transform", o.toFree},
		{"nil transform", (*henc.LinearTransform)(nil)}, {"zero transform", &henc.LinearTransform{}},
		{"plan", o.plan}, {"nil plan", (*bootstrap.Plan)(nil)}, {"zero plan", &bootstrap.Plan{}},
		{"nil bootstrapper", (*bootstrap.Bootstrapper)(nil)}, {"zero bootstrapper", &bootstrap.Bootstrapper{}},
		{"key", o.key}, {"nil key", (*secret.Key)(nil)}, {"zero key", &secret.Key{}},
		{"decryptor", secret.NewDecryptor(o.ctx, o.key)}, {"nil decryptor", (*secret.Decryptor)(nil)},
		{"zero decryptor", &secret.Decryptor{}},
		{"decryptor without key", secret.NewDecryptor(o.ctx, nil)},
		{"decryptor of another context", secret.NewDecryptor(o.other, o.key)},
		{"seeded encryptor", secret.NewSeededEncryptor(o.ctx, o.key)},
		{"nil seeded encryptor", (*secret.SeededEncryptor)(nil)},
		{"seeded encryptor without key", secret.NewSeededEncryptor(o.ctx, nil)},
	} {
		v := reflect.ValueOf(r.v)
		for i := range v.NumMethod() {
			if m := v.Type().Method(i).Name; m != "Wipe" || v.IsNil() {
				calls = append(calls, named{r.name + ": " + m, v.Method(i).Interface()})
			}
		}
	}
	return calls
}

func functions() []named {
	return []named{
		{"NewParameters", henc.NewParameters}, {"Named", henc.Named}, {"SecurityBound", henc.SecurityBound},
		{"EncodingError", henc.EncodingError},
		{"NewContext", henc.NewContext}, {"NewEncryptor", henc.NewEncryptor}, {"NewEvaluator", henc.NewEvaluator},
		{"GaloisElement", henc.GaloisElement}, {"ConjugationElement", henc.ConjugationElement},
		{"SumRotations", henc.SumRotations}, {"TransformRotations", henc.TransformRotations},
		{"LeastTransformRotations", henc.LeastTransformRotations}, {"TransformSwitches", henc.TransformSwitches},
		{"NewLinearTransform", henc.NewLinearTransform}, {"SparseBound", henc.SparseBound},
		{"CheckSparse", henc.CheckSparse}, {"NamedBootstrap", henc.NamedBootstrap},
		{"LiteralOf", bootstrap.LiteralOf}, {"NewPlan", bootstrap.NewPlan}, {"New", bootstrap.New},
		{"ComputeKeyID", henc.ComputeKeyID}, {"PeekCiphertext", henc.PeekCiphertext}, {"NewSeed", henc.NewSeed},
		{"NewBatchEvaluator", henc.NewBatchEvaluator},
		{"Generate", secret.Generate}, {"FromCoefficients", secret.FromCoefficients}, {"Unmarshal", secret.Unmarshal},
		{"NewDecryptor", secret.NewDecryptor}, {"NewSeededEncryptor", secret.NewSeededEncryptor},
	}
}
