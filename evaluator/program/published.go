package program

import (
	"bytes"
	"errors"
	"fmt"
	"time"
	"unicode"

	"github.com/fxamacker/cbor/v2"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/henc"
)

// ErrPublished: the description of a program is not valid.
var ErrPublished = errors.New("program description")

// Published is a program as an evaluator publishes it: all that somebody else needs to
// compile it and to know what its results look like.
type Published struct {
	Name   string `json:"name"`
	Expr   string `json:"expr"`
	Params string `json:"params"`
	Unit   string `json:"unit,omitempty"`
	Topic  string `json:"topic,omitempty"` // of its results; empty: the default topic
	Class  string `json:"class,omitempty"` // each of its devices has a result; empty: none
	// Resolution of comparisons; 0: none.
	Resolution float64 `json:"resolution,omitempty"`
	// Model is evaluated in place of Expr, which is its text; nil: there is none.
	Model  *answer.Model             `json:"model,omitempty"`
	Inputs map[string]PublishedInput `json:"inputs"` // by the name that Expr uses
}

// PublishedInput is what a variable stands for.
type PublishedInput struct {
	Device  string          `json:"device"` // empty in a program for a class
	Channel string          `json:"channel"`
	Stream  PublishedStream `json:"stream"`
}

// PublishedStream is what a compiler needs to know of a stream.
type PublishedStream struct {
	Name     string             `json:"name"`
	LogScale int                `json:"log_scale,omitempty"`
	Packing  string             `json:"packing,omitempty"`
	Places   int                `json:"places,omitempty"`
	Samples  int                `json:"samples"`
	Every    time.Duration      `json:"every_ns,omitempty"`
	Level    *int               `json:"level,omitempty"`
	Channels []PublishedChannel `json:"channels"`
}

// PublishedChannel is a channel of a stream.
type PublishedChannel struct {
	Name       string     `json:"name"`
	Unit       string     `json:"unit"`
	Range      [2]float64 `json:"range"`
	Resolution float64    `json:"resolution,omitempty"` // of a histogram
}

// Publish describes a program for full windows.
func Publish(src Source, params henc.Parameters, unit, topic string) Published {
	p := Published{Name: src.Name, Expr: src.Expr, Params: params.Name(), Unit: unit, Topic: topic,
		Class: src.Class, Resolution: src.Resolution, Model: src.Model, Inputs: map[string]PublishedInput{}}
	for name, v := range src.Vars {
		st := v.Stream
		in := PublishedInput{Device: v.Device, Channel: st.Channels[v.Channel].Name,
			Stream: PublishedStream{Name: st.Name, LogScale: st.LogScale, Packing: st.Packing,
				Places: st.Places, Samples: st.Window.Samples, Every: st.Window.Every, Level: st.Level}}
		for _, c := range st.Channels {
			in.Stream.Channels = append(in.Stream.Channels, PublishedChannel{c.Name, c.Unit, c.Range, c.Resolution})
		}
		p.Inputs[name] = in
	}
	return p
}

// Source returns the program to compile, and its parameters.
func (p *Published) Source() (Source, henc.Parameters, error) {
	params, err := henc.Named(p.Params)
	if err == nil {
		err = p.printable()
	}
	if err != nil {
		return Source{}, params, fmt.Errorf("%w of %q: %w", ErrPublished, p.Name, err)
	}
	src := Source{Name: p.Name, Expr: p.Expr, Class: p.Class, Resolution: p.Resolution, Model: p.Model,
		Vars: map[string]Var{}}
	if p.Model != nil {
		src.Expr = p.Model.Text()
	}
	for name, in := range p.Inputs {
		st := config.Stream{Name: in.Stream.Name, LogScale: in.Stream.LogScale, Packing: in.Stream.Packing,
			Places: in.Stream.Places, Params: p.Params,
			Level:  in.Stream.Level,
			Window: config.Window{Samples: in.Stream.Samples, Every: in.Stream.Every}}
		for _, c := range in.Stream.Channels {
			st.Channels = append(st.Channels, config.Channel{Name: c.Name, Unit: c.Unit, Range: c.Range,
				Resolution: c.Resolution})
		}
		src.Vars[name] = Var{Device: in.Device, Stream: st, Channel: st.ChannelIndex(in.Channel)}
	}
	return src, params, nil
}

// printable refuses text that could drive a terminal.
func (p *Published) printable() error {
	text := []string{p.Name, p.Expr, p.Unit, p.Topic, p.Class}
	for name, in := range p.Inputs {
		text = append(text, name, in.Device, in.Channel, in.Stream.Name)
		for _, c := range in.Stream.Channels {
			text = append(text, c.Name, c.Unit)
		}
	}
	if p.Model != nil {
		text = append(text, p.Model.Texts()...)
	}
	for _, s := range text {
		for _, r := range s {
			if !unicode.IsPrint(r) && r != '\n' {
				return fmt.Errorf("%q has a character that cannot be printed", s)
			}
		}
	}
	return nil
}

// MaxPublished is the largest encoded description, in bytes.
const MaxPublished = 256 << 10

var (
	publishedEnc = must(cbor.EncOptions{Sort: cbor.SortCoreDeterministic, ShortestFloat: cbor.ShortestFloat16,
		NaNConvert: cbor.NaNConvertReject,
		InfConvert: cbor.InfConvertReject, IndefLength: cbor.IndefLengthForbidden,
		TagsMd: cbor.TagsForbidden}.EncMode())
	publishedDec = must(cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		TagsMd:          cbor.TagsForbidden,
		MaxNestedLevels: 8, MaxArrayElements: 4096, MaxMapPairs: 256, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8: cbor.UTF8RejectInvalid,
		NaN:  cbor.NaNDecodeForbidden, Inf: cbor.InfDecodeForbidden}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// MarshalPublished encodes a description: deterministic CBOR.
func MarshalPublished(p *Published) ([]byte, error) {
	b, err := publishedEnc.Marshal(p)
	if err == nil && len(b) > MaxPublished {
		err = fmt.Errorf("%d bytes, at most %d", len(b), MaxPublished)
	}
	if err != nil {
		return nil, fmt.Errorf("%w of %q: %w", ErrPublished, p.Name, err)
	}
	return b, nil
}

// UnmarshalPublished decodes a description strictly: its one encoding, known keys only.
func UnmarshalPublished(b []byte) (*Published, error) {
	if len(b) > MaxPublished {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrPublished, len(b), MaxPublished)
	}
	p := new(Published)
	if err := publishedDec.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPublished, err)
	}
	if again, err := publishedEnc.Marshal(p); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: not in canonical form", ErrPublished)
	}
	return p, nil
}
