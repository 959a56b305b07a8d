package keyholder

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// approvalsFile is the file of a key set that lists the approved programs.
const approvalsFile = "approved.json"

// Approvals returns the approved programs.
func (s *Set) Approvals() ([]Approval, error) {
	b, err := readGuarded(filepath.Join(s.dir, approvalsFile), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("approved programs: %w", err)
	}
	var list []Approval
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("%w: approved programs: %s: %w", ErrCorrupt, approvalsFile, err)
	}
	return list, nil
}

// Approve adds approvals; earlier ones stay, so that older results can still be read.
func (s *Set) Approve(add ...Approval) error {
	return s.changeApprovals(func(list []Approval) []Approval {
		for i := range add {
			list = slices.DeleteFunc(list, func(a Approval) bool { return add[i].replaces(&a) })
			list = append(list, add[i])
		}
		return list
	})
}

// Revoke removes the approvals for which match returns true.
func (s *Set) Revoke(match func(Approval) bool) error {
	return s.changeApprovals(func(list []Approval) []Approval { return slices.DeleteFunc(list, match) })
}

func (s *Set) changeApprovals(change func([]Approval) []Approval) error {
	list, err := s.Approvals()
	if err != nil {
		return err
	}
	if list = change(list); list == nil {
		list = []Approval{}
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	if err := writeFile(filepath.Join(s.dir, approvalsFile), append(b, '\n'), publicMode); err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	return nil
}

// Approval allows the results of one program of one evaluator to be decrypted.
type Approval struct {
	Evaluator string            `json:"evaluator"`
	Hash      string            `json:"hash"` // of the program, as its results carry it
	At        time.Time         `json:"approved"`
	Program   program.Published `json:"program"`
}

// NewApproval compiles a published program and returns its approval and its circuit.
func NewApproval(evaluator string, p program.Published, now time.Time) (Approval, *program.Circuit, error) {
	a := Approval{Evaluator: evaluator, At: now.UTC().Truncate(time.Second), Program: p}
	c, err := a.compile(nil, false)
	if err != nil {
		return a, nil, err
	}
	hash := c.Hash()
	a.Hash = hashText(hash)
	return a, c, nil
}

const hashPrefix = "sha256:"

func hashText(h [32]byte) string { return hashPrefix + hex.EncodeToString(h[:]) }

// compile compiles the program for windows with the given numbers of samples; nil means
// full windows. With packed it is compiled for a pack.
func (a *Approval) compile(present map[program.Input]int, packed bool) (*program.Circuit, error) {
	return a.compileAs(present, packed, false)
}

// compileAs is compile, with earlier as in program.Source.
func (a *Approval) compileAs(present map[program.Input]int, packed, earlier bool) (*program.Circuit, error) {
	for _, name := range []string{a.Evaluator, a.Program.Name} {
		if err := transport.CheckName(name); err != nil {
			return nil, fmt.Errorf("approve: %w", err)
		}
	}
	src, params, err := a.Program.Source()
	if err != nil {
		return nil, fmt.Errorf("approve: %w", err)
	}
	src.Present, src.Packed, src.Earlier = present, packed, earlier
	c, err := program.Compile(src, params)
	if err != nil {
		return nil, fmt.Errorf("approve program %s: %w", a.Program.Name, err)
	}
	return c, nil
}

// Of reports whether c is the program that was approved.
func (a *Approval) Of(c *program.Circuit) bool { return a.Hash == hashText(c.Hash()) }

// replaces reports whether a and b approve the same results.
func (a *Approval) replaces(b *Approval) bool {
	return a.Evaluator == b.Evaluator && a.Program.Name == b.Program.Name && a.Hash == b.Hash
}

// approvals holds the approved programs, compiled. It reads the file again when that
// changes.
type approvals struct {
	mu   sync.Mutex
	info os.FileInfo // of the file as it was read last; nil: there was none
	read bool
	list []*approved
}

// approved is a program whose results may be decrypted.
type approved struct {
	Approval
	hash     [32]byte
	full     *program.Circuit
	variants program.Variants // for partial windows
	// packed is for packs, and packedVariants for partial windows there. nil: not needed yet.
	packed         *program.Circuit
	packedVariants program.Variants
	// before is the program as evaluators planned it earlier (program.Source.Earlier), whose results may be stored or
	// on their way. nil: it does not compile, is not needed yet (not triedBefore), or this is it (isBefore).
	before                *approved
	triedBefore, isBefore bool
}

// compile compiles the program the way that a stands for.
func (a *approved) compile(present map[program.Input]int, packed bool) (*program.Circuit, error) {
	return a.compileAs(present, packed, a.isBefore)
}

// matching returns c, the circuit for the windows of a result, if its header m is what c gives, or else the circuit
// of earlier evaluators if it is what that gives. Otherwise it says what differs from c.
func (a *approved) matching(m *transport.Meta, c *program.Circuit, packed bool) (*program.Circuit, error) {
	err := agrees(m, c)
	if err == nil || packed { // packs were always at the lowest level
		return c, err
	}
	if !a.triedBefore {
		a.triedBefore = true
		if full, failed := a.compileAs(nil, false, true); failed == nil {
			a.before = &approved{Approval: a.Approval, hash: a.hash, full: full, isBefore: true}
		}
	}
	if a.before == nil {
		return nil, err
	}
	if c, failed := a.before.circuit(m, false); failed == nil && agrees(m, c) == nil {
		return c, nil
	}
	return nil, err
}

// follow reads the file again if it changed. The caller holds mu.
func (l *approvals) follow(s *Set) error {
	info, err := os.Stat(filepath.Join(s.dir, approvalsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("approved programs: %w", err)
	}
	if err != nil {
		info = nil
	}
	same := l.read && (info == nil) == (l.info == nil) &&
		(info == nil || os.SameFile(info, l.info) && info.ModTime().Equal(l.info.ModTime()) &&
			info.Size() == l.info.Size())
	if same {
		return nil
	}
	list, err := s.Approvals()
	if err != nil {
		return err
	}
	now := make([]*approved, 0, len(list))
	for _, a := range list {
		c, err := a.compile(nil, false)
		if err != nil {
			return fmt.Errorf("%s: %w; remove it with: hencedge results approve --revoke", approvalsFile, err)
		}
		if got := hashText(c.Hash()); got != a.Hash {
			return fmt.Errorf("%w: %s: program %s hashes to %s, not to %s", ErrCorrupt, approvalsFile,
				a.Program.Name, got,
				a.Hash)
		}
		now = append(now, &approved{Approval: a, hash: c.Hash(), full: c})
	}
	l.list, l.info, l.read = now, info, true
	return nil
}

// topic reports whether a topic carries results of an approved program of an evaluator.
func (l *approvals) topic(s *Set, prefix, evaluator, topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.follow(s) != nil {
		return false
	}
	return slices.ContainsFunc(l.list, func(a *approved) bool {
		return a.Evaluator == evaluator && (topic == a.Program.Topic ||
			topic == transport.ResultTopic(prefix, a.Program.Name) ||
			topic == transport.ResultTopic(prefix, transport.PackProgram))
	})
}

// expected is what an approved program implies for a result.
type expected struct {
	out       program.Output
	unit      string
	magnitude float64        // bound of the coefficients
	opener    program.Opener // of whole numbers; nil for real ones
}

// expect returns what the approved program implies for a result with header m, which came in
// a pack or alone. It fails with ErrNotApproved or ErrWrongProgram. It looks at the header
// alone.
func (l *approvals) expect(s *Set, m *transport.Meta, packed bool) (*expected, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.follow(s); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(l.list, func(a *approved) bool {
		return a.hash == m.Layout && a.Program.Name == m.Program && a.Evaluator == m.Device
	})
	if i < 0 {
		return nil, fmt.Errorf("%w: %s of %s, %s; run hencedge results approve", ErrNotApproved, m.Program, m.Device,
			hashText(m.Layout))
	}
	a := l.list[i]
	c, err := a.circuit(m, packed)
	across := a.full.Capacity() > 0
	switch {
	case across && m.Subject != "":
		err = fmt.Errorf("it is of the device %q, and the program is across devices", m.Subject)
	case !across && (m.Subject != "") != (a.Program.Class != ""):
		err = fmt.Errorf("it is of the device %q, and the program is for the class %q", m.Subject, a.Program.Class)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s of %s: %w", ErrWrongProgram, m.Program, m.Device, err)
	}
	if c, err = a.matching(m, c, packed); err != nil {
		return nil, fmt.Errorf("%w: %s of %s: %w; if its evaluator's configuration changed, run hencedge results "+
			"approve",
			ErrWrongProgram, m.Program, m.Device, err)
	}
	out := c.Output()
	out.Slot = m.Post.Slot
	return &expected{out, a.Program.Unit, c.Magnitude(), c.Opener()}, nil
}

// circuit returns the circuit for the windows of a result.
func (a *approved) circuit(m *transport.Meta, packed bool) (*program.Circuit, error) {
	if across := a.full.Capacity() > 0; across != (m.Fleet != nil) {
		return nil, fmt.Errorf("across devices is %t, of the program it is %t", m.Fleet != nil, across)
	}
	if f := m.Fleet; f != nil {
		if packed {
			return nil, errors.New("a result across devices does not come in a pack")
		}
		return a.full.Across(int(f.Windows), int64(min(f.Samples, math.MaxInt64)))
	}
	ins := a.full.Inputs()
	if len(m.Inputs) != len(ins) {
		return nil, fmt.Errorf("%d inputs, the program has %d", len(m.Inputs), len(ins))
	}
	variants := &a.variants
	if packed {
		variants = &a.packedVariants
	}
	switch {
	case len(m.Present) > 0:
	case !packed:
		return a.full, nil
	case a.packed != nil:
		return a.packed, nil
	default:
		c, err := a.compile(nil, true)
		a.packed = c
		return c, err
	}
	present := map[program.Input]int{}
	for i, in := range ins {
		present[in] = int(m.Present[i])
	}
	return variants.Circuit(present, func(present map[program.Input]int) (*program.Circuit, error) {
		return a.compile(present, packed)
	})
}

// agrees compares a header with what the circuit gives. It allows for the last bits, in
// which processors that fuse products and sums differ. The slot in a pack is the evaluator's
// choice.
func agrees(m *transport.Meta, c *program.Circuit) error {
	p, out := m.Post, c.Output()
	for _, f := range []struct {
		what      string
		got, want float64
	}{
		{"level", float64(m.Level), float64(c.Level())}, {"scale", m.Scale, c.Scale()}, {"A", p.A, out.A},
		{"B", p.B, out.B}, {"count", float64(p.Count), float64(out.Count)},
		{"bound", p.Bound, out.Bound},
	} {
		if math.Abs(f.got-f.want) > 0x1p-40*max(math.Abs(f.got), math.Abs(f.want)) {
			return fmt.Errorf("%s is %g, the program gives %g", f.what, f.got, f.want)
		}
	}
	switch slots := c.Parameters().Slots(); {
	case !c.Packed() && !c.Reads(p.Slot):
		return fmt.Errorf("slot is %d, the program gives %d", p.Slot, out.Slot)
	case c.Packed() && p.Slot >= slots:
		return fmt.Errorf("slot is %d, there are %d", p.Slot, slots)
	}
	if p.Sqrt != out.Sqrt {
		return fmt.Errorf("root is %t, the program gives %t", p.Sqrt, out.Sqrt)
	}
	return nil
}

// Describe returns what an operator needs to see before approving a program.
func (a *Approval) Describe(c *program.Circuit) string {
	var b strings.Builder
	low, high := c.Range()
	fmt.Fprintf(&b, "%s of %s: %s\n", a.Program.Name, a.Evaluator, a.Program.Expr)
	m := c.Model()
	if m != nil {
		fmt.Fprintf(&b, "  model sha256:%s, %d trees, %d splits\n", m.SHA256, m.Trees, m.Splits)
	}
	names := make([]string, 0, len(a.Program.Inputs))
	for name := range a.Program.Inputs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		in := a.Program.Inputs[name]
		unit, lo, hi, width := "", 0.0, 0.0, 0.0
		for _, ch := range in.Stream.Channels {
			if ch.Name == in.Channel {
				unit, lo, hi, width = ch.Unit, ch.Range[0], ch.Range[1], ch.Resolution
			}
		}
		of := in.Device
		if c.Capacity() > 0 {
			of = "all " + a.Program.Class
		} else if a.Program.Class != "" {
			of = "each " + a.Program.Class
		}
		fmt.Fprintf(&b, "  %s = %s/%s/%s, %g to %g %s, windows of %d samples",
			name, of, in.Stream.Name, in.Channel, lo, hi, unit, in.Stream.Samples)
		if in.Stream.Every > 0 {
			fmt.Fprintf(&b, " every %v", in.Stream.Every)
		}
		if width > 0 && c.Whole() {
			fmt.Fprintf(&b, ", in steps of %g", width)
		} else if width > 0 {
			fmt.Fprintf(&b, ", counted in bins of %g", width)
		}
		b.WriteByte('\n')
	}
	out := c.Output()
	whole := ""
	bound := out.Promise()
	if c.Capacity() > 0 {
		whole = "across all devices that the evaluator counts among the class " + a.Program.Class + ", of one or more, "
		bound = c.Promises()
	} else if a.Program.Class != "" {
		whole = "for each device that the evaluator counts among the class " + a.Program.Class + ", "
	}
	fmt.Fprintf(&b, "  gives %s%d value(s) from %.6g to %.6g %s, %s\n", whole, out.Len(), low, high,
		a.Program.Unit, bound)
	if m != nil {
		fmt.Fprintf(&b, "  %s; decryption shows %s\n", m.Legend(), m.Learned())
	}
	if k := c.Comparison(); k != nil {
		fmt.Fprintf(&b, "  1 where a sample of %s is below that of %s, else 0; decryption shows that alone\n", k.Less,
			k.Than)
	}
	fmt.Fprintf(&b, "  parameters %s, %s\n", a.Program.Params, a.Hash)
	return b.String()
}
