package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// What --progress takes.
const (
	ProgressAuto = "auto" // a bar on a terminal, lines elsewhere
	ProgressJSON = "json" // events for programs
	ProgressNone = "none"
)

// CheckProgress refuses a value that --progress does not take.
func (a *App) CheckProgress() error {
	switch a.ProgressForm {
	case "", ProgressAuto, ProgressJSON, ProgressNone:
		return nil
	}
	return Usagef("--progress %q: use auto, json or none", a.ProgressForm)
}

// Progress returns a Progress on standard error in the form that --progress asks for. what is
// what is counted: "keys".
func (a *App) Progress(what string) *Progress {
	f, ok := a.Std.Err.(*os.File)
	return &Progress{What: what, Out: a.Std.Err, Terminal: ok && IsTerminal(f), Form: a.ProgressForm}
}

// Progress shows how far a piece of work is: on a terminal in one line that it updates,
// elsewhere in a line from time to time, or as events. It is for one goroutine.
type Progress struct {
	What     string // what is counted: "keys"; "bytes" are shown with their unit
	Out      io.Writer
	Terminal bool
	Form     string           // of --progress; empty is ProgressAuto
	Now      func() time.Time // nil means time.Now

	start, told time.Time
	from        int64 // done when the work began
	width       int   // of the line on the terminal
	begun       bool
	untold      *progressEvent // the last one, of work whose total nobody knows
}

// The time before the first line, and between two lines, if the output is not a terminal; and
// the time between two events, or between two updates of a bar.
const (
	quiet  = 10 * time.Second
	second = time.Second
	frame  = 50 * time.Millisecond
)

// barWidth is the width of a full bar, in characters.
const barWidth = 20

// progressEvent is a line of --progress json on standard error.
type progressEvent struct {
	Event   string  `json:"event"` // "progress"
	What    string  `json:"what"`
	Done    int64   `json:"done"`
	Total   int64   `json:"total,omitempty"` // 0: not known
	Seconds float64 `json:"seconds"`         // since the first event
	Left    float64 `json:"left,omitempty"`  // estimated, in seconds
}

// Update shows that done of total are done; a total of 0 is not known. It may be called as
// often as the work likes.
func (p *Progress) Update(done, total int64) {
	now := time.Now
	if p.Now != nil {
		now = p.Now
	}
	at, first := now(), !p.begun
	if first {
		p.begun, p.start, p.told, p.from = true, at, at, done
	}
	ended := total > 0 && done >= total
	switch since := at.Sub(p.told); {
	case p.Form == ProgressNone:
		return
	case p.Form == ProgressJSON:
		e := &progressEvent{"progress", p.What, done, total, at.Sub(p.start).Seconds(),
			p.left(at, done, total).Seconds()}
		p.untold = nil
		if !first && !ended && since < second {
			if total <= 0 {
				p.untold = e
			}
			return
		}
		_ = JSONLine(p.Out, e) // the work matters more than who listens
	case p.Terminal:
		if !first && !ended && since < frame {
			return
		}
		line := bar(done, total) + p.line(at, done, total)
		fmt.Fprintf(p.Out, "\r%-*s", p.width, line)
		p.width = max(p.width, len(line))
	case since >= quiet && !ended:
		fmt.Fprintf(p.Out, "hencedge: %s\n", p.line(at, done, total))
	default:
		return
	}
	p.told = at
}

// Done ends the line on a terminal. The next Update begins it again, so that other output can
// stand between the two. Of work whose total is not known it tells the last event.
func (p *Progress) Done() {
	if p.untold != nil {
		_ = JSONLine(p.Out, p.untold)
		p.untold = nil
	}
	if p.Terminal && p.width > 0 {
		fmt.Fprintf(p.Out, "\r%s\r", strings.Repeat(" ", p.width))
		p.width, p.told = 0, time.Time{}
	}
}

// line says in words how far the work is.
func (p *Progress) line(at time.Time, done, total int64) string {
	number := func(n int64) string { return fmt.Sprint(n) }
	what := " " + p.What
	if p.What == "bytes" {
		number, what = Bytes, ""
	}
	if total <= 0 {
		return number(done) + what
	}
	text := fmt.Sprintf("%s of %s%s", number(done), number(total), what)
	if left := p.left(at, done, total); left > 0 {
		text += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	return text
}

// left estimates how long the rest takes; 0 where that cannot be said.
func (p *Progress) left(at time.Time, done, total int64) time.Duration {
	made := done - p.from
	if made <= 0 || done >= total {
		return 0
	}
	return time.Duration(float64(at.Sub(p.start)) / float64(made) * float64(total-done))
}

// bar returns a bar and a space, or nothing if the total is not known.
func bar(done, total int64) string {
	if total <= 0 {
		return ""
	}
	n := int(min(done, total) * barWidth / total)
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", barWidth-n) + "] "
}
