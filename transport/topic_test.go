package transport

import (
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "Board-7_x.y", "...", strings.Repeat("z", 64)} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "+", "#", "a b", "ä", "a\x00", strings.Repeat("z", 65)} {
		if err := CheckName(name); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestTopics(t *testing.T) {
	for _, tc := range []struct {
		meta  Meta
		topic string
	}{
		{Meta{Kind: KindReading, Device: "d", Stream: "s"}, "p/up/d/s"},
		{Meta{Kind: KindResult, Device: "d", Program: "x"}, "p/res/x"},
		{Meta{Kind: KindStatus, Device: "d", Stream: "s"}, "p/st/d"},
		{Meta{Kind: KindReceipt, Device: "d"}, "p/rcp/d"},
		{Meta{Kind: KindAsk, Device: "d"}, "p/ask/d"},
	} {
		if got := tc.meta.Topic("p"); got != tc.topic {
			t.Errorf("%v: %q", tc.meta.Kind, got)
		}
		if err := tc.meta.CheckTopic("p", tc.topic); err != nil {
			t.Error(err)
		}
		if err := tc.meta.CheckTopic("p", tc.topic+"x"); !errors.Is(err, ErrWrongTopic) {
			t.Error(err)
		}
	}
}

func TestStatus(t *testing.T) {
	described := StreamStatus{Name: "b.c", Params: "edge13-d3", LogScale: 30, Packing: "real", Samples: 64, Every: 1e9,
		Channels: []ChannelStatus{{Name: "cpu", Unit: "%", Min: -0.5, Max: 100}, {Name: "x", Unit: "µm"}}}
	large := Status{}
	for range MaxStatusChannels {
		described.Channels = append(described.Channels, ChannelStatus{Name: "x", Unit: "1", Max: 1})
	}
	described.Channels = described.Channels[:MaxStatusChannels]
	large.Streams = []StreamStatus{described}
	described.Channels = described.Channels[:2]
	for _, s := range []Status{{}, {Online: true, Version: "v1.2.3-rc (x)",
		Streams: []StreamStatus{{Name: "a"}, described}, Since: -7, KeyID: [16]byte{1}, KeyEpoch: 2}, large} {
		b, err := MarshalStatus(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := UnmarshalStatus(b)
		if err != nil || !reflect.DeepEqual(*got, s) {
			t.Errorf("%+v, %v", got, err)
		}
		for n := 0; n < len(b); n += 1 + len(b)/500 {
			if _, err := UnmarshalStatus(b[:n]); !errors.Is(err, ErrTruncated) {
				t.Errorf("cut at %d: %v", n, err)
			}
		}
		if _, err := UnmarshalStatus(append(b, 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("a byte too many: %v", err)
		}
	}
	for _, s := range []Status{{Version: strings.Repeat("1", 65)}, {Version: "a\nb"}, {Version: "é"},
		{Streams: []StreamStatus{{Name: "a/b"}}}, {Streams: make([]StreamStatus, 65)},
		{KeyEpoch: 1}, {Streams: []StreamStatus{{Name: "a", Params: "x"}}},
		{Streams: []StreamStatus{{Name: "a", Params: "x", Packing: "real", Channels: described.Channels}}},
		{Streams: []StreamStatus{{Name: "a", Params: "x", Packing: "real", Samples: 1,
			Channels: []ChannelStatus{{Name: "c", Unit: "\x1b[2J"}}}}},
		{Streams: []StreamStatus{{Name: "a", Params: "x", Packing: "real", Samples: 1,
			Channels: []ChannelStatus{{Name: "c", Unit: "1", Max: math.Inf(1)}}}}}} {
		if _, err := MarshalStatus(s); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := UnmarshalStatus(make([]byte, maxStatus+1)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	// Bodies of another format are refused by name: this one names streams alone.
	old, err := hex.DecodeString("a400f50165302e312e30028169766962726174696f6e031b17979cfe362a0000")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := UnmarshalStatus(old); !errors.Is(err, ErrDowngraded) || !strings.Contains(err.Error(), "format 1") {
		t.Error(err)
	}
	next, _ := hex.DecodeString("a400f4016003000403")
	if _, err := UnmarshalStatus(next); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("%x: %v", next, err)
	}
	// What does not fit is left out from the end; the names stay.
	fit := Status{Streams: []StreamStatus{{Name: "a", Params: "p", Packing: "real", Samples: 1,
		Channels: described.Channels}, large.Streams[0]}}
	fit.Streams[1].Name = "z"
	fit.Fit(1000)
	if len(fit.Streams[0].Channels) != 2 || !reflect.DeepEqual(fit.Streams[1], StreamStatus{Name: "z"}) {
		t.Errorf("%+v", fit)
	}
	if b, err := MarshalStatus(fit); err != nil || len(b) > 1000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
