//go:build !nostore

package demo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/console"
	"github.com/hencedge/hencedge/keyholder/store"
	"github.com/hencedge/hencedge/transport"
)

// page shows the demo in a browser: the key holder's own page, and a view of all roles. A nil
// page does nothing.
type page struct {
	link    string
	show    *console.Show
	on      *console.Console
	writing *store.Store
	reading *store.Store
	tally   keyholder.Tally
	ear     transport.Client // listens to everything at the broker

	so sofar // for compared alone

	stop    context.CancelFunc
	running sync.WaitGroup
	once    sync.Once
	ended   error
}

// Events that a page keeps for browsers that open it later.
const (
	keptWindows  = 60
	keptMessages = 4 // of each direction
	keptRows     = 600
)

// hasPage returns nil: this program has one.
func hasPage() error { return nil }

// openPage serves the page, which hears of the board through the key holder's client, until ctx ends or close is
// called. Close it before the reader.
func openPage(ctx context.Context, s *stage, r *keyholder.Reader, client transport.Client) (*page, error) {
	p := &page{}
	ctx, p.stop = context.WithCancel(ctx)
	if err := p.open(ctx, s, r, client); err != nil {
		return nil, errors.Join(fmt.Errorf("the page: %w", err), p.close())
	}
	return p, nil
}

func (p *page) open(ctx context.Context, s *stage, r *keyholder.Reader, client transport.Client) (err error) {
	if p.show, err = console.NewShow(s.cast); err != nil {
		return err
	}
	history := s.holder.Kept()
	if p.writing, err = store.Open(ctx, store.Options{History: history, Logger: s.o.Logger}); err != nil {
		return err
	}
	p.reading, err = store.Open(ctx, store.Options{History: history, ReadOnly: true, Logger: s.o.Logger})
	if err != nil {
		return err
	}
	p.on, err = console.New(ctx, console.Options{Holder: s.holder, Reader: r, History: p.reading, Tally: &p.tally,
		Logger: s.o.Logger, Show: p.show, Enrolled: board(s.evaluator.Devices)})
	if err != nil {
		return err
	}
	s.holder.Console.Listen = p.on.Address()
	if p.link, err = console.Invite(s.holder, console.Holder, false, time.Now()); err != nil {
		return err
	}
	p.running.Go(func() {
		if err := p.on.Run(ctx); err != nil {
			s.o.Logger.Error("the page is not served any more", "error", err)
		}
	})
	p.running.Go(func() { p.on.ListenBoards(ctx, client) })
	return p.listen(ctx, s)
}

// board is what is enrolled: the demo's.
type board []config.Device

// Stamp returns the same text each time: nothing changes.
func (b board) Stamp() string { return deviceName }

// Each hands it to take.
func (b board) Each(take func(config.Device)) []error {
	for _, d := range b {
		take(d)
	}
	return nil
}

// close ends the page. It may be called again.
func (p *page) close() error {
	if p == nil {
		return nil
	}
	p.once.Do(func() {
		p.stop()
		p.running.Wait()
		if p.ear != nil {
			hangUp(p.ear)
		}
		if p.on != nil {
			p.ended = p.on.Close()
		}
		for _, s := range []*store.Store{p.reading, p.writing} {
			if s != nil {
				p.ended = errors.Join(p.ended, s.Close())
			}
		}
	})
	return p.ended
}

// listen shows what carries windows and results at the broker, as somebody would see it who has
// broken into that.
func (p *page) listen(ctx context.Context, s *stage) error {
	b, err := s.connection("listener")
	if err != nil {
		return err
	}
	b.ClientID, b.TopicPrefix = "listener", s.holder.Broker.TopicPrefix
	if p.ear, err = keyholder.Dial(ctx, b, s.o.Logger); err != nil {
		return err
	}
	prefix := b.TopicPrefix + "/"
	return p.ear.Subscribe(ctx, prefix+"#", func(d transport.Delivery) {
		d.Ack()
		switch kind, _, _ := strings.Cut(strings.TrimPrefix(d.Topic, prefix), "/"); kind {
		case "up", "res": // windows and results
			p.tell(kind, message(d, time.Now()), keptMessages)
		}
	})
}

// excerpt is how many bytes of a message are shown, from its middle.
const excerpt = 64

// wire is a message at the broker.
type wire struct {
	At    int64  `json:"at"` // Unix milliseconds
	Topic string `json:"topic"`
	Bytes int    `json:"bytes"`
	Place int    `json:"place"` // of the first byte of Hex
	Hex   string `json:"hex"`
}

func message(d transport.Delivery, now time.Time) wire {
	begin := max(0, (len(d.Payload)-excerpt)/2)
	part := d.Payload[begin:min(len(d.Payload), begin+excerpt)]
	return wire{now.UnixMilli(), d.Topic, len(d.Payload), begin, hex.EncodeToString(part)}
}

// tell shows an event. All that the demo tells can be written as JSON.
func (p *page) tell(name string, data any, most int) { _ = p.show.Tell(name, data, most) }

// keep stores a result and shows it.
func (p *page) keep(ctx context.Context, r *keyholder.Result) error {
	if p == nil {
		return nil
	}
	p.tally.Result(r)
	if err := p.writing.Keep(ctx, r); err != nil {
		return err
	}
	p.on.Observe(r)
	return nil
}

// maxShown bounds the samples of a channel that one window shows.
const maxShown = 64

// encrypted shows a window at the agent.
func (p *page) encrypted(o agent.Observation) {
	if p == nil {
		return
	}
	values := make([][]float64, len(o.Values))
	for i, v := range o.Values {
		step := max(1, (len(v)+maxShown-1)/maxShown)
		for k := 0; k < len(v); k += step {
			values[i] = append(values[i], v[k])
		}
	}
	p.tell("window", map[string]any{"start": o.Meta.Start / 1e6, "end": o.Meta.End / 1e6, "values": values,
		"samples": o.Meta.Samples, "bytes": o.Sealed, "messages": o.Chunks, "encrypt_ms": milliseconds(o.Encrypt)},
		keptWindows)
}

// evaluated shows what a program took at the evaluator.
func (p *page) evaluated(e evaluator.Event) {
	if p != nil {
		p.tell("evaluated", map[string]any{"program": e.Program, "evaluate_ms": milliseconds(e.Evaluate),
			"bytes": e.Bytes}, keptWindows)
	}
}

// sofar sums up the results that were compared.
type sofar struct {
	Results int     `json:"results"`
	Bad     int     `json:"bad"`   // above their promise
	Worst   float64 `json:"worst"` // largest error, as a share of its promise
}

// compared shows a result beside the truth.
func (p *page) compared(r Row) {
	if p == nil {
		return
	}
	p.so.Results++
	if !r.OK {
		p.so.Bad++
	}
	if r.Bound > 0 {
		p.so.Worst = max(p.so.Worst, r.Error/r.Bound)
	}
	p.tell("compared", struct {
		Row
		End     int64 `json:"end"` // Unix milliseconds
		StartNS int64 `json:"start_ns,string"`
		Sum     sofar `json:"sum"`
	}{r, r.result.End.UnixMilli(), r.result.Start.UnixNano(), p.so}, keptRows)
}
