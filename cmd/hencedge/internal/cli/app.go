package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
)

// App is what the commands of one invocation share.
type App struct {
	Std       Streams
	Version   string // that roles tell others
	JSON      bool   // --json
	LogLevel  string // --log-level
	LogFormat string // --log-format

	ProgressForm string // --progress

	Protection  daemon.Protection // of this process's memory
	Unprotected error             // what could not be protected; nil once it was told
}

// JSONFlag adds --json to a command; what says what is printed then.
func (a *App) JSONFlag(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&a.JSON, "json", false, what)
}

// Logger returns the logger that the flags ask for.
func (a *App) Logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.LogLevel)); err != nil {
		return nil, Usagef("--log-level %q: use debug, info, warn or error", a.LogLevel)
	}
	switch a.LogFormat {
	case "text", "json":
		return daemon.NewLogger(a.Std.Err, a.LogFormat, level), nil
	}
	return nil, Usagef("--log-format %q: use text or json", a.LogFormat)
}

// ServiceLogger returns the logger of a service: as its configuration says, unless flags
// say otherwise.
func (a *App) ServiceLogger(cmd *cobra.Command, c config.Log) (*slog.Logger, error) {
	if !cmd.Flags().Changed("log-level") && c.Level != "" {
		a.LogLevel = c.Level
	}
	if !cmd.Flags().Changed("log-format") && c.Format != "" {
		a.LogFormat = c.Format
	}
	return a.Logger()
}

// TellProtection logs once what could not be protected.
func (a *App) TellProtection(log *slog.Logger) {
	if a.Unprotected != nil {
		log.Info("memory is not protected as a unit of hencedge would", "detail", a.Unprotected)
		a.Unprotected = nil
	}
}

// Remark prints a note on standard error, for commands whose output is not a log.
func (a *App) Remark(message string) { fmt.Fprintf(a.Std.Err, "hencedge: %s\n", message) }

// maxInput bounds the files that ReadInput reads, bytes.
const maxInput = 1 << 20

// ReadInput reads a small file, or standard input for "-".
func (a *App) ReadInput(name string) ([]byte, error) {
	b, err := a.ReadAtMost(name, maxInput)
	if errors.Is(err, ErrTooLong) {
		err = fmt.Errorf("%s has more than %d bytes", name, maxInput)
	}
	return b, err
}

// ErrTooLong: a file has more bytes than its reader takes.
var ErrTooLong = errors.New("too long")

// ReadAtMost reads a file of at most limit bytes, or standard input for "-". It fails
// with ErrTooLong for a longer one.
func (a *App) ReadAtMost(name string, limit int64) ([]byte, error) {
	in := a.Std.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, ErrTooLong
	}
	return b, err
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Exists reports whether there is something at path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// NotLoaded wraps the failure to load a service's configuration as wrong usage, unless this
// user may not read the file: a change of modes fixes that while systemd tries again.
func NotLoaded(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	return Usage(err)
}

// CloseClient disconnects from the broker. What was published is acknowledged by then, or
// lost.
func CloseClient(c transport.Client) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	c.Close(ctx)
}

// Plural returns "1 message" or "2 messages".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// WithUnit returns a value with its unit; "1" is the unit of pure numbers.
func WithUnit(value, unit string) string {
	if unit == "" || unit == "1" {
		return value
	}
	return value + " " + unit
}
