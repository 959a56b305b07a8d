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

// wildFilter reports whether a filter may cover other topics than the one of its name.
func wildFilter(filter string) bool {
	return strings.ContainsAny(filter, "+#") || strings.HasPrefix(filter, "$share/")
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
	for {
		part, filterRest, more := strings.Cut(filter, "/")
		level, topicRest, deeper := strings.Cut(topic, "/")
		switch {
		case part == "#":
			return !more
		case part != "+" && part != level:
			return false
		case !more || !deeper:
			return more == deeper || more && filterRest == "#"
		}
		filter, topic = filterRest, topicRest
	}
}
