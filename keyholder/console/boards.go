package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/hencedge/hencedge/internal/role"
)

// Desk is the operator's side of enrolment, where a configuration names it. It is safe for
// concurrent use.
type Desk interface {
	// Requests returns the invitations, and what boards ask.
	Requests() (Requests, error)
	// Changed returns a channel that is closed when Requests may have another answer.
	Changed() <-chan struct{}
	// Approve lets a board in, and Refuse tells it that it is not let in. Both fail if the board
	// does not ask exactly what the answer names.
	Approve(context.Context, *Answer) error
	Refuse(context.Context, *Answer) error
}

// Requests are what boards ask of an operator.
type Requests struct {
	List    []Request `json:"list"`
	Answers bool      `json:"answers"`           // the operator's key is here
	Trouble string    `json:"trouble,omitempty"` // why requests may be missing
	// Approve and Refuse are the commands that answer, without the fingerprint.
	Approve string `json:"approve"`
	Refuse  string `json:"refuse"`
}

// A Request is that of a board, or an invitation that no board uses.
type Request struct {
	Invitation  string    `json:"invitation"`
	State       string    `json:"state"` // "asks", "asks again", "too late", or that of the invitation
	Class       string    `json:"class"`
	Device      string    `json:"device,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"` // of the board's key
	Host        string    `json:"host,omitempty"`        // what the board says that it is
	Asked       time.Time `json:"asked,omitzero"`        // by the board's clock
	Expires     time.Time `json:"expires"`
	Rivals      int       `json:"rivals,omitempty"` // other boards that ask with the same token
	Waits       bool      `json:"waits"`            // it can be answered
}

// An Answer names the request that somebody has seen.
type Answer struct {
	Invitation  string `json:"invitation"`
	Device      string `json:"device"`
	Fingerprint string `json:"fingerprint"`
	// Username and Password are the board's at the broker; they may be empty.
	Username string `json:"username"`
	Password string `json:"password"`
	Reason   string `json:"reason"` // of a refusal; the board is told
}

// boards answers what boards ask of the operator.
func (c *Console) boards(w http.ResponseWriter, r *http.Request) {
	out := struct {
		On bool `json:"on"`
		Requests
		Now float64 `json:"now"`
	}{Now: millis(c.now())}
	if c.o.Desk != nil {
		var err error
		if out.Requests, err = c.o.Desk.Requests(); err != nil {
			c.fail(w, r, err)
			return
		}
		out.On = true
	}
	if out.List == nil {
		out.List = []Request{}
	}
	answer(w, out)
}

// answerBoard lets a board in or refuses it.
func (c *Console) answerBoard(deed string, do func(Desk, context.Context, *Answer) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var a Answer
		if !read(w, r, &a) {
			return
		}
		if c.o.Desk == nil || a.Invitation == "" || a.Device == "" || a.Fingerprint == "" {
			refuse(w, http.StatusBadRequest, "name the invitation, the device and the fingerprint of a board that asks")
			return
		}
		if err := do(c.o.Desk, r.Context(), &a); err != nil {
			c.log.Warn("console: a board was not answered", "deed", deed, "device", a.Device, "error", err)
			refuse(w, http.StatusConflict, strings.TrimSuffix(err.Error(), "."))
			return
		}
		c.log.Info("console: board "+deed, "device", a.Device, "fingerprint", a.Fingerprint, "from", r.RemoteAddr)
		answer(w, struct{}{})
	}
}

// watchBoards tells browsers when requests change, until ctx ends.
func (c *Console) watchBoards(ctx context.Context) {
	for c.o.Desk != nil {
		changed := c.o.Desk.Changed()
		c.live.boardsChanged()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		if role.Sleep(ctx, batchTime) != nil {
			return
		}
	}
}
