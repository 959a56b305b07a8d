package sensor

import (
	"sync"

	"github.com/hencedge/hencedge/agent/input"
)

// fileCache keeps what was read of a file until the next sample: channels that
// take their values from the same file of /proc read it once, and their values
// are of one instant.
type fileCache struct {
	mu    sync.Mutex
	files map[string]fileText
}

type fileText struct {
	text string
	err  error
}

// forget drops what was read. A nil cache keeps nothing.
func (c *fileCache) forget() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.files)
}

// read reads a file, or gives what was read of it.
func (c *fileCache) read(path string) (string, error) {
	if c == nil {
		return input.ReadText(path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.files[path]
	if !ok {
		f.text, f.err = input.ReadText(path)
		if c.files == nil {
			c.files = map[string]fileText{}
		}
		c.files[path] = f
	}
	return f.text, f.err
}
