package parquet

import "encoding/binary"

// Types of Thrift's compact protocol.
const (
	thriftTrue   = 1
	thriftInt    = 5
	thriftWide   = 6
	thriftText   = 8
	thriftList   = 9
	thriftStruct = 12
)

// thrift is a structure in Thrift's compact protocol. The ids of its fields must grow.
type thrift struct {
	b     []byte
	last  int   // id of the field before
	outer []int // those of the structures around this one
}

func (t *thrift) field(id, kind int) {
	t.b = append(t.b, byte((id-t.last)<<4|kind)) // ids are at most 15 apart
	t.last = id
}

// value appends a number: zigzag, seven bits a byte.
func (t *thrift) value(v int64) { t.b = binary.AppendVarint(t.b, v) }

func (t *thrift) bytes(s string) {
	t.b = binary.AppendUvarint(t.b, uint64(len(s)))
	t.b = append(t.b, s...)
}

func (t *thrift) int(id int, v int64) {
	t.field(id, thriftInt)
	t.value(v)
}

func (t *thrift) wide(id int, v int64) {
	t.field(id, thriftWide)
	t.value(v)
}

func (t *thrift) text(id int, s string) {
	t.field(id, thriftText)
	t.bytes(s)
}

func (t *thrift) yes(id int) { t.field(id, thriftTrue) }

// list begins a list of n elements. Those that are structures begin with element.
func (t *thrift) list(id, kind, n int) {
	t.field(id, thriftList)
	if n < 15 {
		t.b = append(t.b, byte(n<<4|kind))
		return
	}
	t.b = append(t.b, byte(15<<4|kind))
	t.b = binary.AppendUvarint(t.b, uint64(n))
}

// begin opens a structure as a field; end closes it.
func (t *thrift) begin(id int) {
	t.field(id, thriftStruct)
	t.element()
}

func (t *thrift) end() { t.stop() }

// element opens a structure in a list.
func (t *thrift) element() {
	t.outer = append(t.outer, t.last)
	t.last = 0
}

// stop closes a structure, also the outermost one.
func (t *thrift) stop() {
	t.b = append(t.b, 0)
	if n := len(t.outer); n > 0 {
		t.last, t.outer = t.outer[n-1], t.outer[:n-1]
	}
}
