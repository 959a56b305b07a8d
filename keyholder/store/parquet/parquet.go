// Package parquet writes results as a Parquet file: the columns of the CSV, one row for each
// value. It knows the little of the format that one flat table needs: required columns, pages
// of plain values in gzip.
package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"

	"github.com/hencedge/hencedge/keyholder"
)

// Numbers of the format (parquet.thrift).
const (
	typeInt64, typeDouble, typeBytes = 2, 5, 6
	required                         = 0
	textType                         = 0 // ConvertedType UTF8
	logicalText, logicalTime         = 1, 8
	nanoseconds                      = 3
	plain, rle                       = 0, 3
	codecGzip                        = 2
	pageData                         = 0
	formatVersion                    = 1
)

const magic = "PAR1"

// groupRows is how many rows are held in memory and make a row group.
const groupRows = 1 << 16

// column is a column and its values of the group that is not written yet.
type column struct {
	name string
	kind int
	time bool
	data []byte
}

func (c *column) number(v int64) { c.data = binary.LittleEndian.AppendUint64(c.data, uint64(v)) }

func (c *column) double(v float64) { c.number(int64(math.Float64bits(v))) }

func (c *column) text(s string) {
	c.data = binary.LittleEndian.AppendUint32(c.data, uint32(len(s)))
	c.data = append(c.data, s...)
}

// chunk is the part of a column in a row group, as it was written.
type chunk struct{ offset, plain, packed int64 }

// group is a row group, as it was written.
type group struct {
	rows   int64
	chunks []chunk
}

// Writer writes results to a Parquet file. It is not safe for concurrent use.
type Writer struct {
	w       io.Writer
	at      int64 // bytes written
	columns []*column
	rows    int64 // of the group that is not written yet
	groups  []group
	err     error // of the first write that failed
}

var _ keyholder.Writer = (*Writer)(nil)

// NewWriter returns a Writer to w. The file can be read after Close.
func NewWriter(w io.Writer) *Writer {
	out := &Writer{w: w}
	for _, c := range []column{{name: "program", kind: typeBytes}, {name: "evaluator", kind: typeBytes},
		{name: "epoch", kind: typeInt64}, {name: "boot_epoch", kind: typeInt64}, {name: "sequence", kind: typeInt64},
		{name: "start", kind: typeInt64, time: true}, {name: "end", kind: typeInt64, time: true},
		{name: "samples", kind: typeInt64}, {name: "index", kind: typeInt64}, {name: "value", kind: typeDouble},
		{name: "bound", kind: typeDouble}, {name: "unit", kind: typeBytes}, {name: "id", kind: typeBytes},
		{name: "device", kind: typeBytes}, {name: "devices", kind: typeInt64}} {
		out.columns = append(out.columns, &c)
	}
	out.write([]byte(magic))
	return out
}

// Write adds a row for each value of a result. Results across devices have their number in
// devices, others 0. It returns the first error of the file.
func (w *Writer) Write(r *keyholder.Result) error {
	samples, devices := int64(r.Samples), int64(0)
	if f := r.Fleet; f != nil {
		samples, devices = int64(f.Samples), int64(f.Devices)
	}
	for i, v := range r.Values {
		c := w.columns
		c[0].text(r.Program)
		c[1].text(r.Evaluator)
		for k, n := range []int64{int64(r.Epoch), int64(r.BootEpoch), int64(r.Sequence), r.Start.UnixNano(),
			r.End.UnixNano(), samples, int64(i)} {
			c[2+k].number(n)
		}
		c[9].double(v)
		c[10].double(r.Bound)
		c[11].text(r.Unit)
		c[12].text(hex.EncodeToString(r.ID[:]))
		c[13].text(r.Device)
		c[14].number(devices)
		if w.rows++; w.rows == groupRows {
			w.flush()
		}
	}
	return w.err
}

// Close ends the file. It does not close the io.Writer.
func (w *Writer) Close() error {
	if w.rows > 0 {
		w.flush()
	}
	footer := w.footer()
	w.write(footer)
	w.write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), magic...))
	err := w.err
	if w.err == nil {
		w.err = errClosed
	}
	return err
}

var errClosed = errors.New("the file was closed")

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(b)
	w.at, w.err = w.at+int64(n), err
}

// flush writes the rows as a group: for each column one page.
func (w *Writer) flush() {
	g := group{rows: w.rows}
	for _, c := range w.columns {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write(c.data)
		if err = errors.Join(err, z.Close()); err != nil && w.err == nil {
			w.err = err
		}
		var h thrift
		h.int(1, pageData)
		h.int(2, int64(len(c.data)))
		h.int(3, int64(packed.Len()))
		h.begin(5)
		h.int(1, w.rows)
		h.int(2, plain)
		h.int(3, rle)
		h.int(4, rle)
		h.end()
		h.stop()
		head := int64(len(h.b))
		g.chunks = append(g.chunks, chunk{w.at, head + int64(len(c.data)), head + int64(packed.Len())})
		w.write(h.b)
		w.write(packed.Bytes())
		c.data = c.data[:0]
	}
	w.groups = append(w.groups, g)
	w.rows = 0
}

// footer returns the FileMetaData.
func (w *Writer) footer() []byte {
	var t thrift
	t.int(1, formatVersion)
	t.list(2, thriftStruct, len(w.columns)+1)
	t.element()
	t.text(4, "results")
	t.int(5, int64(len(w.columns)))
	t.stop()
	for _, c := range w.columns {
		t.column(c)
	}
	rows := int64(0)
	for _, g := range w.groups {
		rows += g.rows
	}
	t.wide(3, rows)
	t.list(4, thriftStruct, len(w.groups))
	for _, g := range w.groups {
		t.element()
		t.list(1, thriftStruct, len(g.chunks))
		bytes := int64(0)
		for i, c := range g.chunks {
			t.element()
			t.wide(2, c.offset)
			t.begin(3)
			t.int(1, int64(w.columns[i].kind))
			t.list(2, thriftInt, 1)
			t.value(plain)
			t.list(3, thriftText, 1)
			t.bytes(w.columns[i].name)
			t.int(4, codecGzip)
			t.wide(5, g.rows)
			t.wide(6, c.plain)
			t.wide(7, c.packed)
			t.wide(9, c.offset)
			t.end()
			t.stop()
			bytes += c.plain
		}
		t.wide(2, bytes)
		t.wide(3, g.rows)
		t.stop()
	}
	t.text(6, "hencedge")
	t.stop()
	return t.b
}

// column writes the SchemaElement of a column.
func (t *thrift) column(c *column) {
	t.element()
	t.int(1, int64(c.kind))
	t.int(3, required)
	t.text(4, c.name)
	switch {
	case c.kind == typeBytes:
		t.int(6, textType)
		t.begin(10)
		t.begin(logicalText)
		t.end()
		t.end()
	case c.time:
		t.begin(10)
		t.begin(logicalTime)
		t.yes(1) // UTC
		t.begin(2)
		t.begin(nanoseconds)
		t.end()
		t.end()
		t.end()
		t.end()
	}
	t.stop()
}
