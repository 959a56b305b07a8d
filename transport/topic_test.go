package transport

import (
	"errors"
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
	for prefix, ok := range map[string]bool{DefaultPrefix: true, "a": true, "a/b/c/d/e/f/g/h": true, "": false, "/a": false, "a/": false, "a//b": false, "a/+": false, "a/b/c/d/e/f/g/h/i": false} {
		if err := CheckPrefix(prefix); (err == nil) != ok {
			t.Errorf("%q: %v", prefix, err)
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
	for filter, topic := range map[string]string{
		ReadingFilter("p"): ReadingTopic("p", "d", "s"), ResultFilter("p"): ResultTopic("p", "x"), StatusFilter("p"): StatusTopic("p", "d"),
	} {
		if !matchTopic(filter, topic) || matchTopic(filter, topic+"/more") {
			t.Errorf("%q against %q", filter, topic)
		}
	}
}

func TestMatchTopic(t *testing.T) {
	for _, tc := range []struct {
		filter, topic string
		want          bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/c", false}, {"a/+", "a/b", true}, {"a/+", "a", false}, {"a/+", "a/b/c", false}, {"+/b", "a/b", true},
		{"a/#", "a/b/c", true}, {"a/#", "a", true}, {"#", "a/b", true}, {"#", "$SYS/x", false}, {"$SYS/#", "$SYS/x", true}, {"+/x", "$SYS/x", false},
		{"a/+/c", "a//c", true}, {"$share/g/a/+", "a/b", true}, {"$share/g/a/+", "b/a", false}, {"$share/g", "a", false}, {"a", "", false},
	} {
		if got := matchTopic(tc.filter, tc.topic); got != tc.want {
			t.Errorf("%q against %q: %t", tc.filter, tc.topic, got)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, s := range []Status{{}, {Online: true, Version: "v1.2.3-rc (x)", Streams: []string{"a", "b.c"}, Since: -7}} {
		b, err := MarshalStatus(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := UnmarshalStatus(b)
		if err != nil || !reflect.DeepEqual(*got, s) {
			t.Errorf("%+v, %v", got, err)
		}
		for n := range b {
			if _, err := UnmarshalStatus(b[:n]); !errors.Is(err, ErrTruncated) {
				t.Errorf("cut at %d: %v", n, err)
			}
		}
		if _, err := UnmarshalStatus(append(b, 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("a byte too many: %v", err)
		}
	}
	for _, s := range []Status{{Version: strings.Repeat("1", 65)}, {Version: "a\nb"}, {Version: "é"}, {Streams: []string{"a/b"}}, {Streams: make([]string, 65)}} {
		if _, err := MarshalStatus(s); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := UnmarshalStatus(make([]byte, maxStatus+1)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}
