package keyholder

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/hencedge/hencedge/transport"
)

// A Step is one link between a value and the device that it comes from.
type Step struct {
	// Name is "object", "signature", "key", "program", "windows", "value" or "receipt".
	Name  string      `json:"name"`
	OK    bool        `json:"ok"`              // it was checked and is right
	Error string      `json:"error,omitempty"` // why not; empty if an earlier step failed
	Facts [][2]string `json:"facts"`           // what was compared, as name and value
}

// Trace checks a stored result again, step by step, down to the windows that it was computed
// from, and decrypts it. program and device say which result of a pack is meant, start when
// its window begins, and id what the sealed object must hash to. Steps after one that failed
// are not checked. The result is nil if a step failed.
//
// Trace changes nothing: a result can be traced as often as somebody asks.
func (r *Reader) Trace(id [32]byte, sealed []byte, program, device string, start time.Time) ([]Step, *Result) {
	t := tracing{r: r, view: r.view.Load(), sealed: sealed}
	steps := []Step{{Name: "object"}, {Name: "signature"}, {Name: "key"}, {Name: "program"}, {Name: "windows"},
		{Name: "value"}}
	checks := []func(*Step) error{
		func(s *Step) error { return t.object(s, id) }, t.signature, t.key,
		func(s *Step) error { return t.program(s, program, device, start) }, t.windows,
		func(s *Step) error { return t.value(s) },
	}
	for i := range steps {
		steps[i].Facts = [][2]string{}
		if err := checks[i](&steps[i]); err != nil {
			steps[i].Error = err.Error()
			return steps, nil
		}
		steps[i].OK = true
	}
	return steps, t.result
}

// tracing is what the steps of Trace have found out.
type tracing struct {
	r      *Reader
	view   *view
	sealed []byte
	obj    *transport.Object
	err    error // of the verifier, for the step that it belongs to
	meta   transport.Meta
	by     *approved
	result *Result
}

func (s *Step) fact(name, format string, args ...any) {
	s.Facts = append(s.Facts, [2]string{name, fmt.Sprintf(format, args...)})
}

// Fact returns what a name stands for in the step, or "".
func (s *Step) Fact(name string) string {
	for _, f := range s.Facts {
		if f[0] == name {
			return f[1]
		}
	}
	return ""
}

// object checks that the bytes are those that the result was read from.
func (t *tracing) object(s *Step, id [32]byte) error {
	got := transport.ObjectID(t.sealed)
	s.fact("bytes", "%d", len(t.sealed))
	s.fact("SHA-256", "%x", got)
	if got != id {
		return fmt.Errorf("%w: the database has a result of object %x", ErrTampered, id)
	}
	return nil
}

// signature checks who signed the header and the digest of the body.
func (t *tracing) signature(s *Step) error {
	t.obj, t.err = t.r.verify(t.view, t.view.stored, "", t.sealed)
	if t.err != nil {
		for _, of := range []error{ErrWrongKey, ErrWrongEpoch, ErrWrongParams} {
			if errors.Is(t.err, of) {
				return nil // the signature was checked before
			}
		}
		return t.err
	}
	s.fact("evaluator", "%s", t.obj.Meta.Device)
	s.fact("public key", "ed25519:%s", base64.StdEncoding.EncodeToString(t.obj.Signer[:]))
	s.fact("number", "%d of boot epoch %d", t.obj.Meta.Sequence, t.obj.Meta.BootEpoch)
	return nil
}

// key checks under which keys the ciphertext is.
func (t *tracing) key(s *Step) error {
	if t.err != nil {
		return t.err
	}
	m := &t.obj.Meta
	s.fact("key", "%x", m.KeyID)
	s.fact("epoch", "%d", m.KeyEpoch)
	s.fact("parameters", "%s, %x", t.view.set.manifest.Params, m.Params)
	return nil
}

// program checks that the approved program gives such a result.
func (t *tracing) program(s *Step, program, device string, start time.Time) error {
	all, _, err := t.obj.Meta.Results(t.obj.Body)
	if err != nil {
		return fmt.Errorf("%w: body: %w", ErrTampered, err)
	}
	i := slices.IndexFunc(all, func(m transport.Meta) bool {
		return m.Program == program && m.Subject == device && m.Start == start.UnixNano()
	})
	if i < 0 {
		return fmt.Errorf("%w: it holds no result of %s for this window", ErrNotResult, program)
	}
	t.meta = all[i]
	want, err := t.r.approved.expect(t.view.set, &t.meta, t.obj.Meta.Packed > 0)
	if err != nil {
		return err
	}
	t.by = t.r.approved.find(&t.meta)
	s.fact("program", "%s", t.meta.Program)
	s.fact("hash", "%s", hashText(t.meta.Layout))
	if t.by != nil {
		s.fact("expression", "%s", t.by.Program.Expr)
		s.fact("approved", "%s", t.by.At.UTC().Format(time.RFC3339))
	}
	s.fact("level and scale", "%d, %g", t.meta.Level, t.meta.Scale)
	s.fact("promised error", "%g", want.out.Bound)
	return nil
}

// windows names what the result was computed from: objects that devices signed.
func (t *tracing) windows(s *Step) error {
	m := &t.meta
	s.fact("from", "%s", time.Unix(0, m.Start).UTC().Format(time.RFC3339Nano))
	s.fact("to", "%s", time.Unix(0, m.End).UTC().Format(time.RFC3339Nano))
	if f := m.Fleet; f != nil {
		s.fact("devices", "%d", f.Devices)
		s.fact("windows", "%d", f.Windows)
		s.fact("digest of their ids", "%x", f.Digest)
	}
	var names []string
	if t.by != nil && m.Fleet == nil {
		for _, in := range t.by.full.Inputs() {
			name := in.String()
			if m.Subject != "" {
				name = m.Subject + "/" + strings.TrimPrefix(name, "/")
			}
			names = append(names, name)
		}
	}
	for i, id := range m.Inputs {
		name := "window"
		if i < len(names) {
			name = names[i]
		}
		s.fact(name, "%x", id)
	}
	return nil
}

// value decrypts the result again.
func (t *tracing) value(s *Step) error {
	p, err := t.r.admit(t.obj)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(p.all, func(q part) bool {
		return q.meta.Program == t.meta.Program && q.meta.Subject == t.meta.Subject && q.meta.Start == t.meta.Start
	})
	if i < 0 {
		return fmt.Errorf("%w: %s", ErrNotApproved, t.meta.Program)
	}
	p.all = p.all[i : i+1]
	all, err := t.r.decode(t.obj, p, t.sealed)
	if err != nil {
		return err
	}
	t.result = all[0]
	s.fact("values", "%d", len(t.result.Values))
	if len(t.result.Values) > 0 {
		s.fact("value", "%.12g %s", t.result.Values[0], t.result.Unit)
	}
	s.fact("promised error", "%.3g", t.result.Bound)
	return nil
}

// A Proof is what there is to check of a result: the sealed object, and the receipt that the key
// holder gave its evaluator for it, if that was kept. As a file it is the one after the other: a
// CBOR sequence (RFC 8742) of one or two sealed objects.
type Proof struct {
	Sealed  []byte
	Receipt []byte // nil: there is none
}

// File returns the bytes that CutProof reads.
func (p *Proof) File() []byte { return slices.Concat(p.Sealed, p.Receipt) }

// CutProof takes a file apart. What is no object with another one behind it is all Sealed, so that
// whoever checks that says what is wrong.
func CutProof(file []byte) Proof {
	var first cbor.RawMessage
	rest, err := cbor.UnmarshalFirst(file, &first)
	if err != nil || len(rest) == 0 {
		return Proof{Sealed: file}
	}
	at := len(file) - len(rest)
	return Proof{Sealed: file[:at:at], Receipt: rest}
}

// Receipt checks that the holder of the reader's key set signed a receipt, and that it calls the
// object with this id of this evaluator taken. It fails with ErrReceipt.
func (r *Reader) Receipt(receipt []byte, id [32]byte, evaluator string) (Step, error) {
	s := Step{Name: "receipt", Facts: [][2]string{}}
	err := r.receipt(&s, receipt, id, evaluator)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrReceipt, err)
		s.Error = err.Error()
	}
	s.OK = err == nil
	return s, err
}

func (r *Reader) receipt(s *Step, receipt []byte, id [32]byte, evaluator string) error {
	signer, err := transport.ParsePublicKey(r.view.Load().set.manifest.Signer)
	if err != nil {
		return err
	}
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{holderDevice: signer})
	if err != nil {
		return err
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds: []transport.Kind{transport.KindReceipt}, NoReplay: true})
	if err != nil {
		return err
	}
	obj, err := transport.Open(receipt, v)
	if err != nil {
		return err
	}
	said, err := transport.UnmarshalReceipt(obj.Body)
	if err != nil {
		return err
	}
	s.fact("to", "%s", said.To)
	s.fact("given", "%s", time.Unix(0, obj.Meta.End).UTC().Format(time.RFC3339Nano))
	s.fact("number", "%d of boot epoch %d", obj.Meta.Sequence, obj.Meta.BootEpoch)
	s.fact("signed by", "%s", transport.Fingerprint(signer))
	i := slices.IndexFunc(said.Items, func(it transport.ReceiptItem) bool { return it.Object == id })
	switch {
	case said.To != evaluator:
		return fmt.Errorf("it is for the evaluator %q", said.To)
	case i < 0:
		return fmt.Errorf("it does not name the object %x", id)
	case said.Items[i].Outcome != transport.Taken:
		return fmt.Errorf("it calls the object %s", said.Items[i].Outcome)
	}
	s.fact("says", "%x: %s", id, said.Items[i].Outcome)
	return nil
}

// find returns the approved program of a header, or nil.
func (l *approvals) find(m *transport.Meta) *approved {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.list {
		if a.hash == m.Layout && a.Program.Name == m.Program && a.Evaluator == m.Device {
			return a
		}
	}
	return nil
}
