package input

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxFile bounds what is read from one file of /proc or /sys, in bytes.
const maxFile = 1 << 20

// ReadText reads a small file of /proc or /sys.
func ReadText(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	// The kernel makes up such files as they are read, so few large reads cost
	// less than io.ReadAll's many small ones.
	b := make([]byte, 8<<10)
	n := 0
	for {
		k, err := f.Read(b[n:])
		n += k
		switch {
		case errors.Is(err, io.EOF):
			return string(b[:n]), nil
		case err != nil:
			return "", err
		case n > maxFile:
			return "", fmt.Errorf("%w: %s is larger than %d bytes", ErrReading, path, maxFile)
		case n == len(b):
			b = append(b, make([]byte, len(b))...)
		}
	}
}

// ReadNumber reads a file with one number.
func ReadNumber(path string) (float64, error) {
	text, err := ReadText(path)
	if err != nil {
		return 0, err
	}
	v, err := ParseNumber(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %s holds text of the form %q, not a number", ErrReading, path, Shape(text))
	}
	return v, nil
}

// ByNumber orders names by the number that they end in, then by their text.
func ByNumber(a, b string) int {
	num := func(s string) int {
		n, _ := strconv.Atoi(s[len(strings.TrimRight(s, "0123456789")):])
		return n
	}
	return cmp.Or(cmp.Compare(num(a), num(b)), cmp.Compare(a, b))
}

// Missing returns ErrNoSensor with what there is instead.
func Missing(what, name string, have []string) error {
	if len(have) == 0 {
		return fmt.Errorf("%w: %s %q; this machine has none", ErrNoSensor, what, name)
	}
	const most = 12
	if len(have) > most {
		have = append(have[:most:most], "...")
	}
	return fmt.Errorf("%w: %s %q; this machine has %s", ErrNoSensor, what, name, strings.Join(have, ", "))
}

// Under returns a path below root, which is the machine's own when empty.
func Under(root string, elem ...string) string {
	if root == "" {
		root = "/"
	}
	return filepath.Join(append([]string{root}, elem...)...)
}
