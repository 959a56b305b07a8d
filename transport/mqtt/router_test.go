package mqtt

import (
	"slices"
	"testing"

	"github.com/hencedge/hencedge/transport"
)

func TestMatchTopic(t *testing.T) {
	for _, tc := range []struct {
		filter, topic string
		want          bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/c", false}, {"a/+", "a/b", true}, {"a/+", "a", false}, {"a/+", "a/b/c", false},
		{"+/b", "a/b", true},
		{"a/#", "a/b/c", true}, {"a/#", "a", true}, {"#", "a/b", true}, {"#", "$SYS/x", false},
		{"$SYS/#", "$SYS/x", true}, {"+/x", "$SYS/x", false},
		{"a/+/c", "a//c", true}, {"$share/g/a/+", "a/b", true}, {"$share/g/a/+", "b/a", false},
		{"$share/g", "a", false}, {"a", "", false},
		{"a/b/#", "a", false}, {"a/b", "a/b/", false}, {"a/+", "a/", true}, {"a/b/c", "a/b", false},
	} {
		if got := matchTopic(tc.filter, tc.topic); got != tc.want {
			t.Errorf("%q against %q: %t", tc.filter, tc.topic, got)
		}
	}
}

// The filters of this project's topics cover those and nothing below them.
func TestFilters(t *testing.T) {
	for filter, topic := range map[string]string{
		transport.ResultFilter("p"): transport.ResultTopic("p", "x"), "p/up/+/+": transport.ReadingTopic("p", "d", "s"),
		"p/st/+": transport.StatusTopic("p", "d"),
	} {
		if !matchTopic(filter, topic) || matchTopic(filter, topic+"/more") {
			t.Errorf("%q against %q", filter, topic)
		}
	}
}

// A topic brings the subscriptions that cover it, however many others there are, and those
// that were removed no more.
func TestTakers(t *testing.T) {
	r := newRouter(&client{ctx: t.Context()})
	subs := map[string]*subscription{}
	for _, filter := range []string{"a/b", "a/+", "a/#", "b", "$share/g/a/b", "+/c"} {
		s, err := r.add(filter, func(transport.Delivery) {})
		if err != nil {
			t.Fatal(err)
		}
		subs[filter] = s
	}
	check := func(topic string, want ...string) {
		t.Helper()
		var got []string
		for _, s := range r.takers(topic) {
			got = append(got, s.filter)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", topic, got, want)
		}
	}
	check("a/b", "a/b", "a/+", "a/#", "$share/g/a/b")
	check("b", "b")
	check("a/c", "a/+", "a/#", "+/c")
	check("c")
	r.remove(subs["a/b"])
	r.remove(subs["a/+"])
	check("a/b", "a/#", "$share/g/a/b")
	if _, err := r.add("b", func(transport.Delivery) {}); err == nil {
		t.Error("a second subscription with one filter")
	}
}
