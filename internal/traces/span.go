package traces

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// maxLinks bounds the windows that a span is linked to, beside its own.
const maxLinks = 128

// A SpanID names a span within its trace.
type SpanID [8]byte

// Window returns the id of the first span of a window: its sampling at the agent. object is the id
// of the window's sealed object.
func Window(object [32]byte) SpanID { return SpanID(object[16:24]) }

// Published returns the id of the span in which an evaluator publishes a result of a program for
// device, which may be empty. object is the id of the sealed result, or of the pack that it is in.
func Published(object [32]byte, program, device string) SpanID {
	sum := sha256.Sum256([]byte("hencedge published v1\x00" + string(object[:]) + program + "\x00" + device))
	return SpanID(sum[:])
}

// Collected returns the id of the first span of a sum across devices: the arrival of its windows.
// digest is that of their ids in the header of the result.
func Collected(digest [32]byte, program string) SpanID {
	sum := sha256.Sum256([]byte("hencedge collected v1\x00" + string(digest[:]) + program))
	return SpanID(sum[:])
}

// A Span is one step of a window, or of a result.
type Span struct {
	Name string
	// Window is the id of the sealed window that the span belongs to: of a result's first input. Of a
	// sum across devices it is the digest of its windows.
	Window [32]byte
	// Fleet: the span is of such a sum. There is one for many windows, so it is exported whatever the
	// share, and has links to those windows that are exported too.
	Fleet  bool
	ID     SpanID // zeros: a random one
	Parent SpanID // zeros: Window(Window), or none if that is ID or for a sum
	Start  time.Time
	End    time.Time
	Links  [][32]byte // other windows, of which 128 count
	// Of what the header of an object says; empty, or zero, is left out.
	Device, Stream, Program string
	Object                  [32]byte // the sealed object that the step is about
	Sequence                uint64
	Bytes                   int // of the sealed object
}

// Reading returns a span of a window with what its header says. The caller gives it a name and times.
func Reading(m *transport.Meta, object [32]byte, bytes int) Span {
	return Span{Window: object, Device: m.Device, Stream: m.Stream, Object: object, Sequence: m.Sequence, Bytes: bytes}
}

// Result returns a span of a result with what its header says; ok is false for one without inputs. A
// result across devices names up to transport.MaxInputs windows. object is the id of the sealed result.
func Result(m *transport.Meta, object [32]byte, bytes int) (s Span, ok bool) {
	if f := m.Fleet; f != nil {
		return Span{Window: f.Digest, Fleet: true, Parent: Collected(f.Digest, m.Program), Links: m.Inputs,
			Program: m.Program, Object: object, Sequence: m.Sequence, Bytes: bytes}, true
	}
	if len(m.Inputs) == 0 {
		return s, false
	}
	return Span{Window: m.Inputs[0], Links: m.Inputs[1:], Device: m.Subject, Program: m.Program, Object: object,
		Sequence: m.Sequence, Bytes: bytes}, true
}

// chosen reports whether a share of all windows has this one: each role chooses the same.
func chosen(window [32]byte, share float64) bool {
	return share >= 1 || float64(binary.BigEndian.Uint64(window[8:])) < share*math.MaxUint64
}

// The messages of OTLP/JSON. Numbers of 64 bits are text there, ids are hexadecimal.
type (
	wireRequest struct {
		ResourceSpans []wireResourceSpans `json:"resourceSpans"`
	}
	wireResourceSpans struct {
		Resource   wireResource     `json:"resource"`
		ScopeSpans []wireScopeSpans `json:"scopeSpans"`
	}
	wireResource struct {
		Attributes []wireAttribute `json:"attributes"`
	}
	wireScopeSpans struct {
		Scope wireScope  `json:"scope"`
		Spans []wireSpan `json:"spans"`
	}
	wireScope struct {
		Name string `json:"name"`
	}
	wireSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		Parent     string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []wireAttribute `json:"attributes"`
		Links      []wireLink      `json:"links,omitempty"`
	}
	wireLink struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	wireAttribute struct {
		Key   string    `json:"key"`
		Value wireValue `json:"value"`
	}
	wireValue struct {
		Text   *string `json:"stringValue,omitempty"`
		Number *string `json:"intValue,omitempty"`
	}
)

const kindInternal = 1

// request returns the bytes that a collector gets.
func request(resource []wireAttribute, spans []Span) ([]byte, error) {
	out := wireScopeSpans{Scope: wireScope{"hencedge"}}
	for i := range spans {
		out.Spans = append(out.Spans, spans[i].wire())
	}
	return json.Marshal(wireRequest{[]wireResourceSpans{{wireResource{resource}, []wireScopeSpans{out}}}})
}

func (s *Span) wire() wireSpan {
	root := Window(s.Window)
	if !s.Fleet && s.Parent == (SpanID{}) && s.ID != root {
		s.Parent = root
	}
	w := wireSpan{TraceID: traceID(s.Window), SpanID: hex.EncodeToString(s.ID[:]), Name: s.Name, Kind: kindInternal,
		Start: strconv.FormatInt(s.Start.UnixNano(), 10), End: strconv.FormatInt(s.End.UnixNano(), 10)}
	if s.Parent != (SpanID{}) {
		w.Parent = hex.EncodeToString(s.Parent[:])
	}
	for _, l := range s.Links[:min(len(s.Links), maxLinks)] {
		of := Window(l)
		w.Links = append(w.Links, wireLink{traceID(l), hex.EncodeToString(of[:])})
	}
	w.Attributes = append(w.Attributes, text("hencedge.object", hex.EncodeToString(s.Object[:])))
	for _, a := range [][2]string{{"hencedge.device", s.Device}, {"hencedge.stream", s.Stream},
		{"hencedge.program", s.Program}} {
		if a[1] != "" {
			w.Attributes = append(w.Attributes, text(a[0], a[1]))
		}
	}
	w.Attributes = append(w.Attributes, number("hencedge.sequence", s.Sequence))
	if s.Bytes > 0 {
		w.Attributes = append(w.Attributes, number("hencedge.bytes", uint64(s.Bytes)))
	}
	return w
}

func traceID(window [32]byte) string { return hex.EncodeToString(window[:16]) }

func text(key, value string) wireAttribute { return wireAttribute{key, wireValue{Text: &value}} }

func number(key string, n uint64) wireAttribute {
	value := strconv.FormatUint(n, 10)
	return wireAttribute{key, wireValue{Number: &value}}
}
