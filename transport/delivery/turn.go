package delivery

import "context"

// turn is a right to read and send an object. There are few of them. Waiting for an answer
// takes none, so that streams with a silent receiver do not hold the others up.
type turn struct {
	c    *Courier
	held bool
}

func (t *turn) take(ctx context.Context) error {
	if t.held {
		return nil
	}
	select {
	case t.c.slots <- struct{}{}:
		t.held = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) rest() {
	if t.held {
		<-t.c.slots
		t.held = false
	}
}
