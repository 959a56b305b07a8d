package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// compactStream is a stream of one channel whose full window has so many samples.
func compactStream(samples, precision int) config.Stream {
	s := config.Stream{Name: strings.Repeat("s", transport.MaxName), Mode: config.ModeCompact, Precision: precision,
		Params: "boot16", Interval: time.Second, Window: config.Window{Samples: samples},
		Channels: []config.Channel{{Name: "c", Unit: "degC", Range: [2]float64{-40, 125}}}}
	s.SetDefaults()
	return s
}

// compactKeys loads a board's key that no file has.
func compactKeys(t *testing.T, s config.Stream) *Keys {
	t.Helper()
	signing, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	k := &Keys{}
	t.Cleanup(k.Wipe)
	params, err := henc.Named(s.Params)
	if err != nil {
		t.Fatal(err)
	}
	board, err := k.MakeBoard(params)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config.Agent{Device: "board1", Streams: []config.Stream{s}}
	k.Load(cfg, Given{Board: board, Signing: signing}, func(path string, err error) { t.Errorf("%s: %v", path, err) })
	if k.board == nil {
		t.Fatal("no key of compact windows")
	}
	return k
}

// window has samples that go through the range.
func window(samples int) *source.Window {
	start := time.Unix(1_790_000_000, 0)
	w := &source.Window{Samples: samples, Start: start, End: start.Add(time.Hour), Values: [][]float64{{}}}
	for i := range samples {
		w.Values[0] = append(w.Values[0], -40+165*float64(i%16)/15)
	}
	return w
}

func sealed(t *testing.T, k *Keys, s config.Stream, w *source.Window, id Identity) *Sealed {
	t.Helper()
	out, err := k.Seal(&Stream{Config: s, Scale: compact.Scale(), Layout: s.LayoutHash()}, w, id, testrig.NewClock())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCompactSizes: a window of 64 readings is one message of at most 350 bytes at 12 bits and 400 at 16, with the
// longest names and numbers of years; and any number of samples, one included, is a window.
func TestCompactSizes(t *testing.T) {
	id := Identity{Device: strings.Repeat("d", transport.MaxName), Boot: 1_800_000_000, Sequence: math.MaxUint32}
	for precision, most := range map[int]int{12: 350, 16: 400} {
		s := compactStream(64, precision)
		k := compactKeys(t, s)
		for _, samples := range []int{64, 63, 1} {
			out := sealed(t, k, s, window(samples), id)
			chunks, err := transport.Split(out.Object, transport.MinChunkSize)
			if err != nil || len(chunks) != 1 {
				t.Fatalf("%d messages: %v", len(chunks), err)
			}
			payload, err := chunks[0].Payload()
			if err != nil || len(payload) > most || !bytes.Equal(payload, out.Object) {
				t.Errorf("%d bits, %d samples: a message of %d bytes, at most %d; %v", precision, samples, len(payload),
					most, err)
			}
			if out.Body != compact.Bytes(64, compact.Precision(precision)) {
				t.Errorf("%d bits, %d samples: %d bytes", precision, samples, out.Body)
			}
		}
		large := compactStream(config.MaxCompact, precision)
		for _, samples := range []int{config.MaxCompact, 3} {
			out := sealed(t, k, large, window(samples), id)
			if want := compact.Bytes(config.MaxCompact, compact.Precision(precision)); out.Body != want ||
				int(out.Meta.Samples) != samples {
				t.Errorf("%d samples: %d bytes, want %d; %d in the header", samples, out.Body, want, out.Meta.Samples)
			}
		}
	}
}

// TestCompactHeader: the signature binds the whole header, and the window is bound to it.
func TestCompactHeader(t *testing.T) {
	s := compactStream(64, 16)
	k := compactKeys(t, s)
	out := sealed(t, k, s, window(5), Identity{Device: "board1", Boot: 7, Sequence: 8})
	p, err := henc.Named("boot16")
	if err != nil {
		t.Fatal(err)
	}
	want := transport.Meta{Kind: transport.KindReading, Device: "board1", Stream: s.Name, KeyEpoch: 1, BootEpoch: 7,
		Sequence: 8, Params: p.Hash(), Layout: s.LayoutHash(), Scale: compact.Scale(), Samples: 5,
		Start: 1_790_000_000e9, End: 1_790_003_600e9}
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{"board1": k.Signing.Public()})
	if err != nil {
		t.Fatal(err)
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust, AnyParams: true, AnyKey: true})
	if err != nil {
		t.Fatal(err)
	}
	o, err := v.OpenShort(want, out.Object)
	if err != nil || fmt.Sprint(o.Meta) != fmt.Sprint(want) || fmt.Sprint(out.Meta) != fmt.Sprint(want) {
		t.Errorf("%v\n%+v\n%+v, want\n%+v", err, o, out.Meta, want)
	}
}

// TestCompactCopies: two boards with one key and state whose kernels draw the same bytes send other nonces for other
// readings, sequences and boots.
func TestCompactCopies(t *testing.T) {
	s := compactStream(64, 12)
	k := compactKeys(t, s)
	k.newSeed = func(hedge ...[]byte) (*henc.Seed, error) {
		seed := henc.Seed(sha256.Sum256(bytes.Join(hedge, []byte{0})))
		return &seed, nil
	}
	set, err := compact.Named("compact12")
	if err != nil {
		t.Fatal(err)
	}
	nonce := func(samples int, id Identity) [8]byte {
		t.Helper()
		out := sealed(t, k, s, window(samples), id)
		f, err := compact.Unmarshal(set, bodyOf(t, k, out))
		if err != nil {
			t.Fatal(err)
		}
		return f.Nonce
	}
	id := Identity{Device: "board1", Boot: 7, Sequence: 8, BootID: []byte("boot")}
	later, other := id, id
	later.Sequence++
	other.Boot++
	first := nonce(64, id)
	if nonce(64, id) != first {
		t.Fatal("equal windows of equal boards differ: the test does not test what it says")
	}
	seen := [][8]byte{first}
	for _, n := range [][8]byte{nonce(63, id), nonce(64, later), nonce(64, other)} {
		if slices.Contains(seen, n) {
			t.Errorf("the nonce %x repeats", n)
		}
		seen = append(seen, n)
	}
}

// bodyOf returns the window in a sealed object.
func bodyOf(t *testing.T, k *Keys, out *Sealed) []byte {
	t.Helper()
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{out.Meta.Device: k.Signing.Public()})
	if err != nil {
		t.Fatal(err)
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust, AnyParams: true, AnyKey: true,
		NoReplay: true})
	if err != nil {
		t.Fatal(err)
	}
	o, err := v.OpenShort(out.Meta, out.Object)
	if err != nil {
		t.Fatal(err)
	}
	return o.Body
}

// TestCompactCannotSeal: what has no compact form, or no key, is an error.
func TestCompactCannotSeal(t *testing.T) {
	s := compactStream(64, 12)
	k := compactKeys(t, s)
	stream := &Stream{Config: s, Scale: compact.Scale(), Layout: s.LayoutHash()}
	old := window(3)
	old.Start, old.End = time.Unix(-5, 0), time.Unix(-1, 0)
	id := Identity{Device: "board1", Boot: 1}
	if _, err := k.Seal(stream, old, id, testrig.NewClock()); !errors.Is(err, transport.ErrMalformed) {
		t.Errorf("a window before 1970: %v", err)
	}
	if _, err := (&Keys{}).Seal(stream, window(3), id, testrig.NewClock()); err == nil {
		t.Error("without a key a window was sealed")
	}
	k.Wipe()
	if _, err := k.Seal(stream, window(3), id, testrig.NewClock()); err == nil {
		t.Error("with a wiped key a window was sealed")
	}
}
