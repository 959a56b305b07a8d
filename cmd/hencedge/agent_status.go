//go:build !evaluatoronly

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

func describeAgent(r agent.Report) []string {
	lines := []string{
		fmt.Sprintf("%-14s %s, boot epoch %d", "device", r.Device, r.Boot),
		fmt.Sprintf("%-14s %s, %s", "broker", r.Broker.URL, connection(r.Broker.Connected)),
	}
	if t := r.Broker.LastAck; t != nil {
		lines = append(lines, fmt.Sprintf("%-14s %s", "last ack", when(*t)))
	}
	if t := r.Broker.FailedAt; t != nil {
		lines = append(lines, fmt.Sprintf("%-14s %s: %s", "last error", when(*t), r.Broker.LastError))
	}
	lines = append(lines,
		fmt.Sprintf("%-14s %s", "queue", describeQueue(r)),
		fmt.Sprintf("%-14s %d windows, %s; %d tried again, %d refused", "sent", r.Sent, cli.Bytes(int64(r.SentBytes)),
			r.Retries, r.Refused),
		fmt.Sprintf("%-14s %s, %s, epoch %d, %s", "keys", r.Keys.ID, r.Keys.Mode, r.Keys.Epoch, r.Keys.Params),
		fmt.Sprintf("%-14s %s", "signs as", r.Keys.PublicKey))
	if r.Queue.Waits != "" {
		lines = append(lines, fmt.Sprintf("%-14s %s", "waits", r.Queue.Waits))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Inputs)) {
		in := r.Inputs[name]
		lines = append(lines, fmt.Sprintf("%-14s %s: %d values, %d bad, %d failures", "input", name, in.Values, in.Bad,
			in.Failures))
	}
	for _, t := range r.Troubles {
		lines = append(lines, fmt.Sprintf("%-14s %s/%s since %s: %s", "no value", t.Stream, t.Channel, when(t.Since),
			t.Error))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
		lines = append(lines, fmt.Sprintf("%-14s %s: %s", "stream", name, describeStream(r.Streams[name])))
	}
	return append(lines, fmt.Sprintf("%-14s %s", "energy", r.Energy))
}

// describeStream returns what became of the samples of a stream. It names trouble only
// where there is any.
func describeStream(s agent.StreamStats) string {
	text := fmt.Sprintf("%d samples, %d missing, %d windows, %d lost", s.Samples, s.Missing, s.Windows, s.Errors)
	for _, c := range []struct {
		n    uint64
		what string
	}{
		{s.MissedTicks, "ticks missed"}, {s.Skipped, "samples left out"}, {s.Late, "too late"},
		{s.Overflow, "too many for a window"},
		{s.Outside, "values out of range"}, {s.ClockSteps, "windows cut by the clock"},
		{s.BadCells, "bad cells of the file taken as missing"}, {s.BadRows, "bad rows of the file left out"},
	} {
		if c.n > 0 {
			text += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	return text
}

func describeQueue(r agent.Report) string {
	q := r.Queue
	where := "in memory"
	switch {
	case q.Durable && q.Memory > 0:
		where = fmt.Sprintf("%d of them in memory", q.Memory)
	case q.Durable:
		where = "on disk"
	}
	text := fmt.Sprintf("%d windows, %s, %s", q.Objects, cli.Bytes(q.Bytes), where)
	if q.Objects > 0 {
		text += fmt.Sprintf(", the oldest of %v ago", time.Duration(q.Oldest*float64(time.Second)).Round(time.Second))
	}
	return text + fmt.Sprintf("; lost: %d dropped, %d expired, %d damaged", q.Dropped, q.Expired, q.Damaged)
}

// describeAgentState returns the lines of `agent status`.
func describeAgentState(raw json.RawMessage) ([]string, error) {
	var s agentState
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	lines := describeAgent(s.Report)
	if r := s.Remote; r != nil {
		inUse := "none"
		if r.InUse > 0 {
			inUse = fmt.Sprintf("version %d", r.InUse)
		}
		lines = append(lines, fmt.Sprintf("%-14s %s in use, %d seen", "remote", inUse, r.Seen))
		if r.Refused != "" {
			lines = append(lines, fmt.Sprintf("%-14s %s", "", strings.ReplaceAll(r.Refused, "\n", "\n               ")))
		}
	}
	return lines, nil
}
