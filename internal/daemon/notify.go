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

// Notifier talks to the service manager by the sd_notify(3) protocol. The methods of its
// zero value do nothing.
type Notifier struct {
	address  string
	watchdog time.Duration
	patience time.Duration
}

// sendTimeout bounds how long a message waits for a manager that does not read. The service
// goes on without it then.
const sendTimeout = 5 * time.Second

// NewNotifier reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID. It removes them from
// the environment, so that programs that the service starts cannot speak for it.
func NewNotifier() *Notifier {
	n := &Notifier{address: os.Getenv("NOTIFY_SOCKET"), patience: sendTimeout}
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

// Watchdog returns the longest time that the manager waits for a sign of life; 0 means that
// it expects none.
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
	if err := c.SetWriteDeadline(time.Now().Add(n.patience)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	for i, l := range lines {
		lines[i] = short(strings.Map(func(r rune) rune { // keep each on one line
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

// maxLine bounds a line in bytes. The manager ignores messages of more than 4096 bytes, and
// with them any sign of life that they contain.
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

// firstLine returns the first line of an error.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// Ready announces that the service works, with a line of text for `systemctl status`.
func (n *Notifier) Ready(status string) error { return n.Send("READY=1", "STATUS="+status) }

// Reloading announces a reload. Ready must follow.
func (n *Notifier) Reloading() error {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return err
	}
	return n.Send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", ts.Nano()/1000), "STATUS=reloading")
}

// Extend asks for more time to finish what is under way.
func (n *Notifier) Extend(by time.Duration) error { return n.Send(extend(by)) }

func extend(by time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", by.Microseconds())
}

// Stopping announces a stop and asks for the time that it may take.
func (n *Notifier) Stopping(within time.Duration) error {
	return n.Send("STOPPING=1", extend(within), "STATUS=stopping: delivering what waits")
}

// Status sets the line of text for `systemctl status`.
func (n *Notifier) Status(text string) error { return n.Send("STATUS=" + text) }

// Alive feeds the watchdog.
func (n *Notifier) Alive() error { return n.Send("WATCHDOG=1") }
