package console

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/store"
)

// parseID reads the id of an object.
func parseID(text string) (id [32]byte, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, errors.New("an id has 64 hexadecimal digits")
	}
	return [32]byte(b), nil
}

// find returns the stored result that a request names by program, device and the begin of its
// window; if there are several, the one that was stored last. It answers by itself and returns
// nil if there is none.
func (c *Console) find(w http.ResponseWriter, r *http.Request) *keyholder.Result {
	q := r.URL.Query()
	ns, err := strconv.ParseInt(q.Get("start_ns"), 10, 64)
	if err != nil || ns == math.MaxInt64 {
		refuse(w, http.StatusBadRequest, "start_ns is no point in time")
		return nil
	}
	var found *keyholder.Result
	err = c.o.History.Each(r.Context(), store.Query{Programs: []string{q.Get("program")},
		Devices: []string{q.Get("device")}, From: time.Unix(0, ns), To: time.Unix(0, ns+1)},
		func(res *keyholder.Result) error { found = res; return nil })
	if err != nil {
		c.fail(w, r, err)
		return nil
	}
	if found == nil {
		refuse(w, http.StatusNotFound, "the database has no such result")
	}
	return found
}

// proof traces a stored result back to the windows that it was computed from. Each step is
// checked anew, from the sealed object.
func (c *Console) proof(w http.ResponseWriter, r *http.Request) {
	res := c.find(w, r)
	if res == nil {
		return
	}
	out := struct {
		Result liveResult       `json:"result"`
		Kept   bool             `json:"kept"` // the sealed object is there
		OK     bool             `json:"ok"`   // every step is right, and the value is the stored one
		Steps  []keyholder.Step `json:"steps"`
	}{Result: newLive(res), Steps: []keyholder.Step{}}
	kept, err := c.sealed.read(res.ID)
	if errors.Is(err, fs.ErrNotExist) {
		answer(w, out)
		return
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	out.Kept = true
	steps, again := c.o.Reader.Trace(res.ID, kept.Sealed, res.Program, res.Device, res.Start)
	receipt, bad := c.receiptStep(&kept, res)
	stored := keyholder.Step{Name: "database", Facts: [][2]string{}}
	switch {
	case again == nil:
	case !same(again.Values, res.Values):
		stored.Error = "the database has other values"
	default:
		stored.OK, out.OK = true, !bad
		stored.Facts = append(stored.Facts, [2]string{"identity", fmt.Sprintf("%x", again.Identity())})
	}
	out.Steps = append(append(steps, receipt...), stored)
	answer(w, out)
}

// receiptStep checks the receipt of a result. There is no step without one, and nothing is wrong then.
func (c *Console) receiptStep(p *keyholder.Proof, res *keyholder.Result) (steps []keyholder.Step, bad bool) {
	if len(p.Receipt) == 0 {
		return nil, false
	}
	step, err := c.o.Reader.Receipt(p.Receipt, res.ID, res.Evaluator)
	return []keyholder.Step{step}, err != nil
}

// same reports whether two lists hold the same numbers, NaN included.
func same(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !(math.IsNaN(a[i]) && math.IsNaN(b[i])) {
			return false
		}
	}
	return true
}

// proofFile sends the sealed object of a result, and its receipt if there is one, which "results
// verify" and "results decrypt" read.
func (c *Console) proofFile(w http.ResponseWriter, r *http.Request) {
	res := c.find(w, r)
	if res == nil {
		return
	}
	kept, err := c.sealed.read(res.ID)
	if errors.Is(err, fs.ErrNotExist) {
		refuse(w, http.StatusNotFound, "the sealed result is not kept any more")
		return
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.log.Info("console: sealed result taken", "object", fmt.Sprintf("%x", res.ID), "from", r.RemoteAddr)
	w.Header().Set("Content-Type", "application/cbor-seq")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%x.cose"`, res.Program, res.ID[:4]))
	_, _ = w.Write(kept.File())
}
