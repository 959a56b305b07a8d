package driver

import (
	"errors"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestLost: results after which cuda.h says that the process has to end or the context
// to be made anew count as a lost device, and no others do.
func TestLost(t *testing.T) {
	for _, code := range []int32{4, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721,
		810, 911, 999} {
		if !errors.Is(&Error{Code: code}, cutrantt.ErrDevice) {
			t.Errorf("%d is not a lost device", code)
		}
	}
	for _, code := range []int32{1, codeOutOfMemory, 200, 209, 222, 400, 500, 600, 701, 720, 801} {
		if errors.Is(&Error{Code: code}, cutrantt.ErrDevice) {
			t.Errorf("%d is a lost device", code)
		}
	}
}
