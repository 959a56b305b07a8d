package henc_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// keyRig is a small set whose keys may be written: N = 2^12 with one special
// prime, one level.
const keyRig = "edge12-d1"

// TestPublicKeyRoundTrip: what is written is read back, by any n2, to the same
// residues; the bytes are deterministic and do not depend on n2.
func TestPublicKeyRoundTrip(t *testing.T) {
	a, b := newRig(t, keyRig, 16), newRig(t, keyRig, 1)
	pk := *a.pk
	pk.Epoch = 7
	bytesA := must(a.ctx.MarshalPublicKey(&pk))(t)
	pkB := *b.pk
	pkB.Epoch = 7
	if !bytes.Equal(bytesA, must(b.ctx.MarshalPublicKey(&pkB))(t)) {
		t.Error("the bytes depend on n2")
	}
	back := must(b.ctx.UnmarshalPublicKey(bytesA))(t)
	if back.Epoch != 7 || back.KeyID != pk.KeyID || *back.Seed != *pk.Seed {
		t.Error("epoch, key id or seed changed")
	}
	if !slices.Equal(download(t, b, back.Value), download(t, b, b.pk.Value)) {
		t.Error("residues changed")
	}
	// Frozen: a changed key format, derivation or sampler changes this hash.
	const want = "a773a109d3718e39cf22f82630b2f89d794de21e1d859a71ef1642d823a11b37"
	if got := hex.EncodeToString(sum(bytesA)); got != want {
		t.Errorf("public key bytes hash to %s, want %s", got, want)
	}
	// Without the seed both halves travel.
	pk.Seed = nil
	pk.KeyID = must(henc.ComputeKeyID(a.ctx, pk.Value, nil))(t)
	long := must(a.ctx.MarshalPublicKey(&pk))(t)
	if len(long) < 19*len(bytesA)/10 {
		t.Errorf("%d bytes without a seed, %d with", len(long), len(bytesA))
	}
	full := must(a.ctx.UnmarshalPublicKey(long))(t)
	if full.Seed != nil || !slices.Equal(download(t, a, full.Value), download(t, a, pk.Value)) {
		t.Error("residues of the full form changed")
	}
	ct := must(must(henc.NewEncryptor(a.ctx, full))(t).EncryptReal([]float64{0.5}, 1, 0, nil))(t)
	if x := must(a.dec.DecryptReal(ct))(t)[0]; x < 0.49 || x > 0.51 {
		t.Errorf("encrypted under the key read: %g", x)
	}
}

func sum(b []byte) []byte {
	h := sha256.Sum256(b)
	return h[:]
}

func TestEvaluationKeysRoundTrip(t *testing.T) {
	for _, set := range []string{keyRig, "edge12-add"} {
		r, other := newRig(t, set, 16), newRig(t, set, 4)
		r.evaluator(t)
		keys := *r.keys
		keys.Epoch = 9
		b := must(r.ctx.MarshalEvaluationKeys(&keys))(t)
		back := must(other.ctx.UnmarshalEvaluationKeys(b))(t)
		if back.Epoch != 9 || back.KeyID != r.pk.KeyID || len(back.Galois) != len(keys.Galois) ||
			(back.Relin == nil) != (keys.Relin == nil) {
			t.Fatalf("%s: epoch, id or keys changed", set)
		}
		if !bytes.Equal(b, must(other.ctx.MarshalEvaluationKeys(back))(t)) {
			t.Errorf("%s: writing again gives other bytes", set)
		}
		if set != keyRig {
			continue
		}
		ev := henc.NewEvaluator(other.ctx, back)
		x := reals(other.p.Slots(), 1)
		ct := must(other.seeded.EncryptReal(x, 1, 0, nil))(t)
		got := must(other.dec.DecryptReal(must(ev.Rotate(must(ev.MulRescale(ct, ct))(t), 5))(t)))(t)
		for j := range got {
			want := x[(j+5)%len(x)]
			if d := got[j] - want*want; d > 0x1p-11 || d < -0x1p-11 {
				t.Fatalf("slot %d is %g, want %g", j, got[j], want*want)
			}
		}
		// Mixed: one key without a seed.
		keys.Relin = &henc.SwitchingKey{Value: keys.Relin.Value}
		mixed := must(r.ctx.UnmarshalEvaluationKeys(must(r.ctx.MarshalEvaluationKeys(&keys))(t)))(t)
		if mixed.Relin.Seed != nil ||
			!slices.Equal(download(t, r, mixed.Relin.Value), download(t, r, keys.Relin.Value)) {
			t.Error("a key without a seed changed")
		}
	}
}

// TestInsecureKeysStayInMemory: no key of insecure parameters is written or read.
func TestInsecureKeysStayInMemory(t *testing.T) {
	r := newRig(t, "toy", 16)
	r.evaluator(t)
	_, err1 := r.ctx.MarshalPublicKey(r.pk)
	_, err2 := r.ctx.MarshalEvaluationKeys(r.keys)
	_, err3 := r.key.Marshal()
	_, err4 := secret.Unmarshal(r.ctx, nil)
	_, err5 := r.ctx.UnmarshalPublicKey(nil)
	_, err6 := r.ctx.UnmarshalEvaluationKeys(nil)
	for i, err := range []error{err1, err2, err3, err4, err5, err6} {
		if !errors.Is(err, henc.ErrInsecureKey) {
			t.Errorf("case %d: %v", i, err)
		}
	}
}

// TestGaloisOrder: elements are odd, ascending and unique.
func TestGaloisOrder(t *testing.T) {
	r := newRig(t, keyRig, 16)
	keys := &henc.EvaluationKeys{Galois: must(r.key.GaloisKeys([]uint64{5, 7, 1, 5}))(t)}
	both := must(r.ctx.MarshalEvaluationKeys(keys))(t)
	delete(keys.Galois, 7)
	entry := len(both) - len(must(r.ctx.MarshalEvaluationKeys(keys))(t))
	at := len(both) - entry // of [7, key]
	if both[at] != 0x82 || both[at+1] != 7 {
		t.Fatalf("% x where the second entry begins", both[at:at+2])
	}
	for _, g := range []byte{7, 9, 5, 3, 1, 0, 8} {
		b := slices.Clone(both)
		b[at+1] = g
		if _, err := r.ctx.UnmarshalEvaluationKeys(b); errors.Is(err, henc.ErrMalformed) == (g == 7 || g == 9) {
			t.Errorf("element %d after 5: %v", g, err)
		}
	}
}

func TestKeyRefusals(t *testing.T) {
	r, wrong := newRig(t, keyRig, 16), newRig(t, "edge12-add", 16)
	r.evaluator(t)
	pk := must(r.ctx.MarshalPublicKey(r.pk))(t)
	ek := must(r.ctx.MarshalEvaluationKeys(r.keys))(t)
	edit := func(b []byte, f func(b []byte)) []byte {
		c := slices.Clone(b)
		f(c)
		return c
	}
	readPK := func(b []byte) error { _, err := r.ctx.UnmarshalPublicKey(b); return err }
	readEK := func(b []byte) error { _, err := r.ctx.UnmarshalEvaluationKeys(b); return err }
	const id, epoch = 3 + 2 + 32, 3 + 2 + 32 + 17 // offsets after the preamble
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"nothing", readPK(nil), henc.ErrTruncated},
		{"cut short", readPK(pk[:len(pk)-1]), henc.ErrTruncated},
		{"cut in the preamble", readPK(pk[:20]), henc.ErrTruncated},
		{"trailing byte", readPK(append(slices.Clone(pk), 0)), henc.ErrMalformed},
		{"version", readPK(edit(pk, func(b []byte) { b[1]++ })), henc.ErrVersion},
		{"downgrade", readEK(edit(ek, func(b []byte) { b[1] = 1 })), henc.ErrVersion},
		{"kind", readPK(ek), henc.ErrKind},
		{"kind of evaluation keys", readEK(pk), henc.ErrKind},
		{"not an array", readPK(edit(pk, func(b []byte) { b[0] = 0xa0 })), henc.ErrMalformed},
		{"parameter hash", readPK(edit(pk, func(b []byte) { b[10] ^= 1 })), henc.ErrParams},
		{"other parameters", func() error { _, err := wrong.ctx.UnmarshalPublicKey(pk); return err }(), henc.ErrParams},
		{"key id", readPK(edit(pk, func(b []byte) { b[id+5] ^= 1 })), henc.ErrMalformed},
		{"flipped residue", readPK(edit(pk, func(b []byte) { b[len(b)/2] ^= 1 })), henc.ErrMalformed},
		{"residue out of range", readPK(edit(pk, func(b []byte) {
			for i := len(b) / 2; i < len(b)/2+64; i++ {
				b[i] = 0xff
			}
		})), henc.ErrRange},
		{"null for a seed", readPK(edit(pk, func(b []byte) { b[epoch+2] = 0xf6 })), henc.ErrMalformed},
		{"evaluation keys cut short", readEK(ek[:len(ek)/2]), henc.ErrTruncated},
		{"evaluation keys trailing", readEK(append(slices.Clone(ek), 0xf6)), henc.ErrMalformed},
		{"nil public key", func() error { _, err := r.ctx.MarshalPublicKey(nil); return err }(), henc.ErrParams},
		{"empty public key", func() error { _, err := r.ctx.MarshalPublicKey(&henc.PublicKey{}); return err }(),
			henc.ErrParams},
		{"nil evaluation keys", func() error { _, err := r.ctx.MarshalEvaluationKeys(nil); return err }(),
			henc.ErrParams},
		{"nil galois key", func() error {
			_, err := r.ctx.MarshalEvaluationKeys(&henc.EvaluationKeys{Galois: map[uint64]*henc.SwitchingKey{5: nil}})
			return err
		}(), henc.ErrNoKey},
		{"even element", func() error {
			_, err := r.ctx.MarshalEvaluationKeys(&henc.EvaluationKeys{Galois: map[uint64]*henc.SwitchingKey{
				4: r.keys.Relin}})
			return err
		}(), henc.ErrMalformed},
		{"zero key", func() error {
			zero := must(r.ctx.Ring().NewBatch(2, r.pk.Value.Limbs(), r.ctx.Domain()))(t)
			b := must(r.ctx.MarshalPublicKey(&henc.PublicKey{Value: zero}))(t)
			return readPK(b)
		}(), henc.ErrDegenerate},
		{"nil context", func() error { _, err := (*henc.Context)(nil).UnmarshalPublicKey(pk); return err }(),
			henc.ErrParams},
		{"key id of nothing", func() error { _, err := henc.ComputeKeyID(r.ctx, nil, nil); return err }(),
			henc.ErrParams},
		{"foreign batch", func() error {
			_, err := r.ctx.MarshalPublicKey(&henc.PublicKey{
				Value: must(newRig(t, keyRig, 16).ctx.Ring().NewBatch(2, []int{0}, cutrantt.NTT(16)))(t)})
			return err
		}(), henc.ErrParams},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, tt.err, tt.want)
		}
	}
}

// FuzzUnmarshalKeys: the decoders never panic, and what they accept is exactly
// what they would write.
func FuzzUnmarshalKeys(f *testing.F) {
	r := newRig(f, keyRig, 16)
	r.evaluator(f)
	small := &henc.EvaluationKeys{Relin: r.keys.Relin, KeyID: r.pk.KeyID}
	f.Add(must(r.ctx.MarshalPublicKey(r.pk))(f))
	f.Add(must(r.ctx.MarshalEvaluationKeys(small))(f))
	f.Add(must(r.ctx.MarshalSwitchingKey(switchingKey(f, r), r.pk.KeyID, 7))(f))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, h, err := r.ctx.UnmarshalSwitchingKey(b); err == nil {
			if again, err := r.ctx.MarshalSwitchingKey(k, h.KeyID, h.Epoch); err != nil || !bytes.Equal(again, b) {
				t.Errorf("switching key: accepted bytes are not what is written: %v", err)
			}
		}
		if pk, err := r.ctx.UnmarshalPublicKey(b); err == nil {
			if again, err := r.ctx.MarshalPublicKey(pk); err != nil || !bytes.Equal(again, b) {
				t.Errorf("public key: accepted bytes are not what is written: %v", err)
			}
		}
		if keys, err := r.ctx.UnmarshalEvaluationKeys(b); err == nil {
			if again, err := r.ctx.MarshalEvaluationKeys(keys); err != nil || !bytes.Equal(again, b) {
				t.Errorf("evaluation keys: accepted bytes are not what is written: %v", err)
			}
		}
	})
}

// FuzzUnmarshalBootstrapKeys is FuzzUnmarshalKeys with parameters whose evaluation keys have those of bootstrapping.
func FuzzUnmarshalBootstrapKeys(f *testing.F) {
	ctx := must(henc.NewContext(must(henc.NamedBootstrap("boot15"))(f), henc.WithN2(1)))(f)
	none := must(ctx.MarshalEvaluationKeys(&henc.EvaluationKeys{Epoch: 3}))(f)
	key := must(secret.Generate(ctx, seedOf("fuzzed")))(f)
	keys := must(ctx.MarshalEvaluationKeys(&henc.EvaluationKeys{Sparse: must(key.SparseKeys())(f)}))(f)
	f.Add(none)
	f.Add(keys[:len(none)+200])
	f.Add(append(bytes.Clone(none[:len(none)-1]), 0x82))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := ctx.UnmarshalEvaluationKeys(b)
		if err != nil {
			if streamed, err := ctx.ReadEvaluationKeys(bytes.NewReader(b)); err == nil || streamed != nil {
				t.Errorf("refused as bytes, read from a stream: %v", err)
			}
			return
		}
		if again, err := ctx.MarshalEvaluationKeys(keys); err != nil || !bytes.Equal(again, b) {
			t.Errorf("accepted bytes are not what is written: %v", err)
		}
	})
}

// switchingKey is a key of level 0 to the rig's secret.
func switchingKey(t testing.TB, r *rig) *henc.SwitchingKey {
	t.Helper()
	return must(r.key.CompactKey(must(secret.Generate(r.ctx, seedOf("from")))(t)))(t)
}

// TestSwitchingKeyRoundTrip: what is written is read back by any n2, and nothing else is read.
func TestSwitchingKeyRoundTrip(t *testing.T) {
	a, b := newRig(t, keyRig, 16), newRig(t, keyRig, 1)
	key := switchingKey(t, a)
	file := must(a.ctx.MarshalSwitchingKey(key, a.pk.KeyID, 7))(t)
	back, h, err := b.ctx.UnmarshalSwitchingKey(file)
	if err != nil || h != (henc.KeyHeader{Params: b.p.Hash(), KeyID: a.pk.KeyID, Epoch: 7}) || *back.Seed != *key.Seed {
		t.Fatalf("%+v: %v", h, err)
	}
	if !slices.Equal(download(t, b, back.Value), download(t, b, switchingKey(t, b).Value)) {
		t.Error("residues changed")
	}
	if again := must(b.ctx.MarshalSwitchingKey(back, h.KeyID, 7))(t); !bytes.Equal(again, file) {
		t.Error("writing again gives other bytes")
	}
	edit := func(at int, v byte) []byte {
		c := slices.Clone(file)
		c[at] = v
		return c
	}
	a.evaluator(t)
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"nothing":         {nil, henc.ErrTruncated},
		"cut":             {file[:len(file)-1], henc.ErrTruncated},
		"longer":          {append(slices.Clone(file), 0), henc.ErrMalformed},
		"version":         {edit(1, 3), henc.ErrVersion},
		"evaluation keys": {must(a.ctx.MarshalEvaluationKeys(a.keys))(t), henc.ErrKind},
		"parameter hash":  {edit(10, ^file[10]), henc.ErrParams},
		"no seed":         {edit(56, 0xf6), henc.ErrMalformed},
		"a null key":      {edit(55, 0xf6), henc.ErrMalformed},
	} {
		if _, _, err := a.ctx.UnmarshalSwitchingKey(c.file); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	add, toy := newRig(t, "edge12-add", 16), newRig(t, "toy", 16)
	for name, c := range map[string]struct {
		ctx  *henc.Context
		key  *henc.SwitchingKey
		want error
	}{
		"no key":            {a.ctx, nil, henc.ErrParams},
		"another shape":     {a.ctx, a.keys.Relin, henc.ErrParams},
		"no special primes": {add.ctx, key, henc.ErrParams},
		"insecure":          {toy.ctx, key, henc.ErrInsecureKey},
	} {
		if _, err := c.ctx.MarshalSwitchingKey(c.key, a.pk.KeyID, 1); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		ctx  *henc.Context
		want error
	}{"no special primes": {add.ctx, henc.ErrParams}, "insecure": {toy.ctx, henc.ErrInsecureKey}} {
		if _, _, err := c.ctx.UnmarshalSwitchingKey(file); !errors.Is(err, c.want) {
			t.Errorf("read, %s: %v, want %q", name, err, c.want)
		}
	}
}

// TestWriteEvaluationKeysStream: keys that are given one at a time are written as a whole
// set is, each before the next is asked for; what does not ascend is refused.
func TestWriteEvaluationKeysStream(t *testing.T) {
	r := newRig(t, keyRig, 16)
	ctx, keys := r.ctx, must(must(secret.Generate(r.ctx, nil))(t).EvaluationKeys([]int{1, 5}, true))(t)
	whole, err := ctx.MarshalEvaluationKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	grown := 0
	step := func() {
		t.Helper()
		if out.Len() <= grown && grown > 0 {
			t.Error("a key is asked for before the last one was written")
		}
		grown = out.Len() + 1
	}
	s := henc.EvaluationKeyStream{KeyID: keys.KeyID, Epoch: keys.Epoch, Elements: slices.Sorted(maps.Keys(keys.Galois))}
	s.Relin = func() (*henc.SwitchingKey, error) { step(); return keys.Relin, nil }
	s.Galois = func(g uint64) (*henc.SwitchingKey, error) { step(); return keys.Galois[g], nil }
	if err := ctx.WriteEvaluationKeys(&out, s); err != nil || !bytes.Equal(out.Bytes(), whole) {
		t.Errorf("%d bytes, want %d; %v", out.Len(), len(whole), err)
	}
	s.Relin = nil
	s.Galois = func(g uint64) (*henc.SwitchingKey, error) { return keys.Galois[g], nil }
	slices.Reverse(s.Elements)
	if err := ctx.WriteEvaluationKeys(io.Discard, s); !errors.Is(err, henc.ErrParams) {
		t.Errorf("descending elements: %v", err)
	}
	broken := errors.New("no key today")
	s.Galois = func(uint64) (*henc.SwitchingKey, error) { return nil, broken }
	if err := ctx.WriteEvaluationKeys(io.Discard, s); !errors.Is(err, broken) {
		t.Errorf("a key that fails: %v", err)
	}
}

// TestSparseKeysRoundTrip: the keys of bootstrapping travel with the evaluation keys of the sets that
// have levels for it, whole or not at all.
func TestSparseKeysRoundTrip(t *testing.T) {
	p := must(henc.NamedBootstrap("boot15"))(t)
	ctx := must(henc.NewContext(p, henc.WithN2(1)))(t)
	key := must(secret.Generate(ctx, seedOf("sparse keys")))(t)
	keys := &henc.EvaluationKeys{Epoch: 3, Sparse: must(key.SparseKeys())(t)}
	b := must(ctx.MarshalEvaluationKeys(keys))(t)
	if again := must(key.SparseKeys())(t); *again.To.Seed != *keys.Sparse.To.Seed {
		t.Error("the seed of a key does not follow from the secret")
	}
	t.Logf("%d bytes for both keys", len(b))
	if most := 41 << 20; len(b) > most {
		t.Errorf("%d bytes, more than %d: the keys travel without their seeds", len(b), most)
	}
	back := must(ctx.ReadEvaluationKeys(iotest.HalfReader(bytes.NewReader(b))))(t)
	if back.Sparse == nil || back.Epoch != 3 {
		t.Fatal("the keys or their epoch are gone")
	}
	for name, k := range map[string][2]*henc.SwitchingKey{
		"to": {keys.Sparse.To, back.Sparse.To}, "from": {keys.Sparse.From, back.Sparse.From},
	} {
		words := func(k *henc.SwitchingKey) []uint32 {
			w := make([]uint32, k.Value.Len())
			check(t, ctx.Ring().Download(w, k.Value))
			return w
		}
		if *k[0].Seed != *k[1].Seed || !slices.Equal(words(k[0]), words(k[1])) {
			t.Errorf("the key %s the sparse secret changed", name)
		}
	}

	none := must(ctx.MarshalEvaluationKeys(&henc.EvaluationKeys{}))(t)
	if k := must(ctx.UnmarshalEvaluationKeys(none))(t); k.Sparse != nil || none[len(none)-1] != 0x80 {
		t.Errorf("no keys: % x at the end", none[len(none)-1])
	}
	one := slices.Clone(none)
	one[len(one)-1] = 0x81
	if _, err := ctx.UnmarshalEvaluationKeys(one); !errors.Is(err, henc.ErrMalformed) {
		t.Errorf("one of two keys: %v", err)
	}
	for _, cut := range []int{len(b) - 1, len(b) / 2, len(none) + 40, len(none), len(none) - 1} {
		if _, err := ctx.UnmarshalEvaluationKeys(b[:cut]); !errors.Is(err, henc.ErrTruncated) {
			t.Errorf("cut to %d bytes: %v", cut, err)
		}
	}
	if _, err := ctx.UnmarshalEvaluationKeys(append(slices.Clone(none), 0)); !errors.Is(err, henc.ErrMalformed) {
		t.Errorf("a byte too many: %v", err)
	}
	broken := errors.New("broken disk")
	_, err := ctx.ReadEvaluationKeys(io.MultiReader(bytes.NewReader(b[:len(b)/2]), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}

	// Other sets have no room for them.
	edge := newRig(t, keyRig, 1)
	if _, err := edge.ctx.MarshalEvaluationKeys(keys); !errors.Is(err, henc.ErrParams) {
		t.Errorf("keys of boot15 written for %s: %v", keyRig, err)
	}
	if _, err := edge.key.SparseKeys(); !errors.Is(err, henc.ErrSecurity) {
		t.Errorf("keys under a sparse secret for %s: %v", keyRig, err)
	}
	swapped := &henc.EvaluationKeys{Sparse: &henc.SparseKeys{To: keys.Sparse.From, From: keys.Sparse.To}}
	if _, err := ctx.MarshalEvaluationKeys(swapped); !errors.Is(err, henc.ErrParams) {
		t.Errorf("keys of another shape: %v", err)
	}
}
