package sink

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/golang/snappy"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder/outlet"
	"github.com/hencedge/hencedge/keyholder/store"
)

// remote posts requests of Prometheus remote write 1.0.
type remote struct{ *outlet.Web }

func newRemote(cfg *config.HTTP) (*remote, error) {
	w, err := outlet.NewWeb(cfg)
	return &remote{w}, err
}

// send halves what the receiver refuses until it knows the results that are at fault: one sample
// that is out of order makes Prometheus refuse the whole request.
func (p *remote) send(ctx context.Context, rows []store.Row) (done int, refused []error, err error) {
	err = p.post(ctx, rows)
	switch {
	case err == nil:
		return len(rows), nil, nil
	case !unfit(err):
		return 0, nil, err
	case len(rows) == 1:
		return 1, []error{err}, nil
	}
	half := len(rows) / 2
	if done, refused, err = p.send(ctx, rows[:half]); err != nil {
		return done, refused, err
	}
	more, others, err := p.send(ctx, rows[half:])
	return done + more, append(refused, others...), err
}

func (p *remote) post(ctx context.Context, rows []store.Row) error {
	request := appendRequest(nil, rows)
	if len(request) == 0 { // no result has a number
		return nil
	}
	return p.Post(ctx, "", snappy.Encode(nil, request), http.Header{
		"Content-Encoding":                  {"snappy"},
		"Content-Type":                      {"application/x-protobuf"},
		"X-Prometheus-Remote-Write-Version": {"0.1.0"},
	})
}

// unfit reports whether a receiver refuses what it was sent. It does not where the way to it is
// at fault: a redirect, an address or a login that is wrong, a Prometheus that is no receiver.
func unfit(err error) bool {
	var status *outlet.StatusError
	if !errors.As(err, &status) || !errors.Is(err, outlet.ErrRefused) {
		return false
	}
	switch status.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired:
		return false
	}
	return status.Code >= 400
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
