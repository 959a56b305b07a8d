package sink

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/golang/snappy"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder/outlet"
	"github.com/hencedge/hencedge/keyholder/store"
)

// remote posts requests of Prometheus remote write 1.0.
type remote struct {
	*outlet.Web
	now func() time.Time
}

// Bounds of requests.
const (
	// maxSamples is how many samples are in a request, unless one result has more: as many as
	// Prometheus itself sends at a time.
	maxSamples = 2000
	// ahead is how much later than now a sample may be. Prometheus 2.42 takes any, and from then
	// on refuses all that is more than an hour older; later versions have this bound themselves.
	ahead = 10 * time.Minute
)

var errAhead = errors.New("it ends more than 10 minutes ahead of this machine's clock, after which a Prometheus may " +
	"take no others; set the clock of the device")

func newRemote(cfg *config.HTTP, now func() time.Time) (*remote, error) {
	w, err := outlet.NewWeb(cfg)
	if now == nil {
		now = time.Now
	}
	return &remote{w, now}, err
}

// send leaves out results of a clock that is ahead.
func (p *remote) send(ctx context.Context, rows []store.Row) (done int, refused []error, err error) {
	latest := p.now().Add(ahead)
	var fit []store.Row
	var places []int // of fit in rows
	for i, r := range rows {
		if !r.End.After(latest) {
			fit, places = append(fit, r), append(places, i)
		}
	}
	n, refused, err := p.sendAll(ctx, fit)
	if done = len(rows); n < len(fit) {
		done = places[n]
	}
	for _, r := range rows[:done] {
		if r.End.After(latest) {
			refused = append(refused, fmt.Errorf("program %s, device %q: %w", r.Program, r.Device, errAhead))
		}
	}
	return done, refused, err
}

// sendAll sends results, of which each request has as many as fit.
func (p *remote) sendAll(ctx context.Context, rows []store.Row) (done int, refused []error, err error) {
	for done < len(rows) && err == nil {
		end, samples := done, 0
		for end < len(rows) && (end == done || samples+len(rows[end].Values) < maxSamples) {
			samples += len(rows[end].Values) + 1
			end++
		}
		var n int
		var others []error
		n, others, err = sendSome(ctx, p, rows[done:end])
		done, refused = done+n, append(refused, others...)
	}
	return done, refused, err
}

func (p *remote) post(ctx context.Context, rows []store.Row) error {
	request := appendRequest(nil, rows)
	if len(request) == 0 { // no result has a number
		return nil
	}
	return p.request(ctx, request)
}

// probe posts a request without samples.
func (p *remote) probe(ctx context.Context) error { return p.request(ctx, nil) }

// request posts a WriteRequest.
func (p *remote) request(ctx context.Context, request []byte) error {
	return p.Post(ctx, "", snappy.Encode(nil, request), http.Header{
		"Content-Encoding":                  {"snappy"},
		"Content-Type":                      {"application/x-protobuf"},
		"X-Prometheus-Remote-Write-Version": {"0.1.0"},
	})
}

// series is a TimeSeries of remote write: its labels as they are encoded, and samples.
type series struct {
	labels  []byte
	samples []sample
}

type sample struct {
	value float64
	at    int64 // milliseconds since 1970
}

// Fields of the messages of remote write, each with its wire type: WriteRequest.timeseries,
// TimeSeries.labels and samples, Label.name and value, Sample.value and timestamp.
const (
	tagSeries  = 1<<3 | 2
	tagLabels  = 1<<3 | 2
	tagSamples = 2<<3 | 2
	tagName    = 1<<3 | 2
	tagText    = 2<<3 | 2
	tagValue   = 1<<3 | 1
	tagTime    = 2 << 3 // and wire type 0
)

// appendRequest appends a WriteRequest: hencedge_result_value with the labels device, evaluator,
// program and unit, and index for values after the first, and hencedge_result_bound without unit,
// at the end of the window. Series have their samples in the order of time, one for each
// millisecond: the first that arrived. A result without a number adds nothing.
func appendRequest(b []byte, rows []store.Row) []byte {
	var all []*series
	known := map[string]*series{}
	add := func(labels []byte, s sample) {
		to := known[string(labels)]
		if to == nil {
			to = &series{labels: labels}
			known[string(labels)] = to
			all = append(all, to)
		}
		to.samples = append(to.samples, s)
	}
	for _, r := range rows {
		numbers, at := 0, r.End.UnixMilli()
		for i, v := range r.Values {
			if !finite(v) {
				continue
			}
			index := ""
			if i > 0 {
				index = strconv.Itoa(i)
			}
			add(labels("hencedge_result_value", r, index, r.Unit), sample{v, at})
			numbers++
		}
		if numbers > 0 && finite(r.Bound) {
			add(labels("hencedge_result_bound", r, "", ""), sample{r.Bound, at})
		}
	}
	for _, s := range all {
		b = appendBytes(b, tagSeries, s.encode())
	}
	return b
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// labels encodes the labels of a series, sorted by name; one that is empty is none.
func labels(name string, r store.Row, index, unit string) (b []byte) {
	for _, l := range [][2]string{{"__name__", name}, {"device", r.Device}, {"evaluator", r.Evaluator},
		{"index", index}, {"program", r.Program}, {"unit", unit}} {
		if l[1] != "" {
			label := appendBytes(nil, tagName, []byte(l[0]))
			label = appendBytes(label, tagText, bytes.ToValidUTF8([]byte(l[1]), []byte("\ufffd")))
			b = appendBytes(b, tagLabels, label)
		}
	}
	return b
}

// encode returns the message; it sorts the samples.
func (s *series) encode() []byte {
	slices.SortStableFunc(s.samples, func(x, y sample) int { return cmp.Compare(x.at, y.at) })
	b := slices.Clone(s.labels)
	for i, x := range s.samples {
		if i > 0 && x.at == s.samples[i-1].at {
			continue
		}
		m := binary.LittleEndian.AppendUint64([]byte{tagValue}, math.Float64bits(x.value))
		b = appendBytes(b, tagSamples, binary.AppendUvarint(append(m, tagTime), uint64(x.at)))
	}
	return b
}

// appendBytes appends a field of text or of a message.
func appendBytes(b []byte, tag byte, content []byte) []byte {
	return append(binary.AppendUvarint(append(b, tag), uint64(len(content))), content...)
}
