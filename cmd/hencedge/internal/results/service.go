package results

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/keyholder"
)

// holderService connects "results watch" to a service manager: it reports that the watch
// is ready and alive. It also writes results to a file, which SIGHUP opens again. Without a
// manager and a file it does nothing.
type holderService struct {
	notify *daemon.Notifier
	pulse  daemon.Pulse
	out    *keyholder.AppendFile
	log    *slog.Logger
	taken  int
}

// newHolderService opens the file out, unless that is "", and makes it standard output.
func (a *app) newHolderService(out string, log *slog.Logger) (*holderService, error) {
	s := &holderService{notify: daemon.NewNotifier(), log: log}
	if out == "" {
		return s, nil
	}
	f, err := keyholder.OpenAppend(out)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	s.out, a.Std.Out = f, f
	return s, nil
}

// close ends the service in good order.
func (s *holderService) close() {
	s.tell(s.notify.Send("STOPPING=1", "STATUS=stopping"))
	if s.out != nil {
		_ = s.out.Close() // each line is on the disk already
	}
}

// tell logs that the service manager could not be notified.
func (s *holderService) tell(err error) {
	if err != nil {
		s.log.Warn("cannot notify the service manager", "error", err)
	}
}

// start reports that the keys are loaded. Then it reports signs of life until ctx ends.
func (s *holderService) start(ctx context.Context) {
	s.tell(s.notify.Ready("waiting for the broker"))
	hup := make(chan os.Signal, 1)
	if s.out != nil {
		signal.Notify(hup, syscall.SIGHUP)
	}
	every := s.notify.Watchdog()
	alive := make(<-chan time.Time)
	stop := func() {}
	if every > 0 {
		t := time.NewTicker(every / 3)
		alive, stop = t.C, t.Stop
	}
	go func() {
		defer stop()
		defer signal.Stop(hup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
				if err := s.out.Reopen(); err != nil {
					s.log.Error("cannot reopen the file of results; the old one stays in use", "error", err)
				}
			case <-alive:
				// A disk that hangs must not look like a watch without results.
				if what, took := s.pulse.Oldest(); took >= every {
					s.log.Error("no sign of life for the service manager", "hangs", what, "for", took)
				} else {
					s.tell(s.notify.Alive())
				}
			}
		}
	}()
}

// connected reports that results can come from now on.
func (s *holderService) connected() { s.tell(s.notify.Status("connected; no result yet")) }

// writing marks a result as being written while write runs.
func (s *holderService) writing(write func(*keyholder.Result) error) func(*keyholder.Result) error {
	return func(r *keyholder.Result) error {
		defer s.pulse.Begin("write a result")()
		return write(r)
	}
}

// handed counts a result that was written.
func (s *holderService) handed() {
	s.taken++
	s.tell(s.notify.Status(fmt.Sprintf("connected; %s since the start", cli.Plural(s.taken, "result"))))
}
