package sink

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder/outlet"
	"github.com/hencedge/hencedge/keyholder/store"
)

// mqtt publishes each result as "results watch --json" prints it.
type mqtt struct {
	*outlet.Publisher
	topic string
}

func newMQTT(cfg *config.AlertMQTT, log *slog.Logger) (*mqtt, error) {
	p, err := outlet.NewPublisher(cfg, log)
	return &mqtt{p, cfg.Topic}, err
}

func (m *mqtt) send(ctx context.Context, rows []store.Row) (done int, refused []error, err error) {
	for i, r := range rows {
		text, err := json.Marshal(r.Result)
		topic := m.topic + "/" + r.Program
		if r.Device != "" {
			topic += "/" + r.Device
		}
		if err == nil {
			err = m.Publish(ctx, topic, text)
		}
		if err != nil {
			return i, nil, err
		}
	}
	return len(rows), nil, nil
}

// influx posts lines of InfluxDB's line protocol. A point that it refuses, since a field has
// another type there or its time is beyond the retention, is left out.
type influx struct{ *outlet.Web }

func newInflux(cfg *config.HTTP) (*influx, error) {
	w, err := outlet.NewWeb(cfg)
	return &influx{w}, err
}

// emptyWrite is what InfluxDB 3 answers, with status 400, to a request of comments alone, once
// address and login were right.
const emptyWrite = "incoming write was empty"

func (f *influx) send(ctx context.Context, rows []store.Row) (done int, refused []error, err error) {
	return sendSome(ctx, f, rows)
}

func (f *influx) post(ctx context.Context, rows []store.Row) error {
	var b []byte
	for _, r := range rows {
		b = appendLine(b, r)
	}
	if len(b) == 0 { // no result has a number
		return nil
	}
	return f.lines(ctx, b)
}

// probe posts a comment: InfluxDB 2 refuses a request without a byte.
func (f *influx) probe(ctx context.Context) error {
	err := f.lines(ctx, []byte("# hencedge\n"))
	var status *outlet.StatusError
	if errors.As(err, &status) && status.Code == http.StatusBadRequest && strings.Contains(err.Error(), emptyWrite) {
		return nil
	}
	return err
}

func (f *influx) lines(ctx context.Context, b []byte) error {
	return f.Post(ctx, "", b, http.Header{"Content-Type": {"text/plain; charset=utf-8"}})
}

// Characters with a meaning of their own in names, and in those of tags.
var (
	escapeName = strings.NewReplacer(",", `\,`, " ", `\ `, "\n", `\ `, "\r", `\ `)
	escapeTag  = strings.NewReplacer(",", `\,`, " ", `\ `, "=", `\=`, "\n", `\ `, "\r", `\ `)
)

// appendLine appends a result: the program is the measurement, device, evaluator and unit are
// tags, value, value_1 and so on, bound and samples fields; the time is the start of the window.
// The same result again is the same point. A result without a number gives no line.
func appendLine(b []byte, r store.Row) []byte {
	start, fields := len(b), 0
	b = append(b, escapeName.Replace(r.Program)...)
	for _, tag := range [][2]string{{"device", r.Device}, {"evaluator", r.Evaluator}, {"unit", r.Unit}} {
		if text := strings.TrimRight(tag[1], `\`); text != "" { // a backslash would escape what follows
			b = append(append(append(b, ","+tag[0]...), '='), escapeTag.Replace(text)...)
		}
	}
	field := func(name string, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		b = append(b, " ,"[min(fields, 1)])
		b = append(append(b, name...), '=')
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
		fields++
	}
	for i, v := range r.Values {
		name := "value"
		if i > 0 {
			name += "_" + strconv.Itoa(i)
		}
		field(name, v)
	}
	if fields == 0 {
		return b[:start]
	}
	field("bound", r.Bound)
	samples := int64(r.Samples)
	if r.Fleet != nil {
		samples = int64(r.Fleet.Samples)
	}
	b = append(b, ",samples="...)
	b = append(strconv.AppendInt(b, samples, 10), "i "...)
	return append(strconv.AppendInt(b, r.Start.UnixNano(), 10), '\n')
}
