package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"

	"github.com/hencedge/hencedge/config/internal/rule"
	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// LoadAgent reads and checks an agent's configuration. A failure to read the
// file is returned as it is; mistakes in it are an *Errors.
func LoadAgent(path string) (*Agent, error) { return load(path, ParseAgent) }

// LoadEvaluator reads and checks an evaluator's configuration.
func LoadEvaluator(path string) (*Evaluator, error) { return load(path, ParseEvaluator) }

// LoadKeyHolder reads and checks a key holder's configuration.
func LoadKeyHolder(path string) (*KeyHolder, error) { return load(path, ParseKeyHolder) }

// ParseAgent checks the text of an agent's configuration. name is used in
// errors, and its directory for relative paths. Mistakes are an *Errors.
func ParseAgent(name string, data []byte) (*Agent, error) {
	a := new(Agent)
	if err := parse(name, data, a, &a.origin); err != nil {
		return nil, err
	}
	return a, nil
}

// ParseEvaluator checks the text of an evaluator's configuration, as ParseAgent does.
func ParseEvaluator(name string, data []byte) (*Evaluator, error) {
	e := new(Evaluator)
	if err := parse(name, data, e, &e.origin); err != nil {
		return nil, err
	}
	return e, nil
}

// ParseKeyHolder checks the text of a key holder's configuration, as ParseAgent does.
func ParseKeyHolder(name string, data []byte) (*KeyHolder, error) {
	k := new(KeyHolder)
	if err := parse(name, data, k, &k.origin); err != nil {
		return nil, err
	}
	return k, nil
}

// Check reports what ParseAgent would report of this configuration. It is for one that was
// built or changed in code. Call SetDefaults first.
func (a *Agent) Check() error { return again(a, a.doc) }

// Check reports what ParseEvaluator would report of this configuration.
func (e *Evaluator) Check() error { return again(e, e.doc) }

// Check reports what ParseKeyHolder would report of this configuration.
func (k *KeyHolder) Check() error { return again(k, k.doc) }

// again checks a configuration that may have changed since doc was read.
func again(r role, doc *yamlx.Document) error {
	return check(r, &rule.Checker{Doc: doc, ByValue: true})
}

func check(r role, c *rule.Checker) error {
	c.Role = r.role()
	rules.Check(c, r)
	r.check(&checker{c})
	return (&checker{c}).err()
}

// role is what the three configurations have in common.
type role interface {
	SetDefaults()
	role() string
	check(c *checker)
}

func (a *Agent) role() string     { return "agent" }
func (e *Evaluator) role() string { return "evaluator" }
func (k *KeyHolder) role() string { return "keyholder" }

func (a *Agent) check(c *checker)     { c.agent(a) }
func (e *Evaluator) check(c *checker) { c.evaluator(e) }
func (k *KeyHolder) check(c *checker) { c.keyHolder(k) }

func load[T any](path string, parse func(string, []byte) (*T, error)) (*T, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("cannot read the configuration as user %d: %w; it holds no secrets: chmod 644 %s",
				os.Geteuid(), err, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot read the configuration: %w; give the path of the file", err)
		}
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, yamlx.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return parse(path, data)
}

// ControlSocket returns control.socket of a file, even if the file is not valid: a service
// that runs with an earlier version answers there. It returns "" if the file names no
// socket or is not YAML.
func ControlSocket(path string) string {
	socket := ""
	_, _ = load(path, func(name string, data []byte) (*Control, error) {
		var found struct {
			Control Control `yaml:"control"`
		}
		d, err := yamlx.Parse(name, data, options)
		if err != nil {
			return nil, err
		}
		d.Decode(&found)
		socket = found.Control.Socket
		return nil, nil
	})
	return socket
}

// options tell the decoder what it cannot see in the types.
var options = yamlx.Options{
	Examples: examples,
	Texts: map[reflect.Type]func(text string, resolve func(path string) string) string{
		reflect.TypeFor[Secret](): func(text string,
			resolve func(path string) string) string {
			return string(Secret(text).below(resolve))
		},
	},
}

// parse decodes data into r, remembers the text in o and checks everything.
func parse(name string, data []byte, r role, o *origin) error {
	d, err := yamlx.Parse(name, data, options)
	if err != nil {
		return err
	}
	o.doc = d.Doc
	d.Decode(r)
	if e := ofAnother(d.Doc, r); e != nil {
		return &Errors{List: []*Error{e}}
	}
	r.SetDefaults()
	return check(r, &rule.Checker{Doc: d.Doc, Errs: d.Errs, Bad: d.Bad})
}

// marks are the top-level keys that only one role's file has.
var marks = []struct {
	keys        [2]string
	role, check string
}{
	{[2]string{"device", "device"}, "an agent", "hencedge agent check"},
	{[2]string{"devices", "key_sets"}, "an evaluator", "hencedge evaluator check"},
	{[2]string{"evaluators", "key_set"}, "a key holder", "hencedge keyholder check"},
}

// ofAnother returns an error if a file belongs to another role: it has both marks of that
// role and none of its own. This one error replaces the many that would follow.
func ofAnother(doc *yamlx.Document, r role) *Error {
	own := 0
	switch r.(type) {
	case *Evaluator:
		own = 1
	case *KeyHolder:
		own = 2
	}
	has := func(key string) bool { _, ok := doc.Key(key); return ok }
	if has(marks[own].keys[0]) || has(marks[own].keys[1]) {
		return nil
	}
	for _, m := range marks {
		key := m.keys[0]
		if at, ok := doc.Key(key); ok && has(m.keys[1]) {
			return doc.ErrorAt(at, key, fmt.Sprintf("this is the file of %s, and that of %s belongs here", m.role,
				marks[own].role),
				"give the right file, or look at this one with `"+m.check+"`")
		}
	}
	return nil
}
