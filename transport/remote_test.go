package transport

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func operatorKey(t testing.TB, b byte) *SigningKey {
	t.Helper()
	k, err := SigningKeyFromSeed(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRemoteConfig(t *testing.T) {
	op := operatorKey(t, 1)
	want := RemoteConfig{Device: "board1", Version: 7, Text: []byte("log: {level: debug}\n")}
	sealed, err := SealRemote(want, op)
	if err != nil {
		t.Fatal(err)
	}
	got, err := OpenRemote(sealed, op.Public(), "board1")
	if err != nil || got.Device != want.Device || got.Version != 7 || !bytes.Equal(got.Text, want.Text) {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, err := SealRemote(want, op); err != nil || !bytes.Equal(again, sealed) {
		t.Errorf("the same input gives other bytes: %v", err)
	}
	limited := want
	limited.Until = 1795300000
	if b, err := SealRemote(limited, op); err != nil || len(b) != len(sealed)+6 {
		t.Errorf("with an end: %d bytes instead of %d, %v", len(b), len(sealed), err)
	} else if got, err := OpenRemote(b, op.Public(), "board1"); err != nil || got.Until != limited.Until {
		t.Errorf("%+v, %v", got, err)
	}
	flipped := func(i int) []byte { b := bytes.Clone(sealed); b[i] ^= 1; return b }
	// A status of the operator's key is signed by it too, in another context.
	status, err := Seal(Meta{Kind: KindStatus, Device: "board1", BootEpoch: 1}, []byte("x"), op)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		sealed []byte
		key    *SigningKey
		device string
		want   error
	}{
		"another key":     {sealed, operatorKey(t, 2), "board1", ErrUnknownSigner},
		"another device":  {sealed, op, "board2", ErrUnknownSigner},
		"payload flipped": {flipped(40), op, "board1", ErrSignature},
		"signature":       {flipped(len(sealed) - 1), op, "board1", ErrSignature},
		"another context": {envelopeOf(t, status), op, "board1", ErrSignature},
		"too large":       {make([]byte, maxRemote+1), op, "board1", ErrTooLarge},
	} {
		if _, err := OpenRemote(c.sealed, c.key.Public(), c.device); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// The signature's length written in two bytes instead of one.
	i := len(sealed) - 66
	longer := append(append(bytes.Clone(sealed[:i]), 0x59, 0x00, 0x40), sealed[i+2:]...)
	if _, err := OpenRemote(longer, op.Public(), "board1"); !errors.Is(err, ErrMalformed) {
		t.Errorf("another encoding of the same message: %v", err)
	}
	for n := range len(sealed) {
		if _, err := OpenRemote(sealed[:n], op.Public(), "board1"); err == nil {
			t.Fatalf("%d of %d bytes were accepted", n, len(sealed))
		}
	}
	if _, err := OpenRemote(append(bytes.Clone(sealed), 0), op.Public(), "board1"); err == nil {
		t.Error("bytes after the end were accepted")
	}
	for _, bad := range []RemoteConfig{{"", 1, []byte("x"), 0}, {"a/b", 1, []byte("x"), 0}, {"b", 0, []byte("x"), 0},
		{"b", 1, nil, 0}, {"b", 1, []byte("x"), -1},
		{"b", 1, make([]byte, MaxRemoteText+1), 0}} {
		if _, err := SealRemote(bad, op); err == nil {
			t.Errorf("sealed %q %d with %d bytes", bad.Device, bad.Version, len(bad.Text))
		}
	}
	// The other way: a configuration is no object.
	if _, err := PeekMeta(sealed); err == nil {
		t.Error("a configuration was taken for an object")
	}
	if got := RemoteTopic("hencedge/v1", "board1"); !strings.HasSuffix(got, "/cfg/board1") {
		t.Error(got)
	}
}

func FuzzOpenRemote(f *testing.F) {
	op := operatorKey(f, 1)
	sealed, err := SealRemote(RemoteConfig{Device: "b", Version: 1, Text: []byte("log: {}")}, op)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte{0xd2, 0x84})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := OpenRemote(b, op.Public(), "b")
		if err == nil && (!bytes.Equal(b, sealed) || r.Device != "b") {
			t.Errorf("forged: %x", b)
		}
	})
}
