package henc

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/wire"
	"github.com/hencedge/hencedge/internal/vectors"
)

type ciphertextVector struct {
	Params          string
	Level           int
	Scale           float64
	N2              int
	Seeded          bool
	C0Seed          string   `json:"c0_seed"`
	C0Label         uint32   `json:"c0_label"`
	C1Seed          string   `json:"c1_seed"`
	C1Label         uint32   `json:"c1_label"`
	ParamsHash      string   `json:"params_hash"`
	Preamble        string   `json:"preamble"`
	C0FirstResidues []uint32 `json:"c0_first_residues"`
	C0FirstBytes    string   `json:"c0_first_bytes"`
	C0SHA256        string   `json:"c0_sha256"`
	C1SHA256        string   `json:"c1_sha256"`
	Length          int
	SHA256          string
}

type vectorFile struct {
	Packing []struct {
		Q        uint32
		Residues []uint32
		Bytes    string
	}
	Ciphertexts []ciphertextVector
}

func readVectors(t testing.TB) (f vectorFile) {
	t.Helper()
	vectors.Read(t, "ciphertexts.json", &f)
	if len(f.Packing) == 0 || len(f.Ciphertexts) == 0 {
		t.Fatal("no vectors")
	}
	return f
}

// build makes the vector's ciphertext in a context of the vector's n2.
func (v *ciphertextVector) build(t testing.TB) (*Context, *Ciphertext) {
	t.Helper()
	c := mustContext(t, mustNamed(t, v.Params), WithN2(v.N2))
	ct, err := c.NewCiphertext(v.Level, v.Scale)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range []struct {
		seed  string
		label uint32
	}{{v.C0Seed, v.C0Label}, {v.C1Seed, v.C1Label}} {
		seed, err := hex.DecodeString(s.seed)
		if err != nil || len(seed) != 32 {
			t.Fatalf("seed %q", s.seed)
		}
		poly, err := ct.Value.Slice(i, i+1, 0, len(ct.Value.Limbs()))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Ring().SampleUniform(poly, (*[32]byte)(seed), s.label); err != nil {
			t.Fatal(err)
		}
		if i == 1 && v.Seeded {
			ct.Seed = (*[32]byte)(seed)
		}
	}
	return c, ct
}

func download(t testing.TB, c *Context, ct *Ciphertext) (c0, c1 []uint32) {
	t.Helper()
	x := make([]uint32, ct.Value.Len())
	if err := c.Ring().Download(x, ct.Value); err != nil {
		t.Fatal(err)
	}
	return x[:len(x)/2], x[len(x)/2:]
}

func wordsHash(x []uint32) string {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// TestWireDocument keeps the numbers in docs/wire-ciphertext.md true.
func TestWireDocument(t *testing.T) {
	b, err := os.ReadFile("../docs/wire-ciphertext.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	for name, hash := range hashVectors {
		if row := fmt.Sprintf("| %s | `%s` |", name, hash); !strings.Contains(doc, row) {
			t.Errorf("the document lacks %s", row)
		}
	}
	f := readVectors(t)
	for _, want := range []string{f.Ciphertexts[1].SHA256, f.Ciphertexts[1].C0FirstBytes[:24],
		f.Packing[2].Bytes[:16]} {
		if !strings.Contains(doc, want) {
			t.Errorf("the document lacks %s", want)
		}
	}
}

func TestPackingVectors(t *testing.T) {
	for _, v := range readVectors(t).Packing {
		packed := make([]byte, cutrantt.PackedBytes(len(v.Residues), v.Q))
		wire.PackInto(packed, v.Residues, v.Q)
		if got := hex.EncodeToString(packed); got != v.Bytes {
			t.Errorf("modulo %d: %s, want %s", v.Q, got, v.Bytes)
		}
		b, err := hex.DecodeString(v.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]uint32, len(v.Residues))
		if err := wire.Unpack(got, b, v.Q); err != nil || !slices.Equal(got, v.Residues) {
			t.Errorf("modulo %d: %v %v", v.Q, got, err)
		}
	}
}

func TestCiphertextVectors(t *testing.T) {
	for _, v := range readVectors(t).Ciphertexts {
		name := fmt.Sprintf("%s level %d n2 %d seeded %v", v.Params, v.Level, v.N2, v.Seeded)
		c, ct := v.build(t)
		c0, c1 := download(t, c, ct)
		if !slices.Equal(c0[:len(v.C0FirstResidues)], v.C0FirstResidues) || wordsHash(c0) != v.C0SHA256 ||
			wordsHash(c1) != v.C1SHA256 {
			t.Fatalf("%s: the residues differ from the vector's", name)
		}
		b, err := c.MarshalCiphertext(ct)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		preamble, first := len(v.Preamble)/2, len(v.C0FirstBytes)/2
		if len(b) < preamble+4+first {
			t.Fatalf("%s: %d bytes", name, len(b))
		}
		// The preamble ends with the head of c0's byte string.
		if hex.EncodeToString(b[:preamble]) != v.Preamble ||
			hex.EncodeToString(b[preamble:preamble+first]) != v.C0FirstBytes {
			t.Errorf("%s: begins with %x", name, b[:preamble+first])
		}
		if len(b) != v.Length || fmt.Sprintf("%x", sha256.Sum256(b)) != v.SHA256 {
			t.Errorf("%s: %d bytes, SHA-256 %x", name, len(b), sha256.Sum256(b))
		}
		h, err := PeekCiphertext(b)
		if err != nil || hex.EncodeToString(h.Params[:]) != v.ParamsHash || h.Level != v.Level || h.Scale != v.Scale ||
			int(h.Domain.N2) != v.N2 || !h.Domain.NTT || h.Seeded != v.Seeded {
			t.Errorf("%s: header %+v, %v", name, h, err)
		}
		got, err := c.UnmarshalCiphertext(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		g0, g1 := download(t, c, got)
		if !slices.Equal(g0, c0) || !slices.Equal(g1, c1) || got.Level != v.Level || got.Scale != v.Scale ||
			(got.Seed != nil) != v.Seeded {
			t.Errorf("%s: changed on the way", name)
		}
		if got.Seed != nil && *got.Seed != *ct.Seed {
			t.Errorf("%s: another seed", name)
		}
	}
}
