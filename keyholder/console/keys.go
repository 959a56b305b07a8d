package console

import (
	"net/http"
	"time"

	"github.com/hencedge/hencedge/keyholder"
)

// approvals returns the approved programs of the key set.
func (c *Console) approvals() ([]keyholder.Approval, error) {
	set, err := keyholder.Open(c.o.Holder.KeySet)
	if err != nil {
		return nil, err
	}
	return set.Approvals()
}

// epochRow is a generation of keys, without anything secret.
type epochRow struct {
	Epoch   uint32     `json:"epoch"`
	KeyID   string     `json:"key_id"`
	Created time.Time  `json:"created"`
	Until   *time.Time `json:"accept_until,omitempty"`
	Current bool       `json:"current"`
}

// programRow is an approved program.
type programRow struct {
	Program   string    `json:"program"`
	Evaluator string    `json:"evaluator"`
	Expr      string    `json:"expr"`
	Unit      string    `json:"unit"`
	Class     string    `json:"class,omitempty"`
	Hash      string    `json:"hash"`
	At        time.Time `json:"approved"`
}

// keys answers the public part of the key set: epochs, the fingerprint that other roles
// compare, trusted evaluators and approved programs.
func (c *Console) keys(w http.ResponseWriter, r *http.Request) {
	set, err := keyholder.Open(c.o.Holder.KeySet)
	var list []keyholder.Approval
	if err == nil {
		list, err = set.Approvals()
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	m := set.Manifest()
	epochs, programs := []epochRow{}, []programRow{}
	for _, e := range m.Epochs {
		row := epochRow{Epoch: e.Epoch, KeyID: e.KeyID, Created: e.Created, Current: e.Epoch == m.Current().Epoch}
		if !e.AcceptUntil.IsZero() {
			row.Until = &e.AcceptUntil
		}
		epochs = append(epochs, row)
	}
	for i := range list {
		p := &list[i]
		programs = append(programs, programRow{p.Program.Name, p.Evaluator, p.Program.Expr, p.Program.Unit,
			p.Program.Class, p.Hash, p.At})
	}
	evaluators := []map[string]string{}
	for _, e := range c.o.Holder.Evaluators {
		evaluators = append(evaluators, map[string]string{"name": e.Name, "public_key": e.PublicKey})
	}
	read, refused := c.o.Tally.Counts()
	answer(w, map[string]any{"params": m.Params, "fingerprint": m.Fingerprint(), "created": m.Created, "epochs": epochs,
		"programs": programs, "evaluators": evaluators, "read": read, "refused": refused})
}
