package crew

import (
	"os"
	"strconv"
)

// Most and lingering are what a benchmark varies.
var (
	Most      = number("CREW_MOST", 8)
	lingering = number("CREW_LINGER", 0) // looks
)

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func linger(look int) bool { return look < lingering }
