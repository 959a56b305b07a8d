package doctor

import (
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/cutrantt"
)

// gpuSteps are the steps of opening a GPU, in their order, as the errors of
// package cuda name them.
var gpuSteps = []string{"open", "symbol", "init", "capability", "module", "self-test"}

// choices returns the Hadamard methods that a GPU's measurements chose.
func choices(b cutrantt.Backend) string {
	t, ok := b.(cutrantt.Tuner)
	if !ok {
		return ""
	}
	var list []string
	for _, c := range t.Choices() {
		if c.Source != cutrantt.ChoiceDefault {
			list = append(list, fmt.Sprintf("2^%d/%d %s", c.LogN, c.N2, c.Method))
		}
	}
	if len(list) == 0 {
		return "; no products measured yet"
	}
	return "; fastest products (degree/columns): " + strings.Join(list, ", ")
}

// gpu tells whether the GPU can be used, and if not, which step failed. A machine without
// a GPU is fine; a GPU that does not work is not.
func gpu(open func() (cutrantt.Backend, error)) Check {
	c := Check{Name: "gpu"}
	b, err := open()
	if err == nil {
		c.Status, c.Detail = OK, b.Device()+"; passed: "+strings.Join(gpuSteps, ", ")+choices(b)
		return c
	}
	c.Status, c.Detail = Info, "none in use: "+err.Error()
	for i, step := range gpuSteps {
		if !strings.Contains(err.Error(), ": "+step+": ") {
			continue
		}
		if i > 0 {
			c.Detail += "; passed before: " + strings.Join(gpuSteps[:i], ", ")
		}
		switch step {
		case "symbol":
			c.Status, c.Remedy = Warn, "update the GPU's driver, or use --backend cpu"
		case "capability":
			c.Remedy = "none needed: the processor does the arithmetic"
		case "module", "self-test":
			c.Status, c.Remedy = Warn,
				"the GPU is there but does not work: update its driver, and keep --backend cpu until "+
					"this passes"
		}
		break
	}
	return c
}
