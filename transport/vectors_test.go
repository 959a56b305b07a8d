package transport

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/vectors"
)

// messageVectors is docs/vectors/messages.json; a change of it is a change of the format.
type messageVectors struct {
	Comment string         `json:"comment"`
	Key     vectorKey      `json:"key"`
	Sealed  []vectorSealed `json:"sealed"`
	Chunks  []vectorChunks `json:"chunks"`
	Refused []vectorBad    `json:"refused"`
}

type vectorKey struct {
	Seed   string `json:"seed"`
	Public string `json:"public"`
	Text   string `json:"public_text"`
	KeyID  string `json:"cose_key_id"`
}

type vectorSealed struct {
	Name      string     `json:"name"`
	Algorithm int64      `json:"algorithm"`
	Meta      vectorMeta `json:"header"`
	Header    string     `json:"header_cbor"`
	Body      string     `json:"body"`
	Content   any        `json:"content,omitempty"` // of a body in clear
	Signed    string     `json:"sig_structure"`
	Sealed    string     `json:"sealed"`
	ID        string     `json:"object_id"`
}

// vectorMeta is Meta with byte strings in hexadecimal.
type vectorMeta struct {
	Kind      Kind         `json:"kind"`
	Device    string       `json:"device"`
	Stream    string       `json:"stream,omitempty"`
	Program   string       `json:"program,omitempty"`
	KeyID     string       `json:"key_id"`
	KeyEpoch  uint32       `json:"key_epoch"`
	BootEpoch uint64       `json:"boot_epoch"`
	Sequence  uint64       `json:"sequence"`
	Params    string       `json:"params"`
	Layout    string       `json:"layout"`
	Level     int          `json:"level"`
	Scale     float64      `json:"scale"`
	Start     int64        `json:"start_ns"`
	End       int64        `json:"end_ns"`
	Samples   uint32       `json:"samples"`
	Inputs    []string     `json:"inputs,omitempty"`
	Post      *Post        `json:"post,omitempty"`
	Present   []uint32     `json:"present,omitempty"`
	Subject   string       `json:"subject,omitempty"`
	Fleet     *vectorFleet `json:"fleet,omitempty"`
	Packed    uint32       `json:"packed,omitempty"`
	Place     uint32       `json:"place,omitempty"`
}

// vectorFleet is Fleet with its digest in hexadecimal.
type vectorFleet struct {
	Devices uint32 `json:"devices"`
	Windows uint32 `json:"windows"`
	Samples uint64 `json:"samples"`
	Digest  string `json:"digest"`
}

func toVector(m Meta) vectorMeta {
	v := vectorMeta{m.Kind, m.Device, m.Stream, m.Program, hex.EncodeToString(m.KeyID[:]), m.KeyEpoch, m.BootEpoch,
		m.Sequence,
		hex.EncodeToString(m.Params[:]), hex.EncodeToString(m.Layout[:]), m.Level, m.Scale, m.Start, m.End, m.Samples,
		nil, m.Post, m.Present, m.Subject, nil, m.Packed, m.Place}
	if f := m.Fleet; f != nil {
		v.Fleet = &vectorFleet{f.Devices, f.Windows, f.Samples, hex.EncodeToString(f.Digest[:])}
	}
	for _, id := range m.Inputs {
		v.Inputs = append(v.Inputs, hex.EncodeToString(id[:]))
	}
	return v
}

func (v vectorMeta) meta(t *testing.T) Meta {
	t.Helper()
	m := Meta{v.Kind, v.Device, v.Stream, v.Program, v.Subject, [16]byte(unhex(t, v.KeyID)), v.KeyEpoch, v.BootEpoch,
		v.Sequence,
		[32]byte(unhex(t, v.Params)), [32]byte(unhex(t, v.Layout)), v.Level, v.Scale, v.Start, v.End, v.Samples, nil,
		v.Post, v.Present, nil, v.Packed, v.Place}
	if f := v.Fleet; f != nil {
		m.Fleet = &Fleet{f.Devices, f.Windows, f.Samples, [32]byte(unhex(t, f.Digest))}
	}
	for _, id := range v.Inputs {
		m.Inputs = append(m.Inputs, [32]byte(unhex(t, id)))
	}
	return m
}

type vectorChunks struct {
	Name      string   `json:"name"`
	Object    string   `json:"object"`
	ChunkSize int      `json:"chunk_size"`
	ID        string   `json:"object_id"`
	Chunks    []string `json:"chunks"`
}

type vectorBad struct {
	Name   string `json:"name"`
	What   string `json:"what"` // sealed, chunk, or the body of a status, receipt, ask or pack
	Bytes  string `json:"bytes"`
	Reason string `json:"reason"`
}

// ramp returns n bytes 0, 7, 14, ... modulo 256.
func ramp(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(7 * i)
	}
	return b
}

func makeVectors(t *testing.T) messageVectors {
	t.Helper()
	seed := make([]byte, 32)
	for i := range seed {
		seed[i] = byte(i)
	}
	key, err := SigningKeyFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	v := messageVectors{
		Comment: "Test vectors of docs/wire-format.md. All byte strings are hexadecimal. The one key signs for " +
			"devices board-7 and cloud-1 and as evaluator. A refused thing is a whole sealed object, a chunk, " +
			"or the body of a status, receipt, ask or pack (under the header of the last sealed object); " +
			"reason is a label of the document.",
		Key: vectorKey{hex.EncodeToString(seed), hex.EncodeToString(key.Public()), key.PublicText(),
			hex.EncodeToString(key.kid[:])},
	}
	for _, c := range vectorObjects() {
		header, err := marshalMeta(&c.meta, Version)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := sealRaw(header, c.body, key, c.alg)
		if err != nil {
			t.Fatal(err)
		}
		id := ObjectID(sealed)
		v.Sealed = append(v.Sealed, vectorSealed{c.name, c.alg, toVector(c.meta), hex.EncodeToString(header),
			hex.EncodeToString(c.body), c.content,
			hex.EncodeToString(sigStructure(c.alg, key.kid, header, c.body)), hex.EncodeToString(sealed),
			hex.EncodeToString(id[:])})
	}
	for _, c := range []struct {
		name string
		n    int
	}{{"one", 100}, {"three", 2500}} {
		vc := vectorChunks{Name: c.name, Object: hex.EncodeToString(ramp(c.n)), ChunkSize: 1024}
		id := ObjectID(ramp(c.n))
		vc.ID = hex.EncodeToString(id[:])
		for _, b := range chunksOf(t, ramp(c.n), 1024) {
			vc.Chunks = append(vc.Chunks, hex.EncodeToString(b))
		}
		v.Chunks = append(v.Chunks, vc)
	}
	v.Refused = badVectors(t, v, key, vectorReading())
	return v
}

// fill returns 32 bytes of one value.
func fill(b byte) (h [32]byte) {
	for i := range h {
		h[i] = b
	}
	return h
}

// vectorObject is an object to seal. content is its body as JSON shows it, if it is not bytes.
type vectorObject struct {
	name    string
	meta    Meta
	body    []byte
	alg     int64
	content any
}

// vectorObjects returns one object of every kind, in the order of the file.
func vectorObjects() []vectorObject {
	status := Status{Online: true, Version: "0.1.0", Since: 1_700_000_000_000_000_000, KeyID: [16]byte(ramp(16)),
		KeyEpoch: 3,
		Streams: []StreamStatus{{Name: "vibration", Params: "edge13-d3", Packing: "real", Samples: 64,
			Channels: []ChannelStatus{{Name: "x", Unit: "m/s2", Min: -16, Max: 16}}}}}
	receipt := Receipt{To: "board-7", Items: []ReceiptItem{{Object: fill(1), Outcome: Taken},
		{Object: fill(2), Outcome: Refused, Reason: "wrong_epoch", Detail: "epoch 2, want 3"},
		{Object: fill(3), Outcome: Partial, Total: 11, Have: []byte{0xfd, 0x05}}, {Object: fill(4), Outcome: Unknown},
		{Object: fill(5), Outcome: Working}}}
	ask := Ask{To: "cloud-1", Items: []AskItem{{Object: fill(3), Topic: "hencedge/v1/up/board-7/vibration", Total: 11,
		Size: 1_200_000}}}
	shown := status
	shown.CertificateEnd = 1_800_000_000_000_000_000
	placed, placedStatus := vectorReading(), status
	placed.Sequence, placed.Place = 4712, 5
	placedStatus.Streams = slices.Clone(status.Streams)
	placedStatus.Streams[0].Places = 8
	at := Meta{Device: "board-7", BootEpoch: 12, Sequence: 1}
	receiptMeta := Meta{Kind: KindReceipt, Device: "cloud-1", BootEpoch: 1_700_000_000_000_000_000, Sequence: 9,
		Start: 1_700_000_000_000_000_000, End: 1_700_000_000_000_000_000}
	list := []vectorObject{
		{"reading", vectorReading(), ramp(40), -19, nil},
		{"reading-eddsa", vectorReading(), ramp(40), -8, nil},
		{"result", vectorResult(), ramp(300), -19, nil},
		{"status", of(at, KindStatus), must(MarshalStatus(status)), -19, contentOf(status)},
		{"receipt", receiptMeta, must(MarshalReceipt(receipt)), -19, contentOf(receipt)},
		{"ask", of(at, KindAsk), must(MarshalAsk(ask)), -19, contentOf(ask)},
		{"reading-placed", placed, ramp(40), -19, nil},
		{"status-placed", of(at, KindStatus), must(MarshalStatus(placedStatus)), -19, contentOf(placedStatus)},
		{"status-certificate", of(at, KindStatus), must(MarshalStatus(shown)), -19, contentOf(shown)},
	}
	return append(append(list, vectorResults()...), vectorPack())
}

// vectorResults returns results of the forms that not every result has.
func vectorResults() []vectorObject {
	result := vectorResult()
	short := result
	short.Sequence, short.Present = 2, []uint32{256, 100}
	ofClass := result
	ofClass.Sequence, ofClass.Subject = 3, "board-7"
	fleet, large := result, result
	fleet.Sequence, large.Sequence = 4, 5
	fleet.SetFleet([][32]byte{fill(2), fill(1), fill(3)}, 2, 700)
	var many [][32]byte
	for i := range MaxInputs + 1 {
		id := fill(9)
		id[0], id[1] = byte(i>>8), byte(i)
		many = append(many, id)
	}
	large.SetFleet(many, MaxInputs+1, 256*(MaxInputs+1))
	return []vectorObject{
		{"result-partial", short, ramp(40), -19, nil},
		{"result-class", ofClass, ramp(40), -19, nil},
		{"result-fleet", fleet, ramp(40), -19, nil},
		{"result-fleet-digest", large, ramp(40), -19, nil},
	}
}

// vectorPack returns a pack of three results: of two programs, one of them for a class, and
// of a window that is not full.
func vectorPack() vectorObject {
	whole := vectorResult()
	whole.Post = &Post{A: 0.00390625, B: -3.1, Sqrt: true, Slot: 4, Count: 1, Bound: 0.001}
	short, ofClass := whole, whole
	short.Sequence, short.Present, short.Samples = 2, []uint32{256, 100}, 100
	short.Post = &Post{A: 0.00390625, B: -3.1, Sqrt: true, Slot: 3, Count: 1, Bound: 0.001}
	short.Start, short.End = whole.Start+5_000_000_000, whole.End+5_000_000_000
	ofClass.Program, ofClass.Subject, ofClass.Inputs = "mean", "board-7", whole.Inputs[:1]
	ofClass.Layout[0], ofClass.Post = 0xdd, &Post{A: 2, B: 1, Slot: 260, Count: 1, Bound: 0.5}
	all := []Meta{whole, short, ofClass}
	var content []vectorMeta
	for _, m := range all {
		content = append(content, toVector(m))
	}
	header, body, err := MarshalPack(all, ramp(40))
	if err != nil {
		panic(err)
	}
	header.Sequence = 7
	return vectorObject{"result-packed", header, body, -19, content}
}

func vectorReading() Meta {
	return Meta{Kind: KindReading, Device: "board-7", Stream: "vibration", KeyID: [16]byte(ramp(16)), KeyEpoch: 3,
		BootEpoch: 12, Sequence: 4711,
		Params: fill(0xaa), Layout: fill(0xbb), Level: 1, Scale: 1 << 26, Start: 1_700_000_000_000_000_000,
		End: 1_700_000_010_000_000_000, Samples: 256}
}

func vectorResult() Meta {
	return Meta{Kind: KindResult, Device: "cloud-1", Program: "mean-power", KeyID: [16]byte(ramp(16)), KeyEpoch: 3,
		BootEpoch: 2, Sequence: 1,
		Params: fill(0xaa), Layout: fill(0xcc), Scale: 0x1.00002p27, Start: 1_700_000_000_000_000_000,
		End: 1_700_000_010_000_000_000, Samples: 256,
		Inputs: [][32]byte{fill(1), fill(2)}, Post: &Post{A: 0.00390625, B: -3.1, Sqrt: true, Slot: 4, Count: 2,
			Bound: 0.001}}
}

func of(m Meta, k Kind) Meta {
	m.Kind = k
	return m
}

// contentOf returns a body in clear as JSON shows it, byte strings in hexadecimal.
func contentOf(body any) any {
	switch b := body.(type) {
	case Status:
		streams := []any{}
		for _, s := range b.Streams {
			channels := []any{}
			for _, c := range s.Channels {
				channels = append(channels, []any{c.Name, c.Unit, c.Min, c.Max})
			}
			stream := map[string]any{"name": s.Name, "params": s.Params, "log_scale": s.LogScale,
				"packing": s.Packing, "samples": s.Samples, "every_ns": s.Every, "channels": channels}
			if s.Places > 0 {
				stream["places"] = s.Places
			}
			streams = append(streams, stream)
		}
		out := map[string]any{"online": b.Online, "version": b.Version, "streams": streams, "since_ns": b.Since,
			"key_id": hex.EncodeToString(b.KeyID[:]), "key_epoch": b.KeyEpoch}
		if b.CertificateEnd > 0 {
			out["certificate_end_ns"] = b.CertificateEnd
		}
		return out
	case Receipt:
		items := []any{}
		for _, it := range b.Items {
			items = append(items, map[string]any{"object": hex.EncodeToString(it.Object[:]),
				"outcome": it.Outcome.String(), "reason": it.Reason, "total": it.Total,
				"have": hex.EncodeToString(it.Have), "detail": it.Detail})
		}
		return map[string]any{"to": b.To, "items": items}
	case Ask:
		items := []any{}
		for _, it := range b.Items {
			items = append(items, map[string]any{"object": hex.EncodeToString(it.Object[:]), "topic": it.Topic,
				"total": it.Total, "size": it.Size})
		}
		return map[string]any{"to": b.To, "items": items}
	}
	return nil
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func loadVectors(t *testing.T) (v messageVectors) {
	t.Helper()
	vectors.Read(t, "messages.json", &v)
	return v
}

func TestVectors(t *testing.T) { vectors.Check(t, "messages.json", makeVectors(t)) }

// TestVectorsOpen opens the recorded bytes.
func TestVectorsOpen(t *testing.T) {
	v := loadVectors(t)
	pub, err := ParsePublicKey(v.Key.Text)
	if err != nil {
		t.Fatal(err)
	}
	verifier := func() *Verifier {
		trust, err := TrustKeys(map[string]ed25519.PublicKey{"board-7": pub, "cloud-1": pub}, pub)
		if err != nil {
			t.Fatal(err)
		}
		return testVerifier(t, VerifierOptions{Trust: trust, AnyParams: true, AnyKey: true})
	}
	for _, s := range v.Sealed {
		obj, err := Open(unhex(t, s.Sealed), verifier())
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		if results, _, err := obj.Meta.Results(obj.Body); err != nil || len(results) != max(int(obj.Meta.Packed), 1) {
			t.Errorf("%s: %d results, %v", s.Name, len(results), err)
		}
		if !reflect.DeepEqual(obj.Meta, s.Meta.meta(t)) || hex.EncodeToString(obj.Body) != s.Body ||
			hex.EncodeToString(obj.ID[:]) != s.ID {
			t.Errorf("%s: opened to something else", s.Name)
		}
	}
	for _, c := range v.Chunks {
		var s sink
		r := newReceiver(Limits{}, s.take)
		for _, b := range c.Chunks {
			feed(t, r, "t", unhex(t, b), nil)
		}
		if s.count("t") != 1 || hex.EncodeToString(s.got["t"][0]) != c.Object {
			t.Errorf("chunks %q do not make up their object", c.Name)
		}
	}
	for _, b := range v.Refused {
		var err error
		switch raw := unhex(t, b.Bytes); b.What {
		case "sealed":
			_, err = Open(raw, verifier())
		case "chunk":
			_, err = UnmarshalChunk(raw, 0)
		case "status":
			_, err = UnmarshalStatus(raw)
		case "receipt":
			_, err = UnmarshalReceipt(raw)
		case "ask":
			_, err = UnmarshalAsk(raw)
		case "pack":
			pack := v.Sealed[len(v.Sealed)-1].Meta.meta(t)
			_, _, err = pack.Results(raw)
		default:
			t.Fatalf("what is %q?", b.What)
		}
		if Reason(err) != b.Reason {
			t.Errorf("%s %q: %v, want reason %q", b.What, b.Name, err, b.Reason)
		}
	}
}

// TestDocument: every block "hex <name>" of the document is a vector, and the
// document names every refusal reason.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile("../docs/wire-format.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	v := loadVectors(t)
	known := map[string]string{"seed": v.Key.Seed, "public": v.Key.Public, "key-id": v.Key.KeyID}
	for _, s := range v.Sealed {
		known[s.Name+"-header"], known[s.Name+"-body"], known[s.Name+"-signed"] = s.Header, s.Body, s.Signed
		known[s.Name+"-sealed"], known[s.Name+"-id"] = s.Sealed, s.ID
	}
	for _, c := range v.Chunks {
		known["chunk-"+c.Name+"-0"], known["chunk-"+c.Name+"-id"] = c.Chunks[0], c.ID
	}
	seen := 0
	for _, m := range regexp.MustCompile("(?s)```hex ([a-z0-9-]+)\n(.*?)```").FindAllStringSubmatch(doc, -1) {
		seen++
		got := strings.Join(strings.Fields(m[2]), "")
		if want, ok := known[m[1]]; !ok || got != want {
			t.Errorf("block %q is not the vector", m[1])
		}
	}
	if seen < 8 {
		t.Errorf("the document shows %d vectors", seen)
	}
	for _, label := range Reasons() {
		if !strings.Contains(doc, "`"+label+"`") {
			t.Errorf("the document does not explain reason %q", label)
		}
	}
	flat := strings.Join(strings.Fields(doc), " ")
	for _, limit := range []string{
		fmt.Sprintf("default %d = 112 KiB", DefaultChunkSize), fmt.Sprintf("total = ceil(size / (M - %d))",
			chunkOverhead),
		fmt.Sprintf("M is %d KiB to %d MiB", MinChunkSize>>10, MaxChunkSize>>20),
		fmt.Sprintf("L is at least %d", minChunkData),
		fmt.Sprintf("| 3 | total | unsigned | 1 .. %d |", maxChunks),
		fmt.Sprintf("at most %d MiB by default, its header at most %d KiB", DefaultMaxObject>>20, MaxMeta>>10),
		fmt.Sprintf("at most %d chunks and %d MiB unacknowledged", DefaultWindowChunks, DefaultWindowBytes>>20),
		fmt.Sprintf("which of the %d numbers", DefaultReplayWindow),
		fmt.Sprintf("may have %d series", maxDeviceStreams), fmt.Sprintf("of the ciphertext, 0 .. %d |", MaxLevel),
		fmt.Sprintf("at most %d |", MaxSamples),
		fmt.Sprintf("1 .. %d; absent in a reading", MaxInputs), fmt.Sprintf("slot + count at most %d", MaxSlots),
		fmt.Sprintf("the %d bytes `%s`", len(sealContext), sealContext),
		fmt.Sprintf("at most %d printable ASCII", MaxStatusText), fmt.Sprintf("left out when empty | at most %d |",
			MaxStatusStreams), fmt.Sprintf("1 to %d characters", MaxName),
		fmt.Sprintf("a map in clear, at most %d KiB", maxStatus>>10),
		fmt.Sprintf("in slot order, at most %d", MaxStatusChannels),
		fmt.Sprintf("printable UTF-8, at most %d bytes", MaxDetail),
	} {
		if !strings.Contains(flat, limit) {
			t.Errorf("the document does not say %q", limit)
		}
	}
	defaults := Limits{}.withDefaults()
	for _, row := range []string{
		fmt.Sprintf("| objects | %d | %d |", defaults.TopicObjects, defaults.MaxObjects),
		fmt.Sprintf("| bytes | %d x the largest object | %d MiB |", defaults.TopicBytes/defaults.MaxObject,
			defaults.MaxBytes>>20),
		fmt.Sprintf("| idle time of an object | %.0f minutes |", defaults.MaxAge.Minutes()),
		fmt.Sprintf("The last %d finished objects", defaults.Remember),
	} {
		if !strings.Contains(flat, row) {
			t.Errorf("the document does not say %q", row)
		}
	}
	if !strings.Contains(doc, v.Key.Text) {
		t.Error("the document does not show the public key text")
	}
}
