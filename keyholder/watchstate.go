package keyholder

import (
	"fmt"
	"log/slog"

	"github.com/hencedge/hencedge/internal/traces"
	"github.com/hencedge/hencedge/transport"
)

// watch is a running Watch.
type watch struct {
	r        *Reader
	o        WatchOptions
	log      *slog.Logger
	inbox    *inbox
	receiver *transport.Receiver
	queue    chan transport.Staged
	refused  chan refusal
	own      map[string]bool // topics that are not bound to the program's name
	taken    int             // results in the inbox, now or earlier
}

type refusal struct {
	topic string
	err   error
}

// approved reports whether topic carries results of an approved program of evaluator.
func (w *watch) approved(evaluator, topic string) bool {
	return w.r.approved.topic(w.r.view.Load().set, w.o.TopicPrefix, evaluator, topic)
}

func (w *watch) refuse(topic string, err error) {
	if w.o.OnRefused != nil {
		w.o.OnRefused(topic, err)
	}
}

func (w *watch) unread(topic string, err error) {
	if w.o.OnUnread != nil {
		w.o.OnUnread(topic, fmt.Errorf("%w: %w", ErrUnread, err))
	}
}

// WatchOptions configure Watch. Client is required.
type WatchOptions struct {
	Client      transport.Client
	TopicPrefix string           // empty: transport.DefaultPrefix
	Programs    []string         // programs to follow; empty: all
	Topics      []string         // further topics, for programs with a topic of their own
	Limits      transport.Limits // bounds of reassembly
	Receipts    *Receipts        // tells evaluators what was taken; may be nil
	Count       int              // results after which Watch ends; 0: it goes on
	Traces      *traces.Tracer   // exports the steps of results; nil: off
	// OnReady is called once the broker has granted the subscriptions.
	OnReady func()
	// OnResult gets every result that was read, in order. If it returns an error, Watch
	// ends. OnUnread gets results that were taken and cannot be read; nobody else learns
	// of them. OnRefused gets every refused object, and is called from another goroutine
	// than the first two. All may be nil.
	OnResult  func(*Result) error
	OnUnread  func(topic string, err error)
	OnRefused func(topic string, err error)
}
