package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/systemd"
)

// running asks the service of a role that runs here, over its control socket, how
// well its memory is protected and whether it is healthy. The limits of doctor's own
// shell say nothing about a service.
func running(ctx context.Context, role systemd.Role, socket string) Check {
	c := Check{Name: string(role) + " that runs", Status: Info}
	b, err := daemon.Ask(ctx, cmp.Or(socket, role.ControlSocket()), "/status")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		c.Detail = "none"
		return c
	case errors.Is(err, fs.ErrPermission):
		c.Detail = "this user may not ask it; root and the service's own may"
		return c
	case err != nil:
		c.Status, c.Detail, c.Remedy = Warn, err.Error(), "see the service's log"
		return c
	}
	var s daemon.SupervisorStatus
	if err := json.Unmarshal(b, &s); err != nil {
		c.Status, c.Detail, c.Remedy = Warn, "its answer cannot be read: "+err.Error(),
			"restart it, if it is of another version"
		return c
	}
	c.Status, c.Detail = OK, fmt.Sprintf("version %s, memory: %s", s.Version, s.Protection)
	if s.Protection.Dumpable {
		c.Status, c.Remedy = Warn, "run it as hencedge's unit does: see hencedge service install --show"
	}
	if d := s.Protection.Detail; d != "" {
		c.Detail += "; " + d
	}
	if !s.Healthy {
		c.Status, c.Remedy = Warn, fmt.Sprintf("see hencedge %s status", role)
		c.Detail += "; not healthy: " + strings.Join(s.Reasons, "; ")
	}
	return c
}
