package agent

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hencedge/hencedge/internal/daemon"
)

// Health says what is wrong now: no connection yet, or for too long, windows lost lately,
// a spool that cannot be written, a certificate that ends, channels without a value
// for too long.
func (a *Agent) Health() []string {
	var out []string
	a.link.mu.Lock()
	switch c := a.link.client; {
	case c == nil:
	case !a.link.ever:
		out = append(out, never(a.link.lastErr))
	case !c.Connected():
		if since := a.now().sub(a.link.changed); since > offlineTooLong {
			out = append(out, fmt.Sprintf("no connection to the broker for %v", since.Round(time.Second)))
		}
	}
	a.link.mu.Unlock()
	if reason := a.link.losses(a.Stats(), a.now()); reason != "" {
		out = append(out, reason)
	}
	if err := a.spool.Health(); err != nil {
		out = append(out, err.Error())
	}
	if reason := daemon.CertificateHealth(a.cfg.Broker, a.clock.Now()); reason != "" {
		out = append(out, reason)
	}
	if err := a.state.Health(); err != nil {
		out = append(out, "cannot be written: "+err.Error())
	}
	for _, reason := range []string{a.duplicates.health(), a.link.unsteady(a.now())} {
		if reason != "" {
			out = append(out, reason)
		}
	}
	out = append(out, a.refusedStreams()...)
	if reason := a.link.unacknowledged(a.Stats(), a.since, a.now()); reason != "" {
		out = append(out, reason)
	}
	if n := a.Stats().Delivery.Renumbered; n > 0 {
		out = append(out, fmt.Sprintf("%d windows had sequence numbers that were already used: another board has "+
			"this device's identity (give it its own), or the state is an old copy (then restart the agent)", n))
	}
	if reason := a.Stats().Delivery.Unreadable; reason != "" {
		out = append(out, "the evaluator's receipts cannot be read: "+reason+"; it runs another version of this "+
			"program: install the same version on both. Windows wait until then")
	}
	if reason := oldSpool(a.Stats().Delivery.Before, len(a.cfg.Streams)); reason != "" {
		out = append(out, reason)
	}
	return append(out, a.silent()...)
}

// never returns the health of an agent that has not reached the broker since its start.
func never(lastErr string) string {
	if lastErr == "" {
		return "the broker has not been reached since the start"
	}
	return "the broker has not been reached since the start: " + lastErr
}

// oldSpool says that the spool is an old copy: more of its windows had been delivered than
// the process before can have had under way when it ended.
func oldSpool(before uint64, streams int) string {
	if before <= uint64(3*streams) {
		return ""
	}
	return fmt.Sprintf("%d windows in the spool had already been delivered before this start: the spool is an old "+
		"copy, such as a restored backup, or its files could not be deleted. The evaluator counts each window once. A "+
		"replay reads again what it had read after the copy was made (restart the agent once all is delivered)", before)
}

// refusedStreams says why the evaluator refuses all windows of a stream.
func (a *Agent) refusedStreams() (out []string) {
	refusing := a.Stats().Delivery.Refusing
	for _, stream := range slices.Sorted(maps.Keys(refusing)) {
		out = append(out, fmt.Sprintf("the evaluator refuses every window of stream %s: %s", stream, refusing[stream]))
	}
	return out
}
