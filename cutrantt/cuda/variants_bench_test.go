package cuda

import (
	"fmt"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// inTurn runs f for one variant and the other, twice, as machines and minutes differ.
func inTurn(b *testing.B, name string, set func(on bool), f func(b *testing.B)) {
	for round := range 2 {
		for _, on := range []bool{false, true} {
			set(on)
			b.Run(fmt.Sprintf("%s/%t/%d", name, on, round+1), f)
		}
	}
}

// product is a whole product of ciphertexts.
func (s *benchSwitch) product(i int) error {
	if err := s.tensor(i); err != nil {
		return err
	}
	return cutrantt.SwitchKeys(s.r, s.gadget, []cutrantt.KeySwitch{s.item(s.out[i], i)})
}
