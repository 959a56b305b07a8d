package mqtt

import (
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
