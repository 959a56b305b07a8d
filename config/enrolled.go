package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// Bounds of the files that Evaluator.Enrolled names.
const (
	MaxEnrolled     = 1 << 16 // devices in all
	maxEnrolledFile = 16 << 20
	// settled is how old a file must be before its time and size tell whether it changed.
	settled = 2 * time.Second
)

// An Enrolment is a device and where a file lists it.
type Enrolment struct {
	Device
	File string
	Line int // 1-based
}

// place is where a device stands: in a line of a file, or as the file says if line is 0.
type place struct {
	file string
	line int
}

func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

// A Roll reads the devices that Evaluator.Enrolled names. It reads a file again only if that
// has changed. It is not safe for concurrent use.
type Roll struct {
	cfg      *Evaluator
	files    map[string]*enrolledFile
	anyClass bool
}

// enrolledFile is a file as it was read.
type enrolledFile struct {
	info    os.FileInfo // nil: read it again
	devices []Enrolment
	lines   yamlx.Lines
	faults  []*Error
}

// NewRoll returns the Roll of a configuration, which has been checked. It has read nothing.
func NewRoll(cfg *Evaluator) *Roll { return &Roll{cfg: cfg, files: map[string]*enrolledFile{}} }

// NewDeviceRoll returns the Roll of a key holder's page, for files as in Console.Devices: it takes devices of any
// class. It has read nothing.
func NewDeviceRoll(paths []string) *Roll {
	r := NewRoll(&Evaluator{Enrolled: paths})
	r.anyClass = true
	return r
}

// Read returns the devices that can be taken, in the order of the files and of their names,
// and what is wrong with others. Of two entries that contradict each other the first counts;
// Evaluator.Devices come before all files.
func (r *Roll) Read() (devices []Enrolment, faults []*Error) {
	files := map[string]*enrolledFile{}
	faults = r.each(func(name string) *enrolledFile {
		files[name] = r.file(name)
		return files[name]
	}, func(d Enrolment) { devices = append(devices, d) })
	r.files = files
	return devices, faults
}

// Each hands the devices that Read returns to take, and returns what is wrong with others. It remembers no file, so
// it needs far less memory than Read where each device has a file of its own.
func (r *Roll) Each(take func(Enrolment)) (faults []*Error) { return r.each(r.file, take) }

func (r *Roll) each(read func(name string) *enrolledFile, take func(Enrolment)) (faults []*Error) {
	seen, m := map[string]bool{}, r.members()
	for i, path := range r.cfg.Enrolled {
		names, err := enrolledNames(path)
		if err != nil {
			faults = append(faults, r.cfg.Problem(fmt.Sprintf("enrolled[%d]", i), err.Error(), fileRemedy(err)))
		}
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			f := read(name)
			faults = append(faults, f.faults...)
			for _, d := range f.devices {
				if e := m.refuse(f, d); e != nil {
					faults = append(faults, e)
					continue
				}
				take(d)
			}
		}
	}
	return faults
}

// Stamp returns a text that differs after a change of the files. It reads none of them, and remembers none.
func (r *Roll) Stamp() string {
	var all [sha256.Size]byte
	add := func(parts ...any) {
		one := sha256.Sum256(fmt.Appendln(nil, parts...))
		for i := range all {
			all[i] ^= one[i]
		}
	}
	for i, path := range r.cfg.Enrolled {
		err := eachEnrolled(path, func(name string) {
			if info, err := os.Stat(name); err != nil {
				add(i, name, err)
			} else {
				// What has just changed may change again within the resolution of its time.
				add(i, name, info.Size(), info.ModTime(), time.Since(info.ModTime()) > settled)
			}
		})
		add(i, err)
	}
	return string(all[:])
}

// FindDevice looks for a device in Evaluator.Devices, and then in the files of
// Evaluator.Enrolled.
func FindDevice(e *Evaluator, name string) (d Enrolment, known bool) {
	for i, listed := range e.Devices {
		if listed.Name == name {
			at := e.Problem(fmt.Sprintf("devices[%d]", i), "", "")
			return Enrolment{listed, at.File, at.Line}, true
		}
	}
	list, _ := NewRoll(e).Read()
	for _, d := range list {
		if d.Name == name {
			return d, true
		}
	}
	return Enrolment{}, false
}

// enrolledNames returns the file at path, or those in the directory at path that end in
// .yaml or .yml, in the order of their names.
func enrolledNames(path string) (names []string, err error) {
	err = eachEnrolled(path, func(name string) { names = append(names, name) })
	slices.Sort(names)
	return names, err
}

// eachEnrolled hands to f what enrolledNames returns, in any order.
func eachEnrolled(path string, f func(name string)) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		f(path)
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		list, err := dir.ReadDir(256)
		for _, e := range list {
			ext := filepath.Ext(e.Name())
			if (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
				f(filepath.Join(path, e.Name()))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func fileRemedy(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "make it, or correct the path"
	case errors.Is(err, fs.ErrPermission):
		return "let the user that the evaluator runs as read it; nothing there is secret"
	}
	return "put a readable file or directory there"
}

// file returns the devices of one file, as it was read before if it has not changed.
func (r *Roll) file(name string) *enrolledFile {
	info, err := os.Stat(name)
	if old := r.files[name]; err == nil && old != nil && old.info != nil && os.SameFile(info, old.info) &&
		info.Size() == old.info.Size() && info.ModTime().Equal(old.info.ModTime()) {
		return old
	}
	out := new(enrolledFile)
	var data []byte
	if err == nil {
		data, err = readEnrolled(name, info)
	}
	if err != nil {
		out.lines = yamlx.NewLines(name, nil)
		out.faults = []*Error{out.lines.Error(1, "", "", "cannot be read: "+err.Error(), fileRemedy(err))}
		return out
	}
	if time.Since(info.ModTime()) > settled {
		out.info = info
	}
	out.lines = yamlx.NewLines(name, data)
	out.devices, out.faults = parseEnrolled(name, out.lines)
	return out
}

func readEnrolled(name string, info os.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnrolledFile+1))
	if err == nil && len(data) > maxEnrolledFile {
		err = fmt.Errorf("it is larger than %d MiB", maxEnrolledFile>>20)
	}
	return data, err
}

// enrolledForm says what a file of enrolled devices looks like.
const enrolledForm = "write what `hencedge evaluator enroll` prints: \"- name: NAME\", and below it, indented by " +
	"two, \"public_key: ed25519:...\" and \"class: CLASS\""

// parseEnrolled reads a list of devices: the YAML that `evaluator enroll` prints, with one
// key in each line. Its time is linear in the text, since a file may list all devices.
func parseEnrolled(file string, lines yamlx.Lines) (devices []Enrolment, faults []*Error) {
	fail := func(line int, part, cause, remedy string) {
		faults = append(faults, lines.Error(line, part, "", cause, remedy))
	}
	var d *Enrolment
	sound := true
	done := func() {
		if d == nil {
			return
		}
		for _, k := range []struct{ key, value string }{{"name", d.Name}, {"public_key", d.PublicKey},
			{"class", d.Class}} {
			if k.value == "" && sound {
				fail(d.Line, "", fmt.Sprintf("%q is missing", k.key), enrolledForm)
				sound = false
			}
		}
		if sound {
			devices = append(devices, *d)
		}
		d, sound = nil, true
	}
	for i, text := range lines.All() {
		entry, begins := strings.CutPrefix(text, "- ")
		rest, inner := strings.CutPrefix(text, "  ")
		switch trimmed := strings.TrimSpace(text); {
		case trimmed == "" || trimmed[0] == '#' || i == 0 && trimmed == "---":
			continue
		case begins:
			done()
			d, rest, sound = &Enrolment{File: file, Line: i + 1}, entry, true
		case !inner || d == nil:
			fail(i+1, "", "not a line of a list of devices", enrolledForm)
			sound = false
			continue
		}
		if part, cause, remedy := d.set(rest); cause != "" {
			fail(i+1, part, cause, remedy)
			sound = false
		}
	}
	done()
	if len(devices) == 0 && len(faults) == 0 {
		fail(1, "", "the file lists no device", enrolledForm)
	}
	return devices, faults
}

// set takes one line "key: value". After a mistake it returns the part of the line that is
// wrong, the cause and the remedy.
func (e *Enrolment) set(line string) (part, cause, remedy string) {
	key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
	value, _, _ = strings.Cut(value, " #")
	value = strings.TrimSpace(value)
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	field, check := (*string)(nil), nameRule
	switch key {
	case "name":
		field = &e.Name
	case "public_key":
		field, check = &e.PublicKey, publicKeyRule
	case "class":
		field = &e.Class
	}
	switch {
	case !ok || field == nil:
		return strings.TrimSpace(line), "neither name, public_key nor class of a device", enrolledForm
	case *field != "":
		return key, fmt.Sprintf("%q is given twice", key), "keep one of them"
	case value == "":
		return key, fmt.Sprintf("%q has no value", key), enrolledForm
	}
	if cause, remedy = check.Problem(value); cause != "" {
		return value, key + ": " + cause, remedy
	}
	*field = value
	return "", "", ""
}

// members are the devices that were found so far, by name and by key.
type members struct {
	cfg     *Evaluator
	all     bool // classes are taken
	classes []string
	names   map[string]place
	keys    map[string]place
	n       int
}

func (r *Roll) members() *members {
	m := &members{cfg: r.cfg, all: r.anyClass, names: map[string]place{}, keys: map[string]place{}}
	for _, c := range r.cfg.Classes {
		m.classes = append(m.classes, c.Name)
	}
	for i, d := range r.cfg.Devices {
		at := place{file: fmt.Sprintf("devices[%d]", i)}
		if p := r.cfg.Problem(at.file, "", ""); p.File != "" {
			at = place{p.File, p.Line}
		}
		m.names[d.Name], m.keys[d.PublicKey] = at, at
	}
	return m
}

// refuse says why a device is not taken; otherwise it counts as a member and the answer is nil.
func (m *members) refuse(f *enrolledFile, d Enrolment) *Error {
	fail := func(cause, remedy string) *Error { return f.lines.Error(d.Line, "", "", cause, remedy) }
	first, named := m.names[d.Name]
	key, used := m.keys[d.PublicKey]
	switch {
	case named:
		return fail(fmt.Sprintf("the device %q is already listed at %s", d.Name, first), "keep one of them")
	case used:
		return fail(fmt.Sprintf("the device %q has the same key as the one at %s", d.Name, key),
			"give each device its own key")
	case d.Name == m.cfg.Name:
		return fail(fmt.Sprintf("the evaluator has the name %q too, so their status and receipts cannot be told apart",
			d.Name), "give the evaluator another name")
	case !m.all && !slices.Contains(m.classes, d.Class):
		return fail(fmt.Sprintf("device %q: %s", d.Name, unknownClass(d.Class)), classRemedy(d.Class, m.classes))
	case m.n >= MaxEnrolled:
		return fail(fmt.Sprintf("more than %d devices are enrolled", MaxEnrolled), "divide them among evaluators")
	}
	at := place{d.File, d.Line}
	m.names[strings.Clone(d.Name)], m.keys[strings.Clone(d.PublicKey)] = at, at // not parts of the text of the file
	m.n++
	return nil
}
