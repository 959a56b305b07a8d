package wire

import "fmt"

// List opens an array of n elements, 0 <= n < 2^16, which the caller then writes.
func (w *Writer) List(n int) {
	switch {
	case n < 0 || n >= 1<<16:
		w.fail(fmt.Errorf("%w: list of %d elements", ErrMalformed, n))
	case n <= maxHead:
		w.b = append(w.b, 0x80|byte(n))
	case n < 1<<8:
		w.b = append(w.b, 0x98, byte(n))
	default:
		w.b = append(w.b, 0x99, byte(n>>8), byte(n))
	}
}

// List reads the head of an array of at most limit elements, limit < 2^16, in the
// shortest form, and returns their number.
func (r *Reader) List(limit int) int {
	r.fill(3)
	if r.err != nil {
		return 0
	}
	if len(r.b) == 0 {
		r.fail(fmt.Errorf("%w: a list is missing", ErrTruncated))
		return 0
	}
	size := map[byte]int{0x98: 2, 0x99: 3}[r.b[0]]
	if size == 0 {
		size = 1
	}
	if len(r.b) < size {
		r.fail(fmt.Errorf("%w: the head of a list", ErrTruncated))
		return 0
	}
	n, shortest := 0, 0
	switch size {
	case 1:
		if n = int(r.b[0]) - 0x80; n > maxHead {
			n = -1
		}
	case 2:
		n, shortest = int(r.b[1]), maxHead+1
	default:
		n, shortest = int(r.b[1])<<8|int(r.b[2]), 1<<8
	}
	if n < shortest || n > limit {
		r.fail(fmt.Errorf("%w: % x where a list of at most %d elements begins", ErrMalformed, r.b[:size], limit))
		return 0
	}
	r.b = r.b[size:]
	return n
}

// Secret is Blob without a temporary copy, for secrets; v is not nil.
func (w *Writer) Secret(v []byte) {
	w.b = append(appendBlobHead(w.b, uint64(len(v))), v...)
}
