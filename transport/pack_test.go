package transport

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// testPack returns n results that go together.
func testPack(n int) []Meta {
	var all []Meta
	for i := range n {
		m := testResult(uint64(i + 1))
		m.Post = &Post{A: 0.25, B: -3.5, Sqrt: i%3 == 0, Slot: 7 * i, Count: 1, Bound: 1e-3}
		m.Start, m.End = int64(100*i-5), int64(100*i+7)
		m.Inputs = [][32]byte{{byte(i), 1}, {byte(i), 2}}
		switch i % 3 {
		case 1:
			m.Program, m.Subject, m.Inputs = "mean", fmt.Sprintf("board-%d", i), m.Inputs[:1]
		case 2:
			m.Present = []uint32{17, uint32(i)}
		}
		all = append(all, m)
	}
	return all
}

func TestPackRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 3, 100, MaxPacked} {
		want, ct := testPack(n), []byte("ciphertext")
		h, body, err := MarshalPack(want, ct)
		if err != nil {
			t.Fatal(err)
		}
		h.Sequence = 9
		key := testKey(t, "cloud-1")
		sealed, err := Seal(h, body, key)
		if err != nil {
			t.Fatal(err)
		}
		obj, err := Open(sealed, testVerifier(t, testOptions(t)))
		if err != nil {
			t.Fatal(err)
		}
		got, gotCt, err := obj.Meta.Results(obj.Body)
		if err != nil || !reflect.DeepEqual(got, want) || !bytes.Equal(gotCt, ct) {
			t.Errorf("%d results: %v, %q, %+v", n, err, gotCt, got)
		}
		if peeked, err := PeekResults(sealed); err != nil || !reflect.DeepEqual(peeked, want) {
			t.Errorf("peeked: %v", err)
		}
		if obj.Meta.Start != -5 || obj.Meta.End != int64(100*(n-1)+7) || obj.Meta.Packed != uint32(n) {
			t.Errorf("header %+v", obj.Meta)
		}
	}
	m := testResult(1)
	got, body, err := m.Results([]byte("body"))
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], m) || string(body) != "body" {
		t.Errorf("a result alone: %v, %q, %v", got, body, err)
	}
}

// TestPackOfAnyTime: the ends of time survive.
func TestPackOfAnyTime(t *testing.T) {
	all := testPack(2)
	all[0].Start, all[0].End = math.MinInt64, math.MaxInt64
	all[1].Start, all[1].End = math.MaxInt64, math.MaxInt64
	h, body, err := MarshalPack(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := h.Results(body); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%v, %+v", err, got)
	}
}

// TestPackSize: what a pack says of a result takes about as much room as its input's id and
// its times.
func TestPackSize(t *testing.T) {
	all := testPack(MaxPacked)
	for i := range all {
		m := &all[i]
		m.Program, m.Subject, m.Present, m.Inputs = "mean", fmt.Sprintf("board-%03d", i), nil, m.Inputs[:1]
		m.Post.Sqrt = false
		m.Start, m.End = 1_700_000_000_000_000_000+int64(i), 1_700_000_010_000_000_000+int64(i)
	}
	_, body, err := MarshalPack(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	if each := len(body) / MaxPacked; each > 80 {
		t.Errorf("%d bytes for each result", each)
	}
}

func TestPackRefusesToMarshal(t *testing.T) {
	for name, change := range map[string]func(all []Meta){
		"one slot twice":      func(all []Meta) { all[2].Post.Slot = all[0].Post.Slot },
		"one number twice":    func(all []Meta) { all[2].Sequence = all[0].Sequence },
		"several values":      func(all []Meta) { all[1].Post.Count = 2 },
		"no post":             func(all []Meta) { all[1].Post = nil },
		"no inputs":           func(all []Meta) { all[1].Inputs = nil },
		"another evaluator":   func(all []Meta) { all[1].Device = "cloud-2" },
		"another key":         func(all []Meta) { all[1].KeyID[0]++ },
		"another epoch":       func(all []Meta) { all[1].KeyEpoch++ },
		"another boot":        func(all []Meta) { all[1].BootEpoch++ },
		"another scale":       func(all []Meta) { all[1].Scale *= 2 },
		"another level":       func(all []Meta) { all[1].Level++ },
		"other parameters":    func(all []Meta) { all[1].Params[0]++ },
		"a reading":           func(all []Meta) { all[1] = testReading(1) },
		"a stream":            func(all []Meta) { all[1].Stream = "s" },
		"an impossible bound": func(all []Meta) { all[1].Post.Bound = -1 },
		"a pack": func(all []Meta) {
			all[1], _, _ = MarshalPack(testPack(2), nil)
		},
	} {
		all := testPack(3)
		change(all)
		if _, _, err := MarshalPack(all, nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, n := range []int{0, MaxPacked + 1} {
		if _, _, err := MarshalPack(testPack(n), nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d results: %v", n, err)
		}
	}
}

// TestPackRefuses: a list or header that MarshalPack cannot have made is refused.
func TestPackRefuses(t *testing.T) {
	h, body, err := MarshalPack(testPack(3), []byte("ciphertext"))
	if err != nil {
		t.Fatal(err)
	}
	list, ct, err := cutPack(body)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(w *wirePack)) []byte {
		var w wirePack
		if err := cbor.Unmarshal(list, &w); err != nil {
			t.Fatal(err)
		}
		change(&w)
		b, err := wireEnc.Marshal(&w)
		if err != nil {
			t.Fatal(err)
		}
		out := append(appendHead([]byte{0x82}, majorBytes, len(b)), b...)
		return append(appendHead(out, majorBytes, len(ct)), ct...)
	}
	if _, _, err := h.Results(with(func(*wirePack) {})); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"empty":           {},
		"no array":        {0x40},
		"cut":             body[:len(body)-1],
		"more":            append(bytes.Clone(body), 0),
		"a long head":     append([]byte{0x82, 0x58, 0x05}, body[2:]...),
		"an unknown form": with(func(w *wirePack) { w.Entries[0].Form = 9 }),
		"an unused form":  with(func(w *wirePack) { w.Forms = append(w.Forms, w.Forms[0]) }),
		"forms in disarray": with(func(w *wirePack) {
			w.Forms[0], w.Forms[1] = w.Forms[1], w.Forms[0]
			w.Entries[0].Form, w.Entries[1].Form, w.Entries[2].Form = 1, 0, 2
		}),
		"a short hash":     with(func(w *wirePack) { w.Forms[0].Layout = w.Forms[0].Layout[1:] }),
		"a bad name":       with(func(w *wirePack) { w.Forms[0].Program = "a/b" }),
		"half an input":    with(func(w *wirePack) { w.Entries[0].Inputs = w.Entries[0].Inputs[:40] }),
		"no input":         with(func(w *wirePack) { w.Entries[0].Inputs = []byte{} }),
		"a distant slot":   with(func(w *wirePack) { w.Entries[0].Slot = MaxSlots }),
		"one slot twice":   with(func(w *wirePack) { w.Entries[0].Slot = w.Entries[1].Slot }),
		"one number twice": with(func(w *wirePack) { w.Entries[0].Sequence = w.Entries[2].Sequence }),
		"another start":    with(func(w *wirePack) { w.Entries[0].After = 1 }),
		"an overflow":      with(func(w *wirePack) { w.Entries[1].After = math.MaxUint64 }),
		"a long window":    with(func(w *wirePack) { w.Entries[1].Lasts = math.MaxUint64 }),
		"fewer results":    with(func(w *wirePack) { w.Entries = w.Entries[:2] }),
		"many samples":     with(func(w *wirePack) { w.Entries[0].Samples = MaxSamples + 1 }),
		"samples of none":  with(func(w *wirePack) { w.Entries[2].Present = w.Entries[2].Present[:1] }),
	} {
		if _, _, err := h.Results(bad); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTruncated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(m *Meta){
		"start": func(m *Meta) { m.Start-- }, "end": func(m *Meta) { m.End++ }, "count": func(m *Meta) { m.Packed++ },
	} {
		m := h
		change(&m)
		if _, _, err := m.Results(body); !errors.Is(err, ErrMalformed) {
			t.Errorf("header with another %s: %v", name, err)
		}
	}
	for name, change := range map[string]func(m *Meta){
		"program": func(m *Meta) { m.Program = "mean" }, "kind": func(m *Meta) { m.Kind = KindStatus },
		"many": func(m *Meta) { m.Packed = MaxPacked + 1 }, "subject": func(m *Meta) { m.Subject = "a" },
		"layout": func(m *Meta) { m.Layout[3] = 1 }, "inputs": func(m *Meta) { m.Inputs = [][32]byte{{1}} },
		"post": func(m *Meta) { m.Post = testResult(1).Post }, "samples": func(m *Meta) { m.Samples = 1 },
	} {
		m := h
		change(&m)
		if err := m.Validate(); !errors.Is(err, ErrMalformed) {
			t.Errorf("header with %s: %v", name, err)
		}
	}
}

func FuzzPack(f *testing.F) {
	for _, n := range []int{1, 3} {
		_, body, err := MarshalPack(testPack(n), []byte("ciphertext"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, uint32(n))
	}
	f.Fuzz(func(t *testing.T, body []byte, n uint32) {
		m, _, err := MarshalPack(testPack(2), nil)
		if err != nil {
			t.Fatal(err)
		}
		m.Packed = n%MaxPacked + 1
		results, ct, err := m.Results(body)
		if err != nil {
			refused(t, err)
			return
		}
		again, made, err := MarshalPack(results, ct)
		if err != nil || !bytes.Equal(made, body) || again.Packed != m.Packed {
			t.Fatalf("not canonical: %v", err)
		}
	})
}
