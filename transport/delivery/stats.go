package delivery

import "time"

// Stats returns the counts so far.
func (c *Courier) Stats() Stats {
	c.mu.Lock()
	trouble, unreadable, refusing := c.trouble, c.unreadable, c.allRefused()
	c.mu.Unlock()
	sent := c.sender.Stats()
	out := Stats{
		Delivered: c.delivered.Load(), DeliveredBytes: c.bytes.Load(), Live: c.live.Load(),
		Chunks: sent.Chunks, ChunkBytes: sent.Bytes, Skipped: c.skipped.Load(), Asks: c.asks.Load(),
		Receipts: c.receipts.Load(),
		Forged:   c.forged.Load(), Retries: c.retries.Load(), Refused: c.refused.Load(), Dropped: c.dropped.Load(),
		Renumbered: c.renumbered.Load(), Before: c.before.Load(), ChunkSize: c.shrink.now(),
		LastDelivered: c.last.Load(), Closed: c.closed.Load(),
		LastTrouble: trouble, Unreadable: unreadable, Refusing: refusing,
	}
	if c.bucket != nil {
		c.bucket.mu.Lock()
		out.Throttled = c.bucket.waited
		c.bucket.mu.Unlock()
	}
	return out
}

// Stats are the counts of a courier.
type Stats struct {
	Delivered, DeliveredBytes uint64 // objects that left the spool
	Live                      uint64 // of these, from the live lane
	Chunks, ChunkBytes        uint64 // messages that the broker acknowledged
	Skipped                   uint64 // chunks that the receiver had already
	Asks, Receipts, Forged    uint64 // sent; that counted; that did not verify
	Retries                   uint64 // attempts after a failure or without a receipt
	Refused                   uint64 // refusals by the receiver
	Dropped                   uint64 // objects that can never be sent
	Renumbered                uint64 // objects whose number somebody else had used
	// Before counts objects of an earlier process that the receiver already had. Few are
	// normal, since of each stream few are under way at a time. Many mean that the spool is
	// an old copy.
	Before        uint64
	ChunkSize     int   // in use: below that of the options where larger chunks vanished
	LastDelivered int64 // unix nanoseconds
	Closed        bool  // outside the hours
	Throttled     time.Duration
	LastTrouble   string // why the last attempt failed; empty after a success
	Unreadable    string // why the last receipt of a receiver cannot be read; empty: it can
	// Refusing are the streams of which the receiver takes nothing, each with its reason.
	Refusing map[string]string
}
