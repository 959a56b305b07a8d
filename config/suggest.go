package config

import (
	"fmt"
	"slices"
	"strings"
)

// suggestKey is the remedy for an unknown key.
func suggestKey(key string, known []string) string {
	if s := nearest(key, known); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	return "remove it; known keys here: " + strings.Join(known, ", ")
}

// mostKnown is how many values are listed besides a suggestion.
const mostKnown = 8

// suggestValue is the remedy for a value outside a fixed set.
func suggestValue(value string, known []string) string {
	known = slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == "" })
	near := nearest(value, known)
	switch {
	case len(known) == 0:
		return "define it first"
	case len(known) == 1:
		return fmt.Sprintf("write %q", known[0])
	case near == "":
		return "use one of " + strings.Join(known, ", ")
	case len(known) <= mostKnown:
		return fmt.Sprintf("did you mean %q? use one of %s", near, strings.Join(known, ", "))
	}
	return fmt.Sprintf("did you mean %q?", near)
}

// nearest is the known word at the smallest edit distance from word, or "" when
// none is close.
func nearest(word string, known []string) string {
	if len(word) > MaxNameLength {
		return ""
	}
	fold := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
	}
	best, limit := "", len(word)/3+1
	w := fold(word)
	for _, k := range known {
		if d := distance(w, fold(k)); d < limit {
			best, limit = k, d
		}
	}
	if best == "" {
		for _, k := range known {
			if abbreviates(w, fold(k)) {
				return k
			}
		}
	}
	return best
}

// abbreviates reports whether short is long with letters left out: "pubkey" for
// "publickey". It starts alike and keeps half.
func abbreviates(short, long string) bool {
	if len(short) < 3 || len(long) == 0 || 2*len(short) < len(long) || short[0] != long[0] {
		return false
	}
	i := 0
	for j := 0; i < len(short) && j < len(long); j++ {
		if short[i] == long[j] {
			i++
		}
	}
	return i == len(short)
}

// distance is the optimal string alignment distance: insertions, deletions,
// substitutions and swaps of neighbours, in bytes.
func distance(a, b string) int {
	var prev2 []int
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return prev[len(b)]
}

// examples show how a required field is written.
var examples = map[string]string{
	"device":       "\"device: board1\", the name of this device",
	"name":         "\"name: ...\", a name of letters, digits, '_', '.' and '-'",
	"broker":       "\"broker:\" with \"url: tls://host:8883\" below it",
	"url":          "\"url: tls://host:8883\"",
	"keys":         "\"keys:\" with \"public_key: public.key\" below it",
	"key_set":      "\"key_set: keys\", the directory made by `hencedge keys new`",
	"key_sets":     "\"key_sets: [evaluator-keys]\", directories made by `hencedge keys export --role evaluator`",
	"signing_key":  "\"signing_key: signing.key\", the file that `hencedge keys identity` makes",
	"state":        "\"state: state.cbor\", a file that survives restarts",
	"streams":      "\"streams:\" with at least one stream",
	"channels":     "\"channels:\" with at least one channel",
	"window":       "\"window: {samples: 64}\" or \"window: {every: 1m}\"",
	"params":       "\"params: edge12-d1\"",
	"unit":         "\"unit: degC\"",
	"range":        "\"range: [minimum, maximum]\" in the channel's unit",
	"type":         "\"type: cpu\", or another type of docs/configuration.md",
	"devices":      "\"devices:\" with the name and public_key of each agent",
	"evaluators":   "\"evaluators:\" with the name and public_key of each evaluator",
	"public_key":   "\"public_key: ed25519:...\"",
	"programs":     "\"programs:\" with at least one program",
	"expr":         "\"expr: mean(x)\"",
	"inputs":       "\"inputs: {x: device/stream/channel}\"",
	"dir":          "\"dir: DIRECTORY\", a directory of its own",
	"operator_key": "\"operator_key: ed25519:...\", as `hencedge keys identity FILE` prints it for the operator",
	"stream":       "\"stream:\" with the name of a stream",
	"from":         "\"from:\" with the name of an entry of \"inputs\"",
	"to":           "\"to: \\\"06:00\\\"\"",
	"interval":     "\"interval: 1s\", the time between samples",
	"samples":      "\"samples: 64\"",
	"source":       "\"source: {type: cpu}\" or another source",
	"file":         "\"file: data.csv\"",
	"bus":          "\"bus: 1\", the number of the bus",
	"address":      "\"address: 0x48\", the 7-bit address of the device",
	"register":     "\"register: 0\"",
	"value":        "\"value: 0\"",
	"interface":    "\"interface: can0\"",
	"command":      "\"command: [/usr/local/bin/sensor]\"",
	"format":       "\"format: csv\", or json, nmea, text",
	"time":         "\"time: timestamp\", the column of the timestamps",
}

func exampleOf(name string) string {
	if e, ok := examples[name]; ok {
		return e
	}
	return fmt.Sprintf("%q", name)
}
