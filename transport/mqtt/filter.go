package mqtt

import (
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/transport"
)

// checkFilter refuses what no broker grants.
func checkFilter(filter string) error {
	bad := filter == "" || len(filter) > transport.MaxTopic || strings.Contains(filter, "\x00")
	parts := strings.Split(filter, "/")
	for i, p := range parts {
		if (strings.Contains(p, "#") && (p != "#" || i != len(parts)-1)) || (strings.Contains(p, "+") && p != "+") {
			bad = true
		}
	}
	if bad {
		return fmt.Errorf("%w: topic filter %q", transport.ErrMalformed, filter)
	}
	return nil
}

// matchTopic reports whether an MQTT filter (with + and #) covers topic. A
// shared subscription's "$share/<group>/" is not part of the filter.
func matchTopic(filter, topic string) bool {
	if rest, ok := strings.CutPrefix(filter, "$share/"); ok {
		if _, filter, ok = strings.Cut(rest, "/"); !ok {
			return false
		}
	}
	if strings.HasPrefix(topic, "$") != strings.HasPrefix(filter, "$") {
		return false
	}
	f, t := strings.Split(filter, "/"), strings.Split(topic, "/")
	for i, part := range f {
		if part == "#" {
			return i == len(f)-1
		}
		if i >= len(t) || (part != "+" && part != t[i]) {
			return false
		}
	}
	return len(f) == len(t)
}
