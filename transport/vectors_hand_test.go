package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
)

// A second, independent writer of the format, straight from the document: it
// uses neither the CBOR nor the COSE library.

func cborHead(major byte, n uint64) []byte {
	switch {
	case n < 24:
		return []byte{major<<5 | byte(n)}
	case n < 1<<8:
		return []byte{major<<5 | 24, byte(n)}
	case n < 1<<16:
		return binary.BigEndian.AppendUint16([]byte{major<<5 | 25}, uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32([]byte{major<<5 | 26}, uint32(n))
	}
	return binary.BigEndian.AppendUint64([]byte{major<<5 | 27}, n)
}

func cborBytes(b []byte) []byte { return append(cborHead(2, uint64(len(b))), b...) }
func cborText(s string) []byte  { return append(cborHead(3, uint64(len(s))), s...) }

func cborInt(v int64) []byte {
	if v < 0 {
		return cborHead(1, uint64(-1-v))
	}
	return cborHead(0, uint64(v))
}

// cborFloat writes the shortest of the three widths that holds v exactly.
func cborFloat(v float64) []byte {
	bits := math.Float64bits(v)
	if v == 0 {
		return []byte{0xf9, byte(bits >> 56), 0}
	}
	exp, mant := int(bits>>52&0x7ff)-1023, bits&(1<<52-1)
	if exp >= -14 && exp <= 15 && mant&(1<<42-1) == 0 {
		h := uint16(bits>>63)<<15 | uint16(exp+15)<<10 | uint16(mant>>42)
		return binary.BigEndian.AppendUint16([]byte{0xf9}, h)
	}
	if f := float32(v); float64(f) == v {
		return binary.BigEndian.AppendUint32([]byte{0xfa}, math.Float32bits(f))
	}
	return binary.BigEndian.AppendUint64([]byte{0xfb}, bits)
}

func handHeader(m *Meta) []byte {
	var out []byte
	n := 0
	put := func(key int, value []byte) {
		out = append(append(out, cborHead(0, uint64(key))...), value...)
		n++
	}
	put(0, cborInt(2))
	put(1, cborInt(int64(m.Kind)))
	put(2, cborText(m.Device))
	if m.Stream != "" {
		put(3, cborText(m.Stream))
	}
	if m.Program != "" {
		put(4, cborText(m.Program))
	}
	put(5, cborBytes(m.KeyID[:]))
	put(6, cborHead(0, uint64(m.KeyEpoch)))
	put(7, cborHead(0, m.BootEpoch))
	put(8, cborHead(0, m.Sequence))
	put(9, cborBytes(m.Params[:]))
	put(10, cborBytes(m.Layout[:]))
	put(11, cborInt(int64(m.Level)))
	put(12, cborFloat(m.Scale))
	put(13, cborInt(m.Start))
	put(14, cborInt(m.End))
	put(15, cborHead(0, uint64(m.Samples)))
	if len(m.Inputs) > 0 {
		in := cborHead(4, uint64(len(m.Inputs)))
		for _, id := range m.Inputs {
			in = append(in, cborBytes(id[:])...)
		}
		put(16, in)
	}
	if p := m.Post; p != nil {
		sqrt := byte(0xf4)
		if p.Sqrt {
			sqrt = 0xf5
		}
		put(17, bytes.Join([][]byte{{0xa6, 0}, cborFloat(p.A), {1}, cborFloat(p.B), {2, sqrt}, {3},
			cborInt(int64(p.Slot)),
			{4}, cborInt(int64(p.Count)), {5}, cborFloat(p.Bound)}, nil))
	}
	if len(m.Present) > 0 {
		list := cborHead(4, uint64(len(m.Present)))
		for _, n := range m.Present {
			list = append(list, cborInt(int64(n))...)
		}
		put(18, list)
	}
	if m.Subject != "" {
		put(19, cborText(m.Subject))
	}
	if f := m.Fleet; f != nil {
		put(20, bytes.Join([][]byte{{0xa4, 0}, cborInt(int64(f.Devices)), {1}, cborInt(int64(f.Windows)), {2},
			cborInt(int64(f.Samples)), {3}, cborBytes(f.Digest[:])}, nil))
	}
	if m.Packed > 0 {
		put(21, cborInt(int64(m.Packed)))
	}
	if m.Place > 0 {
		put(22, cborInt(int64(m.Place)))
	}
	return append(cborHead(5, uint64(n)), out...)
}

func handProtected(alg int64, kid [8]byte) []byte {
	return bytes.Join([][]byte{{0xa2, 1}, cborInt(alg), {4}, cborBytes(kid[:])}, nil)
}

// handFront returns what stands before the envelope.
func handFront(body []byte) []byte { return append([]byte{0x82}, cborBytes(body)...) }

func handPayload(header, body []byte) []byte {
	digest := sha256.Sum256(handFront(body))
	return bytes.Join([][]byte{{0x82}, header, cborBytes(digest[:])}, nil)
}

func sigStructure(alg int64, kid [8]byte, header, body []byte) []byte {
	return bytes.Join([][]byte{{0x84}, cborText("Signature1"), cborBytes(handProtected(alg, kid)),
		cborBytes([]byte("hencedge object v2")), cborBytes(handPayload(header, body))}, nil)
}

func TestVectorsByHand(t *testing.T) {
	v := loadVectors(t)
	priv := ed25519.NewKeyFromSeed(unhex(t, v.Key.Seed))
	pub := priv.Public().(ed25519.PublicKey)
	sum := sha256.Sum256(pub)
	kid := [8]byte(sum[:8])
	if hex.EncodeToString(pub) != v.Key.Public || hex.EncodeToString(kid[:]) != v.Key.KeyID {
		t.Fatal("key")
	}
	for _, s := range v.Sealed {
		meta := s.Meta.meta(t)
		header, body := handHeader(&meta), unhex(t, s.Body)
		if hex.EncodeToString(header) != s.Header {
			t.Errorf("%s: header %x", s.Name, header)
		}
		tbs := sigStructure(s.Algorithm, kid, header, body)
		if hex.EncodeToString(tbs) != s.Signed {
			t.Errorf("%s: Sig_structure %x", s.Name, tbs)
		}
		sealed := bytes.Join([][]byte{handFront(body), {0xd2, 0x84}, cborBytes(handProtected(s.Algorithm, kid)), {0xa0},
			cborBytes(handPayload(header, body)), cborBytes(ed25519.Sign(priv, tbs))}, nil)
		if hex.EncodeToString(sealed) != s.Sealed {
			t.Errorf("%s: sealed %x", s.Name, sealed)
		}
	}
	for _, c := range v.Chunks {
		object := unhex(t, c.Object)
		id := sha256.Sum256(object)
		total := (len(object) + c.ChunkSize - 64 - 1) / (c.ChunkSize - 64)
		size := (len(object) + total - 1) / total
		if len(c.Chunks) != total {
			t.Fatalf("%s: %d chunks", c.Name, len(c.Chunks))
		}
		for i, want := range c.Chunks {
			data := object[i*size : min(len(object), (i+1)*size)]
			b := bytes.Join([][]byte{{0x86, 1}, cborBytes(id[:]), cborInt(int64(i)), cborInt(int64(total)),
				cborInt(int64(len(object))), cborBytes(data)}, nil)
			if hex.EncodeToString(b) != want {
				t.Errorf("%s: chunk %d is %x", c.Name, i, b)
			}
		}
	}
}
