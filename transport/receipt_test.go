package transport

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
)

func sampleReceipt() Receipt {
	return Receipt{To: "board-7", Items: []ReceiptItem{
		{Object: [32]byte{1}, Outcome: Taken},
		{Object: [32]byte{2}, Outcome: Refused, Reason: "wrong_epoch", Detail: "epoch 2, want 3"},
		{Object: [32]byte{3}, Outcome: Partial, Total: 10, Have: []byte{0x05, 0x02}},
		{Object: [32]byte{4}, Outcome: Unknown},
		{Object: [32]byte{5}, Outcome: Working},
	}}
}

func sampleAsk() Ask {
	return Ask{Items: []AskItem{{Object: [32]byte{9}, Topic: "p/up/board-7/s", Total: 3, Size: 1000}}}
}

func TestReceiptRoundTrip(t *testing.T) {
	r := sampleReceipt()
	b, err := MarshalReceipt(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := UnmarshalReceipt(b)
	for i := range got.Items {
		if len(got.Items[i].Have) == 0 {
			got.Items[i].Have = nil
		}
	}
	if err != nil || !reflect.DeepEqual(*got, r) {
		t.Errorf("%+v, %v", got, err)
	}
	p := got.Items[2]
	for i := range 12 {
		if p.Has(i) != (i == 0 || i == 2 || i == 9) {
			t.Errorf("chunk %d: %v", i, p.Has(i))
		}
	}
	if p.Has(-1) {
		t.Error("chunk -1")
	}
	// By hand from docs/wire-format.md: [1, "board-7", [[h'01..', 1, "", 0, h'', ""]]].
	one, err := MarshalReceipt(Receipt{To: "board-7", Items: r.Items[:1]})
	want := "8302" + "67626f6172642d37" + "81" + "86" + "5820" + "01" + strings.Repeat("00", 31) + "01" + "60" + "00" +
		"40" + "60"
	if err != nil || hex.EncodeToString(one) != want {
		t.Errorf("got %x, want %s", one, want)
	}
	a := sampleAsk()
	b, err = MarshalAsk(a)
	if err != nil {
		t.Fatal(err)
	}
	back, err := UnmarshalAsk(b)
	if err != nil || !reflect.DeepEqual(*back, a) {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestReceiptRefuses(t *testing.T) {
	for name, change := range map[string]func(r *Receipt){
		"nobody":         func(r *Receipt) { r.To = "" },
		"no items":       func(r *Receipt) { r.Items = nil },
		"outcome":        func(r *Receipt) { r.Items[0].Outcome = 6 },
		"no reason":      func(r *Receipt) { r.Items[1].Reason = "" },
		"reason, taken":  func(r *Receipt) { r.Items[0].Reason = "x" },
		"reason text":    func(r *Receipt) { r.Items[1].Reason = "Bad reason" },
		"short bitmap":   func(r *Receipt) { r.Items[2].Have = []byte{1} },
		"bits past end":  func(r *Receipt) { r.Items[2].Have = []byte{0, 0x80} },
		"whole, partial": func(r *Receipt) { r.Items[2].Total, r.Items[2].Have = 1, []byte{0} },
		"chunks, taken":  func(r *Receipt) { r.Items[0].Total = 2 },
		"detail, taken":  func(r *Receipt) { r.Items[0].Detail = "x" },
		"long detail":    func(r *Receipt) { r.Items[1].Detail = strings.Repeat("x", MaxDetail+1) },
		"control detail": func(r *Receipt) { r.Items[1].Detail = "a\x1b[2J" },
		"too many":       func(r *Receipt) { r.Items = make([]ReceiptItem, MaxReceiptItems+1) },
	} {
		r := sampleReceipt()
		change(&r)
		if _, err := MarshalReceipt(r); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(a *Ask){
		"topic":    func(a *Ask) { a.Items[0].Topic = "p/+/x" },
		"no topic": func(a *Ask) { a.Items[0].Topic = "" },
		"chunks":   func(a *Ask) { a.Items[0].Total = 0 },
		"size":     func(a *Ask) { a.Items[0].Size = 0 },
		"name":     func(a *Ask) { a.To = "a/b" },
		"no items": func(a *Ask) { a.Items = nil },
	} {
		a := sampleAsk()
		change(&a)
		if _, err := MarshalAsk(a); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Receipts of the version before, which had no detail, are refused by name.
func TestReceiptVersion(t *testing.T) {
	for text, want := range map[string]error{
		"8301" + "67626f6172642d37" + "81" + "85" + "5820" + strings.Repeat("00", 32) + "01" + "60" + "00" +
			"40": ErrDowngraded,
		"8303" + "67626f6172642d37" + "80": ErrUnsupportedVersion,
		"80":                               ErrMalformed,
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := UnmarshalReceipt(b); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

func TestDetail(t *testing.T) {
	if got := Detail("a\x1b[2J\n\xffµ"); got != "a?[2J??µ" {
		t.Errorf("%q", got)
	}
	got := Detail(strings.Repeat("µ", MaxDetail))
	if len(got) > MaxDetail || !plainText(got, MaxDetail) || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func FuzzReceipt(f *testing.F) {
	b, err := MarshalReceipt(sampleReceipt())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	a, err := MarshalAsk(sampleAsk())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := UnmarshalReceipt(b); err != nil {
			refused(t, err)
		} else if again, err := MarshalReceipt(*r); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("receipt: %x, %v", again, err)
		}
		if a, err := UnmarshalAsk(b); err != nil {
			refused(t, err)
		} else if again, err := MarshalAsk(*a); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("ask: %x, %v", again, err)
		}
	})
}

func TestWhole(t *testing.T) {
	sealed := testrig.Pattern(500)
	payload, err := Whole(sealed, 0)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ReadWhole(payload, 0); err != nil || !bytes.Equal(back, sealed) {
		t.Errorf("%v", err)
	}
	if _, err := Whole(testrig.Pattern(5000), 1024); !errors.Is(err, ErrTooLarge) {
		t.Errorf("two chunks: %v", err)
	}
	pieces, err := Split(testrig.Pattern(5000), 1024)
	if err != nil {
		t.Fatal(err)
	}
	piece, err := pieces[0].Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadWhole(piece, 0); !errors.Is(err, ErrMalformed) {
		t.Errorf("a piece: %v", err)
	}
	payload[len(payload)-1] ^= 1
	if _, err := ReadWhole(payload, 0); !errors.Is(err, ErrHash) {
		t.Errorf("altered: %v", err)
	}
}

// A receiver tells what it has, forgets what was cut in another way, and takes a
// finished object again when it is told to.
func TestProgress(t *testing.T) {
	now := time.Unix(0, 0)
	got := 0
	r := newReceiver(Limits{Now: func() time.Time { return now }, MaxAge: time.Minute},
		func(string, []byte) error { got++; return nil })
	sealed := testrig.Pattern(9000)
	pieces, err := Split(sealed, 1024)
	if err != nil {
		t.Fatal(err)
	}
	id, total := ObjectID(sealed), len(pieces)
	feed := func(i int) {
		t.Helper()
		b, err := pieces[i].Marshal()
		if err == nil {
			err = r.Feed("t", b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if it := r.Progress("t", id, total, len(sealed)); it.Outcome != Unknown {
		t.Errorf("%+v", it)
	}
	feed(0)
	feed(3)
	now = now.Add(40 * time.Second)
	it := r.Progress("t", id, total, len(sealed))
	if it.Outcome != Partial || it.Total != total || !it.Has(0) || it.Has(1) || !it.Has(3) {
		t.Errorf("%+v", it)
	}
	if _, err := MarshalReceipt(Receipt{To: "x", Items: []ReceiptItem{it}}); err != nil {
		t.Error(err)
	}
	now = now.Add(40 * time.Second) // asking kept it
	r.Expire()
	for _, i := range []int{1, 2, 4, 5, 6, 7, 8} {
		feed(i)
	}
	for i := 9; i < total; i++ {
		feed(i)
	}
	if got != 1 {
		t.Fatalf("%d objects", got)
	}
	if it := r.Progress("t", id, total, len(sealed)); it.Outcome != Working {
		t.Errorf("%+v", it)
	}
	r.Forget("t", id)
	feed(0)
	if it := r.Progress("t", id, total-1, len(sealed)); it.Outcome != Unknown {
		t.Errorf("cut in another way: %+v", it)
	}
	if objects, bytes := r.pending(); objects != 0 || bytes != 0 {
		t.Errorf("%d objects, %d bytes are left", objects, bytes)
	}
}
