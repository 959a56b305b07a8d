package store

import (
	"sync"

	"github.com/hencedge/hencedge/transport"
)

// answers are the items of receipts that wait to be sent. The addressees take turns, so
// that one who asks without end does not delay the others.
type answers struct {
	some chan struct{} // holds a token while some may wait

	mu   sync.Mutex
	by   map[string][]transport.ReceiptItem // by addressee
	turn []string                           // the addressees in by, next first
}

// maxAnswers bounds the items that wait for one addressee.
const maxAnswers = 4 * transport.MaxReceiptItems

func newAnswers() *answers {
	return &answers{some: make(chan struct{}, 1), by: map[string][]transport.ReceiptItem{}}
}

// put adds an item. If too many wait, it drops the item: an addressee that misses it asks.
func (a *answers) put(to string, it transport.ReceiptItem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items := a.by[to]
	if len(items) >= maxAnswers {
		return
	}
	if len(items) == 0 {
		a.turn = append(a.turn, to)
	}
	a.by[to] = append(items, it)
	select {
	case a.some <- struct{}{}:
	default:
	}
}

// take returns the items of the next receipt; none when none wait.
func (a *answers) take() (to string, items []transport.ReceiptItem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.turn) == 0 {
		return "", nil
	}
	to, a.turn = a.turn[0], a.turn[1:]
	items = a.by[to]
	if n := transport.MaxReceiptItems; len(items) > n {
		a.by[to], items = items[n:], items[:n:n]
		a.turn = append(a.turn, to)
	} else {
		delete(a.by, to)
	}
	return to, items
}
