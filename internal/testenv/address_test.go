package testenv

import (
	"net"
	"strconv"
	"testing"
)

// TestFreeAddress: no address is given twice while a test has it, and none that the kernel gives away.
func TestFreeAddress(t *testing.T) {
	const many = 50
	first := ephemeral()
	if first < lowestPort+1000 { // nothing is left to hold
		FreeAddress(t)
		return
	}
	seen := map[string]bool{}
	t.Run("holder", func(t *testing.T) {
		for range many {
			address := FreeAddress(t)
			_, text, _ := net.SplitHostPort(address)
			port, err := strconv.Atoi(text)
			if err != nil || port < lowestPort || port >= first || seen[address] {
				t.Errorf("address %s: %v, already given: %v; the kernel gives away ports from %d", address, err,
					seen[address], first)
			}
			seen[address] = true
			if c, err := net.Listen("unix", "@hencedge-test-port-"+text); err == nil {
				c.Close()
				t.Errorf("nobody holds port %d", port)
			}
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
		}
	})
	released := 0 // others may have taken a few again
	for address := range seen {
		_, port, _ := net.SplitHostPort(address)
		if c, err := net.Listen("unix", "@hencedge-test-port-"+port); err == nil {
			c.Close()
			released++
		}
	}
	if released < many/2 {
		t.Errorf("%d of %d ports were released with their test", released, many)
	}
}
