package cpu

import (
	"testing"
	"unsafe"
)

// TestHugeBytes: whole large pages within the words, as many as there are.
func TestHugeBytes(t *testing.T) {
	all := make([]uint32, hugeWords+hugePage)
	for _, c := range []struct{ from, words int }{{0, hugeWords}, {1, hugeWords}, {1023, hugeWords + 4097},
		{7, len(all) - 7}, {0, hugeWords - 1}} {
		words := all[c.from : c.from+c.words]
		b := hugeBytes(words)
		if c.words < hugeWords {
			if b != nil {
				t.Errorf("%d words: %d bytes of large pages", c.words, len(b))
			}
			continue
		}
		first, last := uintptr(unsafe.Pointer(&words[0])), uintptr(unsafe.Pointer(&words[c.words-1]))+4
		p := uintptr(unsafe.Pointer(&b[0]))
		end := p + uintptr(len(b))
		if p%hugePage != 0 || end%hugePage != 0 || p < first || end > last || p-first >= hugePage ||
			last-end >= hugePage {
			t.Errorf("%#x to %#x of %#x to %#x", p, end, first, last)
		}
		hugePages(words)
		words[0], words[c.words-1] = 1, 2
		collapse(words)
		if words[0] != 1 || words[c.words-1] != 2 || words[1] != 0 {
			t.Error("the words changed")
		}
	}
}
