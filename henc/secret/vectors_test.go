package secret_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/vectors"
)

// keyVector is a key set made from the seed 00 01 ... 1f.
type keyVector struct {
	Params           string  `json:"params"`
	Epoch            uint32  `json:"epoch"`
	Seed             string  `json:"seed"`
	Root             string  `json:"root"`
	First            []int32 `json:"first_coefficients"`
	SecretKey        string  `json:"secret_key"`
	PublicSeed       string  `json:"public_seed"`
	KeyID            string  `json:"key_id"`
	PublicBytes      int     `json:"public_key_bytes"`
	PublicHead       string  `json:"public_key_begins"`
	PublicSHA256     string  `json:"public_key_sha256"`
	Rotations        []int   `json:"rotations"`
	Conjugation      bool    `json:"conjugation"`
	EvaluationBytes  int     `json:"evaluation_keys_bytes"`
	EvaluationHead   string  `json:"evaluation_keys_begin"`
	EvaluationSHA256 string  `json:"evaluation_keys_sha256"`
}

// decryptVector is a ciphertext under the secret key of a keyVector, and what is in
// it: slots beyond those listed are 0.
type decryptVector struct {
	Key        int       `json:"key"`
	Form       string    `json:"form"`
	Level      int       `json:"level"`
	Scale      float64   `json:"scale"`
	N2         int       `json:"n2"`
	Seeded     bool      `json:"seeded"`
	Values     []float64 `json:"values"`
	Decrypted  []float64 `json:"decrypted"`
	Error      float64   `json:"largest_error"`
	SHA256     string    `json:"sha256"`
	Ciphertext string    `json:"ciphertext"`
}

// refusedVector is an object of this file with edits, one after the other, and the
// error of the document that it gives.
type refusedVector struct {
	Name  string       `json:"name"`
	What  string       `json:"what"` // ciphertext or secret_key
	Of    int          `json:"of"`   // index of the ciphertext or key
	Edits []vectorEdit `json:"edits"`
	Error string       `json:"error"`
}

type vectorEdit struct {
	At     int    `json:"at"`
	Delete int    `json:"delete"`
	Insert string `json:"insert"`
}

func (v refusedVector) apply(b []byte) []byte {
	for _, e := range v.Edits {
		insert, err := hex.DecodeString(e.Insert)
		if err != nil {
			panic(err)
		}
		b = append(append(append([]byte{}, b[:e.At]...), insert...), b[e.At+e.Delete:]...)
	}
	return b
}

// sentinels are the errors by their names in docs/wire-ciphertext.md.
var sentinels = map[string]error{
	"ErrTooLarge": henc.ErrTooLarge, "ErrMalformed": henc.ErrMalformed, "ErrTruncated": henc.ErrTruncated,
	"ErrVersion": henc.ErrVersion,
	"ErrKind":    henc.ErrKind, "ErrLevel": henc.ErrLevel, "ErrScale": henc.ErrScale, "ErrDomain": henc.ErrDomain,
	"ErrDegree": henc.ErrDegree,
	"ErrParams": henc.ErrParams, "ErrLength": henc.ErrLength, "ErrRange": henc.ErrRange,
	"ErrDegenerate": henc.ErrDegenerate,
}

func hexSum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

func makeKey(t *testing.T, set string, epoch uint32, rotations []int, conjugation bool) (*secret.Key, keyVector) {
	t.Helper()
	ctx := context(t, set, 16)
	key := must(secret.Generate(ctx, (*henc.Seed)(vectors.Seed())))(t)
	key.SetEpoch(epoch)
	coefficients := must(key.Coefficients())(t)
	file := must(key.Marshal())(t)
	public := must(key.PublicKey())(t)
	publicFile := must(ctx.MarshalPublicKey(public))(t)
	evaluation := must(ctx.MarshalEvaluationKeys(must(key.EvaluationKeys(rotations, conjugation))(t)))(t)
	root := file[len(file)-ctx.Parameters().N()/4-3-32:][:32]
	return key, keyVector{set, epoch, hex.EncodeToString(vectors.Seed()[:]), hex.EncodeToString(root),
		coefficients[:16], hex.EncodeToString(file),
		hex.EncodeToString(public.Seed[:]), hex.EncodeToString(public.KeyID[:]), len(publicFile),
		hex.EncodeToString(publicFile[:128]), hexSum(publicFile),
		rotations, conjugation, len(evaluation), hex.EncodeToString(evaluation[:min(len(evaluation), 128)]),
		hexSum(evaluation)}
}

func makeDecryptions(t *testing.T, keys []*secret.Key) (out []decryptVector) {
	t.Helper()
	values := []float64{1, -0.5, 0.25, 0.75, -1, 0.125, 0, 0.375, 0.1, -0.2, 0.3, -0.4}
	for i, c := range []struct {
		key    int
		form   string
		n2     int
		seeded bool
	}{{1, "real", 16, true}, {1, "packed", 4, true}, {1, "real", 1, false}} {
		v := decryptVector{Key: c.key, Form: c.form, N2: c.n2, Seeded: c.seeded, Values: values}
		ctx := context(t, keys[c.key].Context().Parameters().Name(), c.n2)
		key := must(secret.Unmarshal(ctx, must(keys[c.key].Marshal())(t)))(t)
		var enc henc.BatchEncryptor = secret.NewSeededEncryptor(ctx, key)
		if !c.seeded {
			enc = must(henc.NewEncryptor(ctx, must(key.PublicKey())(t)))(t)
		}
		encrypt := enc.EncryptReal
		if c.form == "packed" {
			encrypt = enc.EncryptPacked
		}
		seed := must((*henc.Seed)(vectors.Seed()).Derive("hencedge vector", uint64(i)))(t)
		ct := must(encrypt(values, 0, 0, seed))(t)
		b := must(ctx.MarshalCiphertext(ct))(t)
		decrypt := secret.NewDecryptor(ctx, key).DecryptReal
		if c.form == "packed" {
			decrypt = secret.NewDecryptor(ctx, key).DecryptPacked
		}
		got := must(decrypt(ct))(t)
		for j, x := range got {
			want := 0.0
			if j < len(values) {
				want = values[j]
			}
			v.Error = max(v.Error, math.Abs(x-want))
		}
		v.Level, v.Scale, v.SHA256, v.Ciphertext = ct.Level, ct.Scale, hexSum(b), hex.EncodeToString(b)
		// A shorter decimal is enough, and does not depend on the order of additions.
		for _, x := range got[:16] {
			v.Decrypted = append(v.Decrypted, math.Round(x*1e9)/1e9)
		}
		v.Error = math.Ceil(v.Error*1e9) / 1e9
		out = append(out, v)
	}
	return out
}

// makeRefused edits the first ciphertext, which is seeded (element offsets: version 1,
// kind 2, hash 5, level 37, scale 38 to 46, n2 47, transform 48, seed 51, polynomials
// 83, residues 87), the last one, which has two polynomials, and a secret key.
func makeRefused(cts []decryptVector, keys []keyVector) (out []refusedVector) {
	full := len(cts) - 1
	first, last, key := len(cts[0].Ciphertext)/2, len(cts[full].Ciphertext)/2, len(keys[1].SecretKey)/2
	edit := func(what string, of int, name, err string, edits ...vectorEdit) {
		out = append(out, refusedVector{name, what, of, edits, err})
	}
	ct := func(name, err string, at, remove int, insert string) {
		edit("ciphertext", 0, name, err, vectorEdit{at, remove, insert})
	}
	ct("empty", "ErrTruncated", 0, first, "")
	ct("cut", "ErrTruncated", first-1, 1, "")
	ct("trailing byte", "ErrMalformed", first, 0, "00")
	ct("array of eight", "ErrMalformed", 0, 1, "88")
	ct("indefinite-length array", "ErrMalformed", 0, 1, "9f")
	ct("a map", "ErrMalformed", 0, 1, "a9")
	ct("version 1", "ErrVersion", 1, 1, "01")
	ct("version 3", "ErrVersion", 1, 1, "03")
	ct("a public key's kind", "ErrKind", 2, 1, "02")
	ct("another set's parameter hash", "ErrParams", 5, 32, hashOf("edge12-add"))
	ct("parameter hash of 31 bytes", "ErrLength", 3, 3, "581f")
	ct("level 2 of 1", "ErrLevel", 37, 1, "02")
	ct("level 129", "ErrLevel", 37, 1, "1881")
	ct("level in two bytes", "ErrMalformed", 37, 1, "1800")
	ct("negative level", "ErrMalformed", 37, 1, "20")
	ct("scale 0.5", "ErrScale", 38, 9, "f93800")
	ct("negative scale", "ErrScale", 38, 9, "f9bc00")
	ct("scale above half the modulus", "ErrScale", 38, 9, "fa4e800000")
	ct("scale NaN", "ErrMalformed", 38, 9, "f97e00")
	ct("scale as an integer", "ErrMalformed", 38, 9, "1a04000000")
	ct("scale in more bits than it needs", "ErrMalformed", 38, 9, "fb4190000000000000")
	ct("n2 = 3", "ErrDomain", 47, 1, "03")
	ct("n2 = 32", "ErrDomain", 47, 1, "1820")
	ct("transform 2", "ErrDomain", 48, 1, "02")
	ct("seed of 16 bytes", "ErrLength", 49, 34, "50"+hex.EncodeToString(make([]byte, 16)))
	ct("seed as text", "ErrMalformed", 49, 1, "78")
	ct("tagged seed", "ErrMalformed", 49, 0, "c1")
	ct("one polynomial without a seed", "ErrDegree", 49, 34, "f6")
	ct("two polynomials with a seed", "ErrDegree", 83, 1, "82")
	ct("a polynomial of half the length", "ErrLength", 84, 3+15360/2, "591e00")
	ct("pair at q^2 and above", "ErrRange", 87, 8, "ffffffffffffffff")
	edit("ciphertext", full, "second polynomial of zeros", "ErrDegenerate",
		vectorEdit{last - 15360, 15360, hex.EncodeToString(make([]byte, 15360))})
	edit("ciphertext", full, "one polynomial", "ErrDegree", vectorEdit{50, 1, "81"},
		vectorEdit{last - 15363, 15363, ""})
	sk := func(name, err string, at, remove int, insert string) {
		edit("secret_key", 1, name, err, vectorEdit{at, remove, insert})
	}
	sk("cut", "ErrTruncated", key-1, 1, "")
	sk("trailing byte", "ErrMalformed", key, 0, "00")
	sk("version 1", "ErrVersion", 1, 1, "01")
	sk("a ciphertext's kind", "ErrKind", 2, 1, "01")
	sk("another set's parameter hash", "ErrParams", 5, 32, hashOf("edge13-d3"))
	sk("epoch of 33 bits", "ErrMalformed", 37, 1, "1b0000000100000000")
	sk("root of 31 bytes", "ErrLength", 38, 3, "581f")
	sk("coefficient 2", "ErrMalformed", key-1, 1, "ff")
	return out
}

func hashOf(set string) string {
	p, err := henc.Named(set)
	if err != nil {
		panic(err)
	}
	h := p.Hash()
	return hex.EncodeToString(h[:])
}

func TestKeyVectors(t *testing.T) {
	add, addVector := makeKey(t, "edge12-add", 3, []int{}, false)
	d1, d1Vector := makeKey(t, "edge12-d1", 1, []int{1, 2}, true)
	file := struct {
		Comment     string          `json:"comment"`
		Keys        []keyVector     `json:"keys"`
		Ciphertexts []decryptVector `json:"ciphertexts"`
		Refused     []refusedVector `json:"refused"`
	}{
		Comment: "Keys derived from a seed, ciphertexts under them with their contents, and edits of both that must " +
			"be refused (names of errors: docs/wire-ciphertext.md). Edits apply in order: delete so many bytes at an " +
			"offset, then insert. Values are slots, packed ones two a slot.",
		Keys: []keyVector{addVector, d1Vector},
	}
	file.Ciphertexts = makeDecryptions(t, []*secret.Key{add, d1})
	file.Refused = makeRefused(file.Ciphertexts, file.Keys)
	vectors.Check(t, "keys.json", file)

	for _, v := range file.Refused {
		var err error
		if v.What == "secret_key" {
			b := must(hex.DecodeString(file.Keys[v.Of].SecretKey))(t)
			_, err = secret.Unmarshal(context(t, file.Keys[v.Of].Params, 16), v.apply(b))
		} else {
			of := file.Ciphertexts[v.Of]
			b := must(hex.DecodeString(of.Ciphertext))(t)
			_, err = context(t, file.Keys[of.Key].Params, 16).UnmarshalCiphertext(v.apply(b))
		}
		if want := sentinels[v.Error]; want == nil || !errors.Is(err, want) {
			t.Errorf("%s, %s: %v, want %s", v.What, v.Name, err, v.Error)
		}
	}
}
