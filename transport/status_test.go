package transport

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"reflect"
	"testing"
)

// A status of a sender that has no certificate is what it was before there was the field, byte for byte.
func TestStatusCertificateEnd(t *testing.T) {
	old := Status{Online: true, Version: "1.2", Since: 5}
	form := bytes.Join([][]byte{{0xa4, 0, 0xf5, 1}, cborText("1.2"), {3, 5, 4, 2}}, nil)
	b, err := MarshalStatus(old)
	if err != nil || !bytes.Equal(b, form) {
		t.Fatalf("%x, %v, want %x", b, err, form)
	}
	if s, err := UnmarshalStatus(form); err != nil || !reflect.DeepEqual(*s, old) {
		t.Errorf("%+v, %v", s, err)
	}
	shown := old
	shown.CertificateEnd = 1_800_000_000_000_000_000
	if b, err = MarshalStatus(shown); err != nil {
		t.Fatal(err)
	}
	if s, err := UnmarshalStatus(b); err != nil || !reflect.DeepEqual(*s, shown) {
		t.Errorf("%+v, %v", s, err)
	}
	shown.CertificateEnd = -1
	if _, err := MarshalStatus(shown); !errors.Is(err, ErrMalformed) {
		t.Errorf("a certificate that ended before 1970: %v", err)
	}
}

func TestOpenStatus(t *testing.T) {
	key, other := testKey(t, "a"), testKey(t, "b")
	trust, err := TrustKeys(map[string]ed25519.PublicKey{"a": key.Public(), "b": other.Public()})
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewStatusVerifier(trust, "")
	if err != nil {
		t.Fatal(err)
	}
	body := must(MarshalStatus(Status{Online: true, Version: "1.2"}))
	sealed := func(device string, key *SigningKey, body []byte) []byte {
		return must(Seal(Meta{Kind: KindStatus, Device: device, BootEpoch: 1, Sequence: 1}, body, key))
	}
	good := sealed("a", key, body)
	for name, x := range map[string]struct {
		topic   string
		payload []byte
		want    error
	}{
		"good":                  {"hencedge/v1/st/a", must(Whole(good, 0)), nil},
		"of another device":     {"hencedge/v1/st/b", must(Whole(good, 0)), ErrWrongTopic},
		"signed by another one": {"hencedge/v1/st/a", must(Whole(sealed("a", other, body), 0)), ErrUnknownSigner},
		"no status":             {"hencedge/v1/st/a", must(Whole(sealed("a", key, []byte{1}), 0)), ErrMalformed},
		"no object":             {"hencedge/v1/st/a", []byte("x"), ErrTruncated},
	} {
		m, err := OpenStatus(v, Delivery{Topic: x.topic, Payload: x.payload})
		if !errors.Is(err, x.want) || m == nil || err == nil && (!m.Online || m.Version != "1.2") {
			t.Errorf("%s: %+v, %v, want %v", name, m, err, x.want)
		}
		if has := m != nil && m.Sealed != nil; has != (name != "no object") {
			t.Errorf("%s: the sealed object is there: %t", name, has)
		}
	}
}

// The will of a connection has a smaller number than its birth message, and comes after it.
func TestStatusOrder(t *testing.T) {
	var o StatusOrder
	for i, x := range []struct {
		boot, sequence uint64
		online, want   bool
	}{
		{3, 0, true, true},
		{3, 5, true, true},   // of a connection with will 4
		{3, 3, true, false},  // somebody kept it
		{3, 0, false, false}, // so too, a will of an earlier connection
		{3, 4, false, true},
		{3, 5, true, true}, // again
		{3, 9, true, true},
		{3, 4, false, false},
		{3, 8, false, true},
		{3, 10, false, true}, // an orderly stop
		{3, 9, true, false},
		{2, 99, true, false}, // before a restart
		{4, 1, true, true},
		{4, 0, false, true},
		{3, 11, false, false},
	} {
		m := &StatusMessage{Status: &Status{Online: x.online},
			Object: &Object{Meta: Meta{BootEpoch: x.boot, Sequence: x.sequence}}}
		if got := o.Take(m); got != x.want {
			t.Errorf("status %d, %+v: taken %t", i, x, got)
		}
	}
	if o.Newest() != 1 {
		t.Errorf("the newest is %d", o.Newest())
	}
}
