package alert

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/keyholder/outlet"
)

// commandEnvironment is all that a command sees.
var commandEnvironment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}

// command runs a program for each event, which it gets on standard input. Status 0 says that
// it has taken the event.
type command struct{ line []string }

func (c *command) send(ctx context.Context, e *Event) error {
	text, err := e.text()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.line[0], c.line[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin = commandEnvironment, "/", bytes.NewReader(append(text, '\n'))
	complaint := &head{most: 200}
	cmd.Stderr = complaint
	if err := role.RunGroup(cmd); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %s did not end in time and was killed", outlet.ErrRefused, c.line[0])
		}
		return fmt.Errorf("%w: %s: %w%s", outlet.ErrRefused, c.line[0], err, complaint)
	}
	return nil
}

func (c *command) close() {}

// head keeps the first bytes of what is written to it.
type head struct {
	text []byte
	most int
}

func (h *head) Write(b []byte) (int, error) {
	h.text = append(h.text, b[:min(len(b), h.most-len(h.text))]...)
	return len(b), nil
}

// String returns the first line in quotes after ": ", or "".
func (h *head) String() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(h.text)), "\n")
	if line == "" {
		return ""
	}
	return fmt.Sprintf(": %q", line)
}
