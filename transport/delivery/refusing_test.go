package delivery

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// A stream of which nothing is taken is told at once, with what differs; single
// refusals of a stream that is taken are not.
func TestRefusing(t *testing.T) {
	clock := &testrig.Clock{}
	c := &Courier{o: Options{Clock: clock}, refusals: map[string]*refusing{}}
	_, why := settled(transport.ReceiptItem{Outcome: transport.Refused, Reason: "wrong_layout",
		Detail: "range: [0, 1] there, [0, 2] here"})
	c.note("new", why)
	if got := c.allRefused()["new"]; got != "refused: wrong_layout: range: [0, 1] there, [0, 2] here" {
		t.Errorf("new: %q", got)
	}
	c.note("old", nil)
	c.note("old", why)
	if got := c.allRefused(); got["old"] != "" {
		t.Errorf("one refusal: %q", got)
	}
	clock.Advance(refusedForAll)
	if got := c.allRefused(); got["old"] == "" {
		t.Error("a refusal that nothing follows is not told")
	}
	c.note("old", nil)
	for range refusedInRow {
		c.note("old", fmt.Errorf("x: %w", why))
	}
	if got := c.allRefused(); got["old"] == "" {
		t.Error("refusals in a row are not told")
	}
	c.note("old", errors.New("no connection"))
	if got := c.allRefused(); got["old"] == "" {
		t.Error("a lost connection takes a refusal back")
	}
	c.note("old", nil)
	if got := c.allRefused(); got["old"] != "" {
		t.Errorf("after a success: %q", got)
	}
	_, why = settled(transport.ReceiptItem{Outcome: transport.Refused, Reason: transport.ReasonUnread,
		Detail: "of board1 it reads system"})
	if !errors.Is(why, errUnread) || why.Error() != errUnread.Error()+": of board1 it reads system" {
		t.Error(why)
	}
}
