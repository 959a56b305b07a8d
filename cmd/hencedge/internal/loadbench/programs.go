package loadbench

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// Names in programs: every device has the stream streamName with channels x, y, z, c4, c5, ...
// A program whose inputs are of eachDevice runs once for every device, under its own name.
const (
	streamName = "load"
	eachDevice = "device"
)

func deviceName(i int) string { return fmt.Sprintf("dev-%05d", i+1) }

func channelName(k int) string {
	if k < 3 {
		return string("xyz"[k])
	}
	return fmt.Sprintf("c%d", k+1)
}

// defaultPrograms are the programs of the reference load.
func defaultPrograms(channels int) []config.Program {
	x, y := eachDevice+"/"+streamName+"/x", eachDevice+"/"+streamName+"/y"
	list := []config.Program{
		{Name: "mean", Expr: "mean(x)", Inputs: map[string]string{"x": x}},
		{Name: "var", Expr: "var(x)", Inputs: map[string]string{"x": x}},
	}
	if channels > 1 {
		list = append(
			list,
			config.Program{Name: "cov", Expr: "cov(x, y)", Inputs: map[string]string{"x": x, "y": y}},
		)
	}
	return list
}

// programs returns the programs to run, still of eachDevice.
func (b *bed) programs() ([]config.Program, error) {
	if b.o.Programs != "" {
		return b.readPrograms(b.o.Programs)
	}
	var keep []config.Program
	var last error
	for _, p := range defaultPrograms(b.o.Channels) {
		src := program.Source{Name: p.Name, Expr: p.Expr, Vars: map[string]program.Var{}}
		for name, ref := range p.Inputs {
			channel := ref[strings.LastIndexByte(ref, '/')+1:]
			src.Vars[name] = program.Var{
				Device:  eachDevice,
				Stream:  b.stream,
				Channel: b.stream.ChannelIndex(channel),
			}
		}
		if _, err := program.Compile(src, b.o.Params); err != nil {
			last = err
			b.remark("%s does not fit %s and is left out: %s", p.Expr, b.o.Params.Name(), reason(err))
			continue
		}
		keep = append(keep, p)
	}
	if len(keep) == 0 {
		return nil, fmt.Errorf("%w: no program fits %s: %w", ErrOptions, b.o.Params.Name(), last)
	}
	return keep, nil
}

// reason returns why a program was refused, in one line.
func reason(err error) string {
	var e *program.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// namedDevices is how many devices the programs of a file can name one by one.
const namedDevices = 64

// readPrograms reads the "programs" of an evaluator's configuration. It appends the rest of
// the configuration, so that errors name the lines of the file.
func (b *bed) readPrograms(file string) ([]config.Program, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: --programs: %w", ErrOptions, err)
	}
	var s strings.Builder
	s.Write(text)
	fmt.Fprintf(&s, "\nname: %s\nbroker: {url: \"tcp://127.0.0.1:1\"}\nkey_sets: [keys]\nkeys: {holder: none}\n"+
		"signing_key: key\nstate: state\ndevices:\n", evaluatorName)
	names := []string{eachDevice}
	keys := b.devices[:min(len(b.devices), namedDevices)]
	for _, d := range keys {
		names = append(names, d.name)
	}
	extra, err := transport.NewSigningKey() // of eachDevice
	if err != nil {
		return nil, err
	}
	defer extra.Wipe()
	for i, name := range names {
		public := extra.PublicText()
		if i > 0 {
			public = keys[i-1].key.PublicText()
		}
		fmt.Fprintf(&s, "  - {name: %s, public_key: %q}\n", name, public)
	}
	s.WriteString("streams:\n")
	for _, name := range names {
		fmt.Fprintf(
			&s,
			"  - {device: %s, name: %s, params: %s, window: {samples: %d, every: %s}, channels: [",
			name,
			streamName,
			b.o.Params.Name(),
			b.o.Samples,
			every,
		)
		for _, c := range b.stream.Channels {
			fmt.Fprintf(&s, "{name: %q, unit: \"1\", range: [%g, %g]},", c.Name, c.Range[0], c.Range[1])
		}
		s.WriteString("]}\n")
	}
	cfg, err := config.ParseEvaluator(file, []byte(s.String()))
	if err != nil {
		return nil, fmt.Errorf("%w: --programs: %w", ErrOptions, err)
	}
	return cfg.Programs, nil
}

// multiplied replaces each program of eachDevice by one program for every device.
func (b *bed) multiplied(list []config.Program) ([]config.Program, error) {
	var out []config.Program
	for _, p := range list {
		each := 0
		for _, ref := range p.Inputs {
			if strings.HasPrefix(ref, eachDevice+"/") {
				each++
			}
		}
		switch {
		case each == 0 && b.classed():
			return nil, fmt.Errorf("%w: program %s: with --places or --compact the inputs of all programs are of %q",
				ErrOptions, p.Name, eachDevice)
		case each == 0:
			out = append(out, p)
			continue
		case each < len(p.Inputs):
			return nil, fmt.Errorf(
				"%w: program %s: its inputs are of %q, which stands for each device in turn, and of "+
					"single devices; use one or the other",
				ErrOptions,
				p.Name,
				eachDevice,
			)
		case p.Topic != "":
			return nil, fmt.Errorf(
				"%w: program %s runs for each device and cannot have one topic",
				ErrOptions,
				p.Name,
			)
		}
		if b.classed() { // each device is of one class
			p.For, p.Inputs = eachDevice, maps.Clone(p.Inputs)
			for name, ref := range p.Inputs {
				p.Inputs[name] = strings.TrimPrefix(ref, eachDevice+"/")
			}
			out = append(out, p)
			continue
		}
		for _, d := range b.devices {
			one := p
			one.Name, one.Inputs = p.Name+"."+d.name, maps.Clone(p.Inputs)
			for name, ref := range one.Inputs {
				one.Inputs[name] = d.name + strings.TrimPrefix(ref, eachDevice)
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// expressions describes programs for a record: a program of eachDevice as "mean(x)", others as
// "name: expression".
func expressions(list []config.Program) []string {
	var out []string
	for _, p := range list {
		text := p.Expr
		if !slices.ContainsFunc(slices.Collect(maps.Values(p.Inputs)), func(ref string) bool {
			return strings.HasPrefix(ref, eachDevice+"/")
		}) {
			text = p.Name + ": " + p.Expr
		}
		out = append(out, text)
	}
	return out
}
