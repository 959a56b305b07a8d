package keyholder

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// An object carries one result, or a pack of them. Of a pack each result is judged by
// itself:
//
//   - Only the slots of results that may be decrypted become values. The others of the
//     ciphertext are wiped unread.
//   - A pack is refused if none of its results is acceptable. Otherwise it is taken, and
//     those that are not are told.
//   - Each result counts by what it was computed from, so it is handed on once whatever it
//     comes with, also when a process ends within a pack.

// ReadAll verifies and decrypts a sealed result, or those of a pack that may be decrypted;
// see Verify. refused says why others may not be.
func (r *Reader) ReadAll(topic string, sealed []byte) (results []*Result, refused []error, err error) {
	obj, err := r.Verify(topic, sealed)
	if err != nil {
		return nil, nil, err
	}
	p, err := r.admit(obj)
	if err == nil {
		results, err = r.decode(obj, p, sealed)
	}
	if err != nil {
		r.giveBack(obj)
		return nil, nil, err
	}
	return results, p.refused, nil
}

// Read is ReadAll for an object that carries one result. It fails with ErrNotResult for a
// pack of several.
func (r *Reader) Read(topic string, sealed []byte) (*Result, error) {
	all, _, err := r.ReadAll(topic, sealed)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("%w: it is a pack of %d", ErrNotResult, len(all))
	}
	return all[0], nil
}

// again reads the results of an object whose number is already used up.
func (r *Reader) again(sealed []byte, programs []string) ([]*Result, error) {
	v := r.view.Load()
	obj, err := r.verify(v, v.stored, "", sealed)
	if err != nil {
		return nil, err
	}
	p, err := r.admit(obj)
	if err == nil && obj.Meta.Packed > 0 {
		err = p.only(programs)
	}
	if err != nil {
		return nil, err
	}
	return r.decode(obj, p, sealed)
}

// admit checks which results of a verified object come from approved programs, that their
// headers are what the programs give, and that the key can be used. It fails if there is
// none.
func (r *Reader) admit(obj *transport.Object) (*parts, error) {
	results, ciphertext, err := obj.Meta.Results(obj.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: body: %w", ErrTampered, err)
	}
	set, p, told := r.view.Load().set, &parts{ciphertext: ciphertext}, map[string]bool{}
	for i := range results {
		m := &results[i]
		want, err := r.approved.expect(set, m, obj.Meta.Packed > 0)
		switch {
		case err == nil:
			p.all = append(p.all, part{*m, want})
		case !errors.Is(err, ErrNotApproved) && !errors.Is(err, ErrWrongProgram):
			return nil, err
		case !told[m.Program]:
			told[m.Program] = true
			p.refused = append(p.refused, err)
		}
	}
	if len(p.all) == 0 {
		return nil, p.refused[0]
	}
	_, release, err := r.use(obj.Meta.KeyID)
	if err != nil {
		return nil, err
	}
	release()
	return p, nil
}

// decode decrypts the parts of a verified object. If its bytes are a ciphertext it does not
// fail, whatever they decrypt to.
func (r *Reader) decode(obj *transport.Object, p *parts, sealed []byte) ([]*Result, error) {
	magnitude := p.all[0].want.magnitude
	if obj.Meta.Packed > 0 {
		magnitude = program.PackMagnitude(r.ctx.Parameters())
	}
	var slots, answers []float64
	var err error
	if opener := p.all[0].want.opener; opener != nil {
		answers, err = r.decryptWhole(obj, opener)
	} else {
		slots, err = r.decrypt(obj, p.ciphertext, magnitude)
	}
	if err != nil {
		return nil, err
	}
	defer clear(slots)
	out := make([]*Result, len(p.all))
	for i := range p.all {
		m, want := &p.all[i].meta, p.all[i].want
		values := answers
		if want.opener == nil {
			values = want.out.Values(slots)
		}
		out[i] = &Result{
			Program: m.Program, Device: m.Subject, Evaluator: m.Device, Unit: cmp.Or(r.o.Units[m.Program], want.unit),
			KeyID:     m.KeyID,
			Epoch:     m.KeyEpoch,
			BootEpoch: m.BootEpoch, Sequence: m.Sequence, Start: time.Unix(0, m.Start), End: time.Unix(0, m.End),
			Samples: m.Samples, Fleet: m.Fleet,
			Values: values, Bound: promised(&want.out, values), ID: obj.ID, Inputs: m.Inputs, Sealed: sealed,
			Packed: int(obj.Meta.Packed), file: resultName(&obj.Meta),
		}
	}
	return out, nil
}

// parts are the results of a verified object that may be decrypted.
type parts struct {
	all        []part
	ciphertext []byte
	refused    []error // why others may not be, one for each program
}

// part is one of them, with what its program implies.
type part struct {
	meta transport.Meta
	want *expected
}

// metas returns the headers of the parts.
func (p *parts) metas() []transport.Meta {
	out := make([]transport.Meta, len(p.all))
	for i := range p.all {
		out[i] = p.all[i].meta
	}
	return out
}

// only leaves out the results of a pack whose program is not listed; nil lists all. It fails
// with ErrNotApproved if none is left.
func (p *parts) only(programs []string) error {
	if len(programs) == 0 {
		return nil
	}
	p.all = slices.DeleteFunc(p.all, func(q part) bool { return !slices.Contains(programs, q.meta.Program) })
	if len(p.all) == 0 {
		return fmt.Errorf("%w: none of the pack's programs is among those that are read: %q", ErrNotApproved, programs)
	}
	return nil
}
