package transport

import (
	"fmt"
	"strings"
)

// DefaultPrefix is the topic prefix used when the configuration names none.
const DefaultPrefix = "hencedge/v1"

// MaxTopic is the length of the longest topic, in bytes.
const MaxTopic = 1024

// ReadingTopic returns <prefix>/up/<device>/<stream>.
func ReadingTopic(prefix, device, stream string) string {
	return prefix + "/up/" + device + "/" + stream
}

// ResultTopic returns <prefix>/res/<program>.
func ResultTopic(prefix, program string) string { return prefix + "/res/" + program }

// ResultFilter matches the results of every program.
func ResultFilter(prefix string) string { return prefix + "/res/+" }

// StatusTopic returns <prefix>/st/<device>; its messages are retained.
func StatusTopic(prefix, device string) string { return prefix + "/st/" + device }

// ReceiptTopic returns <prefix>/rcp/<name>: receipts addressed to the sender of
// objects of that name, a device or an evaluator.
func ReceiptTopic(prefix, name string) string { return prefix + "/rcp/" + name }

// AskTopic returns <prefix>/ask/<name>: where that sender asks for receipts.
func AskTopic(prefix, name string) string { return prefix + "/ask/" + name }

// ProgramTopic returns <prefix>/prg/<evaluator>/<program>: what a program of an evaluator
// computes; its messages are retained.
func ProgramTopic(prefix, evaluator, program string) string {
	return prefix + "/prg/" + evaluator + "/" + program
}

// Topic returns the topic of an object with this header, under prefix. A receipt
// is published under its addressee's topic, which the header does not name.
func (m *Meta) Topic(prefix string) string {
	switch m.Kind {
	case KindReading:
		return ReadingTopic(prefix, m.Device, m.Stream)
	case KindResult:
		return ResultTopic(prefix, m.Program)
	case KindStatus:
		return StatusTopic(prefix, m.Device)
	case KindProgram:
		return ProgramTopic(prefix, m.Device, m.Program)
	case KindAsk:
		return AskTopic(prefix, m.Device)
	default:
		return ReceiptTopic(prefix, m.Device)
	}
}

// CheckTopic refuses with ErrWrongTopic a header that arrived under another
// topic than its own: a reading of device a published as device b.
func (m *Meta) CheckTopic(prefix, topic string) error {
	if want := m.Topic(prefix); topic != want {
		return fmt.Errorf("%w: %q carries a message for %q", ErrWrongTopic, topic, want)
	}
	return nil
}

// ValidTopic reports whether a message can be published under topic: it has 1 to
// MaxTopic bytes and no wildcard.
func ValidTopic(topic string) bool {
	return topic != "" && len(topic) <= MaxTopic && !strings.ContainsAny(topic, "+#\x00")
}
