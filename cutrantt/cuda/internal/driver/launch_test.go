package driver

import (
	"testing"
	"unsafe"
)

// TestLaunchLayout compares with cuda.h: CUlaunchConfig has 56 bytes with the
// stream at 32, CUlaunchAttribute 72 with the value at 8, CUDA_KERNEL_NODE_PARAMS_v2 72
// with the parameters at 40, CUgraphEdgeData 8.
func TestLaunchLayout(t *testing.T) {
	var c launchConfig
	var a launchAttribute
	for _, x := range []struct {
		what      string
		got, want uintptr
	}{
		{"size of the configuration", unsafe.Sizeof(c), 56},
		{"shared memory", unsafe.Offsetof(c.shared), 24},
		{"stream", unsafe.Offsetof(c.stream), 32},
		{"attributes", unsafe.Offsetof(c.attributes), 40},
		{"count", unsafe.Offsetof(c.count), 48},
		{"size of an attribute", unsafe.Sizeof(a), 72},
		{"value", unsafe.Offsetof(a.value), 8},
		{"size of a node", unsafe.Sizeof(nodeParams{}), 72},
		{"parameters of a node", unsafe.Offsetof(nodeParams{}.params), 40},
		{"size of an edge", unsafe.Sizeof(edgeData{}), 8},
	} {
		if x.got != x.want {
			t.Errorf("%s: %d, want %d", x.what, x.got, x.want)
		}
	}
}

// TestText reads C strings.
func TestText(t *testing.T) {
	b := []byte("CUDA\x00rest")
	if got := text(&b[0]); got != "CUDA" {
		t.Errorf("%q", got)
	}
}
