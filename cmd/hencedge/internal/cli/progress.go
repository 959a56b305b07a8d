package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Progress shows how far a piece of work is: on a terminal in one line that it updates,
// elsewhere in a line from time to time.
type Progress struct {
	What     string // what is counted: "keys"
	Out      io.Writer
	Terminal bool
	Now      func() time.Time // nil means time.Now

	start, told time.Time
	from        int // done when the work began
	width       int // of the line on the terminal
	begun       bool
}

// quiet is the time before the first line, and between two lines, if the output is not a
// terminal.
const quiet = 10 * time.Second

// Update shows that done of total are done.
func (p *Progress) Update(done, total int) {
	now := time.Now
	if p.Now != nil {
		now = p.Now
	}
	at := now()
	if !p.begun {
		p.begun, p.start, p.told, p.from = true, at, at, done
	}
	line := fmt.Sprintf("%d of %d %s", done, total, p.What)
	if made := done - p.from; made > 0 && done < total {
		left := time.Duration(float64(at.Sub(p.start)) / float64(made) * float64(total-done))
		line += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	switch {
	case p.Terminal:
		fmt.Fprintf(p.Out, "\r%-*s", p.width, line)
		p.width = max(p.width, len(line))
	case at.Sub(p.told) >= quiet && done < total:
		p.told = at
		fmt.Fprintf(p.Out, "hencedge: %s\n", line)
	}
}

// Done ends the line on a terminal.
func (p *Progress) Done() {
	if p.Terminal && p.begun {
		fmt.Fprintf(p.Out, "\r%s\r", strings.Repeat(" ", p.width))
	}
}
