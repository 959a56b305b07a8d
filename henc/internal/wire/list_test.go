package wire

import (
	"bytes"
	"errors"
	"testing"
)

// TestList: heads are the shortest ones, and only those are read.
func TestList(t *testing.T) {
	for _, tt := range []struct {
		n    int
		head []byte
	}{
		{0, []byte{0x80}}, {23, []byte{0x97}}, {24, []byte{0x98, 24}}, {255, []byte{0x98, 255}},
		{256, []byte{0x99, 1, 0}}, {65535, []byte{0x99, 255, 255}},
	} {
		var w Writer
		w.List(tt.n)
		if b, err := w.Bytes(); err != nil || !bytes.Equal(b, tt.head) {
			t.Errorf("list of %d: % x, %v, want % x", tt.n, b, err, tt.head)
		}
		r := &Reader{b: tt.head}
		if n := r.List(65535); n != tt.n || r.Close() != nil {
			t.Errorf("% x: %d, %v", tt.head, n, r.Err())
		}
	}
	for _, tt := range []struct {
		b    []byte
		want error
	}{
		{nil, ErrTruncated}, {[]byte{0x98}, ErrTruncated}, {[]byte{0x99, 1}, ErrTruncated},
		{[]byte{0x98, 23}, ErrMalformed}, {[]byte{0x99, 0, 255}, ErrMalformed},
		{[]byte{0x9a, 0, 0, 1, 0}, ErrMalformed},
		{[]byte{0x9f}, ErrMalformed}, {[]byte{0x40}, ErrMalformed}, {[]byte{0xa0}, ErrMalformed},
		{[]byte{0x99, 4, 1}, ErrMalformed},
	} {
		r := &Reader{b: tt.b}
		if n := r.List(1024); n != 0 || !errors.Is(r.Err(), tt.want) {
			t.Errorf("% x: %d, %v, want %v", tt.b, n, r.Err(), tt.want)
		}
	}
	for _, n := range []int{-1, 1 << 16} {
		var w Writer
		w.List(n)
		if _, err := w.Bytes(); !errors.Is(err, ErrMalformed) {
			t.Errorf("list of %d: %v", n, err)
		}
	}
}

func TestSecretBlob(t *testing.T) {
	var a, b Writer
	a.Blob(bytes.Repeat([]byte{7}, 300))
	b.Secret(bytes.Repeat([]byte{7}, 300))
	if !bytes.Equal(a.b, b.b) {
		t.Errorf("% x and % x", a.b[:8], b.b[:8])
	}
}
