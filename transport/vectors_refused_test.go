package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

// hostile makes objects that must be refused, from parts that a writer of its own
// encodes: what the code's encoder would not write.
type hostile struct {
	key    *SigningKey
	header [][2][]byte // key and value, in order
	list   []vectorBad
}

func badVectors(t *testing.T, v messageVectors, key *SigningKey, reading Meta) []vectorBad {
	t.Helper()
	h := &hostile{key: key, header: handFields(&reading)}
	good := unhex(t, v.Sealed[0].Sealed)
	h.envelopes(good)
	h.headers(&reading)
	h.chunks(unhex(t, v.Chunks[1].Chunks[1]))
	h.bodies(t, v)
	return h.list
}

func (h *hostile) add(what, name string, b []byte, reason string) {
	h.list = append(h.list, vectorBad{name, what, hex.EncodeToString(b), reason})
}

// edit returns b with one byte changed.
func edit(b []byte, at int, to byte) []byte {
	c := bytes.Clone(b)
	c[at] = to
	return c
}

// frame returns an object with the body ramp(40) and a COSE_Sign1 of the parts, signed as
// they are.
func (h *hostile) frame(tag, protected, unprotected, payload []byte) []byte {
	return append(handFront(ramp(40)), h.envelope(tag, protected, unprotected, payload, sealContext)...)
}

// envelope returns a COSE_Sign1 of the parts, signed as they are.
func (h *hostile) envelope(tag, protected, unprotected, payload, aad []byte) []byte {
	tbs := bytes.Join([][]byte{{0x84}, cborText("Signature1"), cborBytes(protected), cborBytes(aad),
		cborBytes(payload)}, nil)
	return bytes.Join([][]byte{tag, {0x84}, cborBytes(protected), unprotected, cborBytes(payload),
		cborBytes(ed25519.Sign(h.key.priv, tbs))}, nil)
}

func (h *hostile) envelopes(good []byte) {
	protected := handProtected(-19, h.key.kid)
	header := joinFields(h.header)
	payload := handPayload(header, ramp(40))
	tag, none := []byte{0xd2}, []byte{0xa0}
	front, envelope := good[:len(handFront(ramp(40)))], good[len(handFront(ramp(40))):]
	long := bytes.Join([][]byte{front, {0xd2, 0x84, 0x58, envelope[2] & 0x1f}, envelope[3:]}, nil)
	last, at := len(good)-1, len(front)
	header1 := h.with(0, cborInt(1))
	payload1 := bytes.Join([][]byte{{0x82}, header1, cborBytes(ramp(40))}, nil)
	short := append([]byte{0x82}, header...)
	for _, b := range []struct {
		name   string
		b      []byte
		reason string
	}{
		{"empty", nil, "truncated"},
		{"cut", good[:last], "truncated"},
		{"trailing byte", append(bytes.Clone(good), 0), "malformed"},
		{"length not in its shortest form", long, "malformed"},
		{"body alone", front, "truncated"},
		{"body with a length not in its shortest form", bytes.Join([][]byte{{0x82, 0x59, 0, 40}, ramp(40), envelope},
			nil), "malformed"},
		{"body as a text", edit(good, 1, good[1]|0x20), "malformed"},
		{"body after the envelope", bytes.Join([][]byte{{0x82}, envelope, front[1:]}, nil), "malformed"},
		{"no body", append([]byte{0x81}, envelope...), "malformed"},
		{"object of three", append(append([]byte{0x83}, good[1:]...), 0), "malformed"},
		{"format version 1: the envelope has the body", h.envelope(tag, protected, none, payload1,
			[]byte("hencedge object v1")), "downgraded"},
		{"untagged", append(bytes.Clone(front), envelope[1:]...), "malformed"},
		{"tag 17", h.frame([]byte{0xd1}, protected, none, payload), "malformed"},
		{"tagged twice", bytes.Join([][]byte{front, tag, envelope}, nil), "malformed"},
		{"array of five", append(bytes.Join([][]byte{front, {0xd2, 0x85}, envelope[2:]}, nil), 0), "malformed"},
		{"indefinite-length array", bytes.Join([][]byte{front, {0xd2, 0x9f}, envelope[2:], {0xff}}, nil),
			"malformed"},
		{"unprotected header with a field", h.frame(tag, protected, []byte{0xa1, 1, 1}, payload), "malformed"},
		{"key id in the unprotected header", h.frame(tag, append([]byte{0xa1, 1}, cborInt(-19)...),
			append([]byte{0xa1, 4}, cborBytes(h.key.kid[:])...), payload), "malformed"},
		{"protected header without key id", h.frame(tag, append([]byte{0xa1, 1}, cborInt(-19)...), none, payload),
			"malformed"},
		{"protected header with a content type", h.frame(tag, bytes.Join([][]byte{{0xa3, 1}, cborInt(-19), {3, 0, 4},
			cborBytes(h.key.kid[:])}, nil), none, payload), "malformed"},
		{"protected header out of order", h.frame(tag, bytes.Join([][]byte{{0xa2, 4}, cborBytes(h.key.kid[:]), {1},
			cborInt(-19)}, nil), none, payload), "malformed"},
		{"algorithm ES256", edit(good, at+5, 0x26), "downgraded"},
		{"algorithm HMAC 256/256", h.frame(tag, handProtected(5, h.key.kid), none, payload), "downgraded"},
		{"payload of three", h.frame(tag, protected, none, append(append([]byte{0x83}, payload[1:]...), 0)),
			"malformed"},
		{"payload with a byte after it", h.frame(tag, protected, none, append(bytes.Clone(payload), 0)), "malformed"},
		{"payload without a digest", h.frame(tag, protected, none, short), "malformed"},
		{"payload with the body for its digest", h.frame(tag, protected, none, append(bytes.Clone(short),
			cborBytes(ramp(40))...)), "malformed"},
		{"digest of 31 bytes", h.frame(tag, protected, none, append(bytes.Clone(short), cborBytes(ramp(31))...)),
			"malformed"},
		{"empty payload", h.frame(tag, protected, none, nil), "malformed"},
		{"payload above the limit", h.frame(tag, protected, none, handPayload(append([]byte{0x78}, ramp(16<<10)...),
			ramp(40))), "too_large"},
		{"signature of 63 bytes", append(append(bytes.Clone(good[:len(good)-66]), 0x58, 63), good[len(good)-63:]...),
			"malformed"},
		{"another signer's key id", edit(good, at+8, good[at+8]^1), "unknown_signer"},
		{"body bit flipped", edit(good, 20, good[20]^1), "bad_signature"},
		{"body of another object", append(handFront(ramp(41)), envelope...), "bad_signature"},
		{"digest bit flipped", edit(good, len(good)-70, good[len(good)-70]^1), "bad_signature"},
		{"digest of the body without its head", h.frame(tag, protected, none, append(bytes.Clone(short),
			cborBytes(digestOf(ramp(40)))...)), "bad_signature"},
		{"header bit flipped", edit(good, bytes.Index(good, []byte("board-7"))+20,
			good[bytes.Index(good, []byte("board-7"))+20]^1), "bad_signature"},
		{"signature bit flipped", edit(good, last, good[last]^1), "bad_signature"},
		{"signature with the group order added to S", edit(good, last, good[last]|0xe0), "bad_signature"},
		{"signed without external_aad", h.signedAs(protected, payload, nil), "bad_signature"},
		{"signed as a remote configuration", h.signedAs(protected, payload, []byte("hencedge remote configuration v1")),
			"bad_signature"},
	} {
		h.add("sealed", b.name, b.b, b.reason)
	}
}

// signedAs signs with another external_aad.
func (h *hostile) signedAs(protected, payload, aad []byte) []byte {
	return append(handFront(ramp(40)), h.envelope([]byte{0xd2}, protected, []byte{0xa0}, payload, aad)...)
}

func digestOf(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:]
}

// handFields returns the fields of a header as handHeader writes them.
func handFields(m *Meta) (out [][2][]byte) {
	add := func(key int64, value []byte) { out = append(out, [2][]byte{cborInt(key), value}) }
	add(0, cborInt(2))
	add(1, cborInt(int64(m.Kind)))
	add(2, cborText(m.Device))
	add(3, cborText(m.Stream))
	add(5, cborBytes(m.KeyID[:]))
	add(6, cborInt(int64(m.KeyEpoch)))
	add(7, cborInt(int64(m.BootEpoch)))
	add(8, cborInt(int64(m.Sequence)))
	add(9, cborBytes(m.Params[:]))
	add(10, cborBytes(m.Layout[:]))
	add(11, cborInt(int64(m.Level)))
	add(12, cborFloat(m.Scale))
	add(13, cborInt(m.Start))
	add(14, cborInt(m.End))
	return append(out, [2][]byte{cborInt(15), cborInt(int64(m.Samples))})
}

func joinFields(fields [][2][]byte) []byte {
	b := cborHead(5, uint64(len(fields)))
	for _, f := range fields {
		b = append(append(b, f[0]...), f[1]...)
	}
	return b
}

// with returns the header with the value of a field replaced, or with the field added at
// its place, or left out (nil).
func (h *hostile) with(key int64, value []byte) []byte {
	var out [][2][]byte
	k, done := cborInt(key), value == nil
	for _, f := range h.header {
		if !done && bytes.Compare(f[0], k) >= 0 {
			out, done = append(out, [2][]byte{k, value}), true
		}
		if !bytes.Equal(f[0], k) {
			out = append(out, f)
		}
	}
	if !done {
		out = append(out, [2][]byte{k, value})
	}
	return joinFields(out)
}

func (h *hostile) headers(reading *Meta) {
	good := joinFields(h.header)
	n := len(h.header)
	swapped := append([][2][]byte{}, h.header...)
	swapped[5], swapped[6] = swapped[6], swapped[5]
	id := bytes.Repeat([]byte{1}, 32)
	float64Of := func(v float64) []byte {
		b := cborHead(7, math.Float64bits(v))
		return append([]byte{0xfb}, b[1:]...)
	}
	for _, b := range []struct {
		name   string
		header []byte
		reason string
	}{
		{"format version 0", h.with(0, cborInt(0)), "downgraded"},
		{"format version 1", h.with(0, cborInt(1)), "downgraded"},
		{"format version 3", h.with(0, cborInt(3)), "unsupported_version"},
		{"no format version", h.with(0, nil), "malformed"},
		{"kind 0", h.with(1, cborInt(0)), "malformed"},
		{"kind 200", h.with(1, cborInt(200)), "malformed"},
		{"no device", h.with(2, nil), "malformed"},
		{"device ..", h.with(2, cborText("..")), "malformed"},
		{"device with a slash", h.with(2, cborText("a/b")), "malformed"},
		{"device of 65 characters", h.with(2, cborText(strings.Repeat("x", 65))), "malformed"},
		{"device as bytes", h.with(2, cborBytes([]byte("board-7"))), "malformed"},
		{"a reading without a stream", h.with(3, nil), "malformed"},
		{"empty stream", h.with(3, cborText("")), "malformed"},
		{"a reading with a program", h.with(4, cborText("mean")), "malformed"},
		{"key set id of 15 bytes", h.with(5, cborBytes(ramp(15))), "malformed"},
		{"key epoch of 33 bits", h.with(6, cborInt(1<<32)), "malformed"},
		{"negative sequence", h.with(8, cborInt(-1)), "malformed"},
		{"sequence as a float", h.with(8, cborFloat(4711)), "malformed"},
		{"parameter hash missing", h.with(9, nil), "malformed"},
		{"layout hash of 31 bytes", h.with(10, cborBytes(ramp(31))), "malformed"},
		{"level 64", h.with(11, cborInt(64)), "malformed"},
		{"scale 0", h.with(12, cborFloat(0)), "malformed"},
		{"negative scale", h.with(12, cborFloat(-1)), "malformed"},
		{"scale above 2^120", h.with(12, cborFloat(0x1p121)), "malformed"},
		{"scale NaN", h.with(12, []byte{0xf9, 0x7e, 0}), "malformed"},
		{"scale infinite", h.with(12, []byte{0xf9, 0x7c, 0}), "malformed"},
		{"scale as a 64-bit float", h.with(12, float64Of(reading.Scale)), "malformed"},
		{"scale as an integer", h.with(12, cborInt(1<<26)), "malformed"},
		{"end before start", h.with(14, cborInt(reading.Start-1)), "malformed"},
		{"131073 samples", h.with(15, cborInt(131073)), "malformed"},
		{"a reading with inputs", h.with(16, append([]byte{0x81}, cborBytes(id)...)), "malformed"},
		{"empty inputs", h.with(16, []byte{0x80}), "malformed"},
		{"a reading with post-processing", h.with(17, handPost(1, 0, 0, 1, 0)), "malformed"},
		{"place 0, which is left out", h.with(22, cborInt(0)), "malformed"},
		{"place 65536", h.with(22, cborInt(1<<16)), "malformed"},
		{"place as a text", h.with(22, cborText("5")), "malformed"},
		{"unknown key", h.with(18, cborInt(0)), "malformed"},
		{"negative key", h.with(-1, cborInt(0)), "malformed"},
		{"keys out of order", joinFields(swapped), "malformed"},
		{"key twice", append(append(cborHead(5, uint64(n+1)), good[1:]...), append(cborInt(15), cborInt(256)...)...),
			"malformed"},
		{"sequence not in its shortest form", h.with(8, []byte{0x1a, 0, 0, 0x12, 0x67}), "malformed"},
		{"indefinite-length map", append(append([]byte{0xbf}, good[1:]...), 0xff), "malformed"},
		{"tagged time", h.with(13, append([]byte{0xc1}, cborInt(reading.Start)...)), "malformed"},
		{"header is an array", append([]byte{0x81}, cborInt(1)...), "malformed"},
	} {
		h.add("sealed", b.name, h.frame([]byte{0xd2}, handProtected(-19, h.key.kid), []byte{0xa0},
			handPayload(b.header, ramp(40))), b.reason)
	}
	h.results(reading)
}

// handPost returns the post-processing map.
func handPost(a, b float64, slot, count int64, bound float64) []byte {
	return bytes.Join([][]byte{{0xa6, 0}, cborFloat(a), {1}, cborFloat(b), {2, 0xf4, 3}, cborInt(slot), {4},
		cborInt(count), {5}, cborFloat(bound)}, nil)
}

// handFleet returns the map of a result across devices.
func handFleet(devices, windows, samples int64, digest []byte) []byte {
	return bytes.Join([][]byte{{0xa4, 0}, cborInt(devices), {1}, cborInt(windows), {2}, cborInt(samples), {3},
		cborBytes(digest)}, nil)
}

// results are hostile headers of results.
func (h *hostile) results(reading *Meta) {
	r := &hostile{key: h.key, header: handFields(reading)}
	r.header[1][1] = cborInt(2)
	r.header[3] = [2][]byte{cborInt(4), cborText("mean")}
	inputs := append([]byte{0x81}, cborBytes(bytes.Repeat([]byte{1}, 32))...)
	r.header = append(r.header, [2][]byte{cborInt(16), inputs}, [2][]byte{cborInt(17), handPost(2, 0, 0, 1, 0.5)})
	one := sha256.Sum256(bytes.Repeat([]byte{1}, 32)) // the digest of inputs
	many := cborHead(4, 257)
	for range 257 {
		many = append(many, inputs[1:]...)
	}
	for _, b := range []struct {
		name   string
		header []byte
	}{
		{"a result without a program", r.with(4, nil)},
		{"an input of 31 bytes", r.with(16, append([]byte{0x81}, cborBytes(ramp(31))...))},
		{"257 inputs", r.with(16, many)},
		{"post-processing with A = 0", r.with(17, handPost(0, 0, 0, 1, 0))},
		{"post-processing of no slot", r.with(17, handPost(1, 0, 0, 0, 0))},
		{"post-processing beyond 65536 slots", r.with(17, handPost(1, 0, 65536, 1, 0))},
		{"post-processing with a negative bound", r.with(17, handPost(1, 0, 0, 1, -1))},
		{"across devices, with a digest of other inputs", r.with(20, handFleet(1, 1, 256, ramp(32)))},
		{"across devices, with fewer inputs than windows", r.with(20, handFleet(1, 2, 256, one[:]))},
		{"across more devices than windows", r.with(20, handFleet(2, 1, 256, one[:]))},
		{"a result at a place", r.with(22, cborInt(1))},
		{"across no device", r.with(20, handFleet(0, 1, 256, one[:]))},
		{"across devices, without samples", r.with(20, handFleet(1, 1, 0, one[:]))},
		{"across devices, with a digest of 31 bytes", r.with(20, handFleet(1, 1, 256, one[:31]))},
		{"across devices and of one", joinFields(append(append([][2][]byte{}, r.header...),
			[2][]byte{cborInt(19), cborText("board-7")}, [2][]byte{cborInt(20), handFleet(1, 1, 256, one[:])}))},
		{"post-processing without a bound", r.with(17, append([]byte{0xa5},
			handPost(1, 0, 0, 1, 0)[1:len(handPost(1, 0, 0, 1, 0))-4]...))},
	} {
		h.add("sealed", b.name, h.frame([]byte{0xd2}, handProtected(-19, h.key.kid), []byte{0xa0},
			handPayload(b.header, ramp(40))), "malformed")
	}
}

func (h *hostile) chunks(good []byte) {
	chunk := func(version, index, total, size int64, data []byte) []byte {
		return bytes.Join([][]byte{{0x86}, cborInt(version), cborBytes(ramp(32)), cborInt(index), cborInt(total),
			cborInt(size), cborBytes(data)}, nil)
	}
	for _, b := range []struct {
		name   string
		b      []byte
		reason string
	}{
		{"cut", good[:len(good)-1], "truncated"},
		{"trailing byte", append(bytes.Clone(good), 0), "malformed"},
		{"version 0", edit(good, 1, 0), "downgraded"},
		{"version 2", edit(good, 1, 2), "unsupported_version"},
		{"index out of range", edit(good, 36, 3), "malformed"},
		{"no chunks", chunk(1, 0, 0, 4, ramp(4)), "malformed"},
		{"empty object", chunk(1, 0, 1, 0, nil), "malformed"},
		{"object above the limit", chunk(1, 0, 2, 33<<20, ramp(4)), "too_large"},
		{"65537 chunks", chunk(1, 0, 65537, 30<<20, ramp(458)), "malformed"},
		{"another length than the size says", chunk(1, 0, 2, 1000, ramp(501)), "malformed"},
		{"shorter than the size says", chunk(1, 0, 2, 1000, ramp(499)), "truncated"},
		{"pieces below 256 bytes", chunk(1, 0, 4, 1000, ramp(250)), "malformed"},
		{"hash of 31 bytes", bytes.Join([][]byte{{0x86, 1}, cborBytes(ramp(31)), {0, 1, 4}, cborBytes(ramp(4))}, nil),
			"malformed"},
		{"a map", append([]byte{0xa0}, ramp(100)...), "malformed"},
	} {
		h.add("chunk", b.name, b.b, b.reason)
	}
}

func (h *hostile) bodies(t *testing.T, v messageVectors) {
	item := func(outcome int64, reason string, total int64, have []byte) []byte {
		return bytes.Join([][]byte{{0x86}, cborBytes(ramp(32)), cborInt(outcome), cborText(reason), cborInt(total),
			cborBytes(have), cborText("")}, nil)
	}
	receipt := func(version int64, to string, items ...[]byte) []byte {
		return append(bytes.Join([][]byte{{0x83}, cborInt(version), cborText(to), cborHead(4, uint64(len(items)))},
			nil), bytes.Join(items, nil)...)
	}
	question := func(topic string, total, size int64) []byte {
		return bytes.Join([][]byte{{0x84}, cborBytes(ramp(32)), cborText(topic), cborInt(total), cborInt(size)}, nil)
	}
	taken, refused := item(1, "", 0, nil), item(2, "busy", 0, nil)
	many := make([][]byte, 65)
	for i := range many {
		many[i] = taken
	}
	for _, b := range []struct {
		what, name string
		b          []byte
		reason     string
	}{
		{"receipt", "version 3", receipt(3, "board-7", taken), "unsupported_version"},
		{"receipt", "version 1, without a detail", receipt(1, "board-7",
			append([]byte{0x85}, taken[1:len(taken)-1]...)), "downgraded"},
		{"receipt", "taken with a detail", receipt(2, "board-7", append(bytes.Clone(taken[:len(taken)-1]),
			cborText("x")...)), "malformed"},
		{"receipt", "detail with a control character", receipt(2, "board-7",
			append(bytes.Clone(refused[:len(refused)-1]), cborText("\x1b[2J")...)), "malformed"},
		{"receipt", "detail of 321 bytes", receipt(2, "board-7", append(bytes.Clone(refused[:len(refused)-1]),
			cborText(strings.Repeat("x", 321))...)), "malformed"},
		{"receipt", "no addressee", receipt(2, "", taken), "malformed"},
		{"receipt", "no items", receipt(2, "board-7"), "malformed"},
		{"receipt", "65 items", receipt(2, "board-7", many...), "malformed"},
		{"receipt", "outcome 0", receipt(2, "board-7", item(0, "", 0, nil)), "malformed"},
		{"receipt", "outcome 6", receipt(2, "board-7", item(6, "", 0, nil)), "malformed"},
		{"receipt", "refused without a reason", receipt(2, "board-7", item(2, "", 0, nil)), "malformed"},
		{"receipt", "taken with a reason", receipt(2, "board-7", item(1, "busy", 0, nil)), "malformed"},
		{"receipt", "reason with a capital letter", receipt(2, "board-7", item(2, "Busy", 0, nil)), "malformed"},
		{"receipt", "partial with a short bitmap", receipt(2, "board-7", item(3, "", 9, ramp(1))), "malformed"},
		{"receipt", "partial with a bit beyond the last chunk", receipt(2, "board-7", item(3, "", 7, []byte{0x80})),
			"malformed"},
		{"receipt", "taken with a bitmap", receipt(2, "board-7", item(1, "", 8, []byte{1})), "malformed"},
		{"receipt", "trailing byte", append(receipt(2, "board-7", taken), 0), "malformed"},
		{"receipt", "cut", receipt(2, "board-7", taken)[:20], "truncated"},
		{"ask", "version 0", bytes.Join([][]byte{{0x83, 0}, cborText("cloud-1"), {0x81}, question("a/b", 1, 1)}, nil),
			"downgraded"},
		{"ask", "topic with a wildcard", bytes.Join([][]byte{{0x83, 1}, cborText("cloud-1"), {0x81},
			question("a/+", 1, 1)}, nil), "malformed"},
		{"ask", "no chunks", bytes.Join([][]byte{{0x83, 1}, cborText("cloud-1"), {0x81}, question("a/b", 0, 1)}, nil),
			"malformed"},
		{"ask", "no bytes", bytes.Join([][]byte{{0x83, 1}, cborText("cloud-1"), {0x81}, question("a/b", 1, 0)}, nil),
			"malformed"},
		{"status", "unknown key", bytes.Join([][]byte{{0xa5, 0, 0xf5, 1}, cborText("1"), {3, 0, 4, 2, 9, 0}}, nil),
			"malformed"},
		{"status", "version with a control character", bytes.Join([][]byte{{0xa4, 0, 0xf5, 1}, cborText("1\n"),
			{3, 0, 4, 2}}, nil), "malformed"},
		{"status", "empty list of streams", bytes.Join([][]byte{{0xa5, 0, 0xf5, 1}, cborText("1"),
			{2, 0x80, 3, 0, 4, 2}}, nil), "malformed"},
		{"status", "format 1, names of streams alone", bytes.Join([][]byte{{0xa4, 0, 0xf5, 1}, cborText("1"), {2, 0x81},
			cborText("a"), {3, 0}}, nil), "downgraded"},
		{"status", "format 3", bytes.Join([][]byte{{0xa4, 0, 0xf5, 1}, cborText("1"), {3, 0, 4, 3}}, nil),
			"unsupported_version"},
		{"status", "key epoch without a key set", bytes.Join([][]byte{{0xa5, 0, 0xf5, 1}, cborText("1"),
			{3, 0, 4, 2, 6, 1}}, nil), "malformed"},
		{"status", "end of a certificate, 0", bytes.Join([][]byte{{0xa5, 0, 0xf5, 1}, cborText("1"),
			{3, 0, 4, 2, 7, 0}}, nil), "malformed"},
		{"status", "end of a certificate before 1970", bytes.Join([][]byte{{0xa5, 0, 0xf5, 1}, cborText("1"),
			{3, 0, 4, 2, 7, 0x20}}, nil), "malformed"},
		{"status", "parameters without channels", bytes.Join([][]byte{{0xa5, 0, 0xf5, 1}, cborText("1"),
			{2, 0x81, 0xa2, 0}, cborText("a"), {1}, cborText("p"), {3, 0, 4, 2}}, nil), "malformed"},
	} {
		h.add(b.what, b.name, b.b, b.reason)
	}
	h.packs(unhex(t, v.Sealed[len(v.Sealed)-1].Body))
}

// packs refuses bodies for the header of the last sealed object, a pack.
func (h *hostile) packs(good []byte) {
	h.add("pack", "cut", good[:len(good)-1], "truncated")
	h.add("pack", "trailing byte", append(bytes.Clone(good), 0), "malformed")
	h.add("pack", "no array", good[1:], "malformed")
	h.add("pack", "one slot twice", bytes.Replace(good, []byte{0x89, 0, 3}, []byte{0x89, 0, 4}, 1), "malformed")
	h.add("pack", "one number twice", bytes.Replace(good, []byte{0x89, 0, 3, 0x60, 2}, []byte{0x89, 0, 3, 0x60, 1}, 1),
		"malformed")
	h.add("pack", "unknown form", bytes.Replace(good, []byte{0x89, 1}, []byte{0x89, 2}, 1), "malformed")
}
