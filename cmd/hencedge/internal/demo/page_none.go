//go:build nostore

package demo

import (
	"context"
	"errors"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

// page has nothing: programs for boards hold no database and no page.
type page struct{ link string }

// hasPage returns why there is none.
func hasPage() error {
	return errors.New("this program is built for boards and has no page: run the demo with the program for " +
		"amd64, or build one here with go build ./cmd/hencedge")
}

func openPage(context.Context, *stage, *keyholder.Reader, transport.Client) (*page, error) {
	return nil, hasPage()
}

func (*page) close() error { return nil }

func (*page) keep(context.Context, *keyholder.Result) error { return nil }

func (*page) encrypted(agent.Observation) {}

func (*page) evaluated(evaluator.Event) {}

func (*page) compared(Row) {}
