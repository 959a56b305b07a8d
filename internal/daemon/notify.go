package daemon

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Notifier talks to the service manager by the sd_notify(3) protocol. The zero
// value has nobody to talk to; its methods then do nothing.
type Notifier struct {
	address  string
	watchdog time.Duration
}

// NewNotifier reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID, and removes
// them, so that programs that the service starts do not speak for it.
func NewNotifier() *Notifier {
	n := &Notifier{address: os.Getenv("NOTIFY_SOCKET")}
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	pid := os.Getenv("WATCHDOG_PID")
	if err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		os.Unsetenv(name)
	}
	return n
}

// Watchdog is how often the manager wants a sign of life at the latest; 0 means
// never.
func (n *Notifier) Watchdog() time.Duration { return n.watchdog }

// managed reports whether there is a service manager.
func (n *Notifier) managed() bool { return n != nil && n.address != "" }

// Send sends lines such as "READY=1" in one message. Without a manager it does
// nothing and returns nil.
func (n *Notifier) Send(lines ...string) error {
	if !n.managed() {
		return nil
	}
	if n.address[0] != '/' && n.address[0] != '@' {
		return fmt.Errorf("notify the service manager: unknown socket %q", n.address)
	}
	// net maps a leading '@' to the abstract namespace, as sd_notify does.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.address, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer c.Close()
	for i, l := range lines {
		lines[i] = short(strings.Map(func(r rune) rune { // a line is a line
			if r < ' ' {
				return ' '
			}
			return r
		}, l))
	}
	if _, err := c.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// maxLine bounds a line, bytes: the manager ignores a message of more than 4096, with
// every sign of life in it.
const maxLine = 1024

// short cuts a line that is too long.
func short(line string) string {
	if len(line) <= maxLine {
		return line
	}
	const more = "..."
	end := maxLine - len(more)
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + more
}

// Ready, Reloading and Stopping announce the state of the service, Status a line
// of text for `systemctl status`, Alive feeds the watchdog.
func (n *Notifier) Ready(status string) error { return n.Send("READY=1", "STATUS="+status) }

// Reloading must be followed by Ready.
func (n *Notifier) Reloading() error {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return err
	}
	return n.Send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", ts.Nano()/1000), "STATUS=reloading")
}

// Extend asks for more time for what is under way.
func (n *Notifier) Extend(by time.Duration) error { return n.Send(extend(by)) }

func extend(by time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", by.Microseconds())
}

// Stopping also asks for the time that a stop may take.
func (n *Notifier) Stopping(within time.Duration) error {
	return n.Send("STOPPING=1", extend(within), "STATUS=stopping: delivering what waits")
}

// Status shows a line of text.
func (n *Notifier) Status(text string) error { return n.Send("STATUS=" + text) }

// Alive is a sign of life.
func (n *Notifier) Alive() error { return n.Send("WATCHDOG=1") }
