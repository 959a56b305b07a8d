package config

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/config/internal/rule"
	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// WithRemote returns a copy of a in which the sections of a remote configuration replace its
// own. a itself is as it was read and stays so. name stands in errors. Mistakes are an
// *Errors: those of any file, sections that a does not open, and replays, with which the
// sender could choose a file to be read.
func (a *Agent) WithRemote(name string, data []byte) (*Agent, error) {
	if a.Remote == nil {
		return nil, fmt.Errorf("%w: the device's own file has no remote section, without which it takes no remote "+
			"configuration: add remote: {operator_key: ...} there", ErrInvalid)
	}
	var o overlay
	d, err := yamlx.Parse(name, data, options)
	if err != nil {
		return nil, err
	}
	d.Decode(&o)
	doc := d.Doc
	out := *a
	out.doc = doc
	set := func(section string, apply func()) {
		at, given := doc.Key(section)
		switch {
		case !given:
		case !slices.Contains(a.Remote.Sections, section):
			d.Errs = append(d.Errs, doc.ErrorAt(at, section, "this section is not open to remote changes",
				"change it on the device, or open it there under remote.sections"))
		default:
			apply()
		}
	}
	set("streams", func() {
		out.Streams = o.Streams
		out.underived(a)
	})
	set("queue", func() { out.Queue = o.Queue })
	set("log", func() { out.Log = o.Log })
	set("stop_timeout", func() { out.StopTimeout = o.StopTimeout })
	out.SetDefaults()
	for i := range out.Inputs { // a max_age of the file asks for more than slow streams do
		if in := &out.Inputs[i]; in.Asked() && in.Every > in.MaxAge && !a.doc.Gives(fmt.Sprintf("inputs[%d].every",
			i)) {
			in.Every = a.Inputs[i].Every
		}
	}
	c := &checker{&rule.Checker{Doc: doc, Role: "remote", Bad: d.Bad, Errs: d.Errs}}
	rules.Check(c.Checker, &o)
	c.agent(&out)
	if err := c.err(); err != nil {
		return nil, err
	}
	return &out, nil
}

// overlay is what a remote configuration may hold: RemoteSections.
type overlay struct {
	Version     int      `yaml:"version"`
	Streams     []Stream `yaml:"streams"`
	Queue       Queue    `yaml:"queue"`
	Log         Log      `yaml:"log"`
	StopTimeout Duration `yaml:"stop_timeout"`
}

// underived clears the values that follow from the streams, except those that file gives, so
// that SetDefaults derives them again. a is a copy of file.
func (a *Agent) underived(file *Agent) {
	a.Inputs = slices.Clone(file.Inputs)
	for i := range a.Inputs {
		path := fmt.Sprintf("inputs[%d]", i)
		if !file.doc.Gives(path + ".every") {
			a.Inputs[i].Every = 0
		}
		if !file.doc.Gives(path + ".max_age") {
			a.Inputs[i].MaxAge = 0
		}
	}
	if !file.doc.Gives("queue.full") {
		a.Queue.Full = ""
	}
}
