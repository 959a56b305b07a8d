package store

import (
	"testing"

	"github.com/hencedge/hencedge/transport"
)

// TestAnswersTakeTurns: a device that asks without end loses answers of its own only, and
// the next one waits for a single receipt of it.
func TestAnswersTakeTurns(t *testing.T) {
	a := newAnswers()
	for i := range 10_000 {
		a.put("greedy", transport.ReceiptItem{Object: [32]byte{byte(i), byte(i >> 8)}})
	}
	a.put("quiet", transport.ReceiptItem{Object: [32]byte{1}})
	a.put("quiet", transport.ReceiptItem{Object: [32]byte{2}})
	select {
	case <-a.some:
	default:
		t.Error("nobody is told")
	}
	var order []string
	count := map[string]int{}
	for to, items := a.take(); items != nil; to, items = a.take() {
		if len(items) > transport.MaxReceiptItems {
			t.Errorf("%d items in a receipt", len(items))
		}
		order = append(order, to)
		count[to] += len(items)
	}
	if count["greedy"] != maxAnswers || count["quiet"] != 2 || order[1] != "quiet" {
		t.Errorf("%v in the order %v", count, order)
	}
	if len(a.by) != 0 || len(a.turn) != 0 {
		t.Error("something is left")
	}
}
