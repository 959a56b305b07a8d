package config

import (
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// agentInputs checks the list of inputs of an agent.
func (c *checker) agentInputs(list []Input) {
	names := make([]string, len(list))
	for i, in := range list {
		names[i] = in.Name
		c.inputTimes(fmt.Sprintf("inputs[%d]", i), in)
		if in.Exec != nil && len(in.Exec.Command) == 0 && c.Doc == nil { // a file without it fails to decode
			c.Fail(fmt.Sprintf("inputs[%d].exec", i), "\"command\" is missing", "add "+examples["command"])
		}
	}
	c.unique("inputs", "input", names)
	c.ports(list)
}

// ports checks that every serial port has one user. Modbus units may share a bus, and then
// share its settings.
func (c *checker) ports(list []Input) {
	type user struct {
		name string
		line *Line // of Modbus
	}
	users := map[string]user{}
	for i, in := range list {
		device, key, line := "", "", (*Line)(nil)
		if in.Serial != nil {
			device, key = in.Serial.Device, "serial.device"
		} else if in.Modbus != nil {
			var rtu bool
			if device, rtu = strings.CutPrefix(in.Modbus.URL, "rtu://"); !rtu {
				continue
			}
			key, line = "modbus.url", &in.Modbus.Line
		}
		other, taken := users[device]
		path := fmt.Sprintf("inputs[%d].%s", i, key)
		switch {
		case device == "" || !c.Sound(path):
		case !taken:
			users[device] = user{in.Name, line}
		case line == nil || other.line == nil:
			c.Fail(path, fmt.Sprintf("the input %q reads %s already", other.name, device),
				"let the channels of both read one input; only Modbus units can share a port")
		case *line != *other.line:
			c.Fail(path, fmt.Sprintf("the input %q uses %s with other settings", other.name, device),
				"units on one bus have the same baud, data_bits, parity and stop_bits")
		}
	}
}

// inputTimes compares the times of an input.
func (c *checker) inputTimes(path string, in Input) {
	show := yamlx.ShowDuration
	if c.Sound(path+".retry", path+".retry_max") && in.RetryMax < in.Retry {
		c.Fail(path+".retry_max", fmt.Sprintf(`%s is shorter than "retry", %s`, show(in.RetryMax), show(in.Retry)),
			fmt.Sprintf(`use %s or more, or a shorter "retry"`, show(in.Retry)))
	}
	if in.Asked() && c.Sound(path+".every", path+".max_age") && in.MaxAge < in.Every {
		c.Fail(path+".max_age",
			fmt.Sprintf("values come every %s and would be missing after %s", show(in.Every), show(in.MaxAge)),
			fmt.Sprintf(`use %s or more, or a shorter "every"`, show(in.Every)))
	}
}

// froms checks that every source finds its input.
func (c *checker) froms(a *Agent) {
	names := make([]string, len(a.Inputs))
	for i := range a.Inputs {
		names[i] = a.Inputs[i].Name
	}
	for i, s := range a.Streams {
		if s.Events != nil {
			c.eventInput(a, fmt.Sprintf("streams[%d]", i), s)
		}
		for k, ch := range s.Channels {
			if ch.Source == nil || ch.Source.From == "" {
				continue
			}
			path := fmt.Sprintf("streams[%d].channels[%d].source", i, k)
			in := a.Input(ch.Source.From)
			switch {
			case in == nil && len(names) == 0:
				c.Fail(path+".from", fmt.Sprintf("there is no input %q", ch.Source.From),
					fmt.Sprintf("add \"inputs:\" with an entry \"name: %s\" at the top level", ch.Source.From))
			case in == nil:
				c.Fail(path+".from", fmt.Sprintf("there is no input %q", ch.Source.From),
					yamlx.SuggestValue(ch.Source.From, names))
			case in.Type() != "" && ch.Source.Type != in.Type():
				c.Fail(path+".type", fmt.Sprintf("the input %q is of type %s, not %s", in.Name, in.Type(),
					ch.Source.Type),
					"write type: "+string(in.Type()))
			case in.Serial != nil:
				c.lineSource(path, in.Serial.Format, *ch.Source)
			}
		}
	}
}

// lineSource checks that a source reads the format of its serial input.
func (c *checker) lineSource(path, format string, s Source) {
	need := map[string]string{"csv": "column", "json": "path", "nmea": "sentence", "text": "pattern"}[format]
	if need == "" {
		return
	}
	for _, k := range s.keys() {
		if k.name == need {
			need = ""
		} else if k.name != "from" && (k.name != "field" || format != "nmea") && (k.name != "pattern" ||
			format != "json") {
			c.FailKey(path+"."+k.name, fmt.Sprintf("%s lines have no %q", format, k.name), "remove it")
		}
	}
	if need != "" && c.Sound(path+"."+need) {
		c.Fail(path, fmt.Sprintf("%q is missing", need), map[string]string{
			"column":   "add 'column: \"3\"', the number of the column in csv lines, counted from 1, in quotes",
			"path":     "add \"path: a.b\", the keys that lead to the number in json lines",
			"sentence": "add \"sentence: GGA\" and \"field: altitude\" to choose a number of nmea lines",
			"pattern":  "add 'pattern: \"T=([-0-9.]+)\"', with brackets around the number in text lines"}[need])
	}
}

// eventInput checks that the input of an event stream can give messages.
func (c *checker) eventInput(a *Agent, path string, s Stream) {
	in := a.Input(s.Events.From)
	switch {
	case in == nil:
		names := make([]string, len(a.Inputs))
		for i := range a.Inputs {
			names[i] = a.Inputs[i].Name
		}
		remedy := "add \"inputs:\" with it at the top level"
		if len(names) > 0 {
			remedy = yamlx.SuggestValue(s.Events.From, names)
		}
		c.Fail(path+".events.from", fmt.Sprintf("there is no input %q", s.Events.From), remedy)
	case in.MQTT == nil && (in.Serial == nil || in.Serial.Format != "json") && in.Type() != "":
		c.Fail(path+".events.from", fmt.Sprintf("the input %q gives no messages", in.Name),
			"use an mqtt input, or a serial one with format: json; for other inputs give the stream an interval")
	default:
		c.overlapping(a, path, s)
	}
}

// overlapping refuses an event stream whose topic filter overlaps with another filter of its
// input. A broker may deliver a message once for each filter, and it would count twice.
func (c *checker) overlapping(a *Agent, path string, s Stream) {
	mine := s.Topic()
	for _, other := range a.Streams {
		for _, ch := range other.Channels {
			if ch.Source == nil || ch.Source.From != s.Events.From || ch.Source.Topic == mine ||
				!overlap(mine, ch.Source.Topic) {
				continue
			}
			c.Fail(path+".events.from",
				fmt.Sprintf("stream %q reads %q from this input, which overlaps with %q: brokers may deliver a "+
					"message twice",
					other.Name, ch.Source.Topic, mine),
				"give this stream an mqtt input of its own")
			return
		}
	}
}

// overlap reports whether a topic can match both filters.
func overlap(a, b string) bool {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	for i := 0; ; i++ {
		switch {
		case i < len(as) && as[i] == "#", i < len(bs) && bs[i] == "#": // '#' takes its parent too
			return true
		case i == len(as) || i == len(bs):
			return len(as) == len(bs)
		case as[i] != bs[i] && as[i] != "+" && bs[i] != "+":
			return false
		}
	}
}
