package chaos

import (
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

// libraryVariable names the CUDA driver that the evaluator opens.
const libraryVariable = "CUTRANTT_CUDA_LIBRARY"

// emulator builds the emulated GPU, once.
var emulator = sync.OnceValues(func() (string, error) {
	library := filepath.Join(built, "libcuda-90.so")
	out, err := exec.Command("../cutrantt/cuda/cudatest/emulator/build.sh", library, "90").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build.sh: %w\n%s", err, out)
	}
	return library, err
})

// gpus are two emulated GPUs behind a driver that fails, or stands still, where it is told.
type gpus struct {
	t       *testing.T
	driver  *cudatest.Driver
	gate    string
	metrics string // address of the evaluator's
	// failing is how many rounds may still find that the evaluator has ended: one that opens
	// GPUs, or reads keys onto them, while they fail ends with an error.
	failing int
}

// restart starts an evaluator that found failing GPUs when it started, as a service manager
// does. It reports false if that is not why it has ended.
func (g *gpus) restart(r *rig, p *process) bool {
	if g == nil || p != r.evaluator || g.failing == 0 {
		return false
	}
	log, err := os.ReadFile(p.log)
	if err != nil || !strings.Contains(string(log), "CUDA_ERROR_LAUNCH_FAILED") {
		return false
	}
	r.start(p)
	return true
}

func newGPUs(t *testing.T) *gpus {
	t.Helper()
	if os.Getenv(libraryVariable) == "" {
		testenv.Program(t, "g++", "g++")
		library, err := emulator()
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(libraryVariable, library)
	}
	g := &gpus{t: t, driver: cudatest.New(t), gate: filepath.Join(t.TempDir(), "gate"), metrics: testrig.FreeAddress(t)}
	g.driver.Real()
	return g
}

// serve returns the section of a configuration that shows metrics.
func (g *gpus) serve() string {
	if g == nil {
		return ""
	}
	return "metrics: {listen: \"" + g.metrics + "\"}\n"
}

// use makes an evaluator compute on the GPUs.
func (g *gpus) use(p *process) {
	p.args = strings.Split(strings.Replace(strings.Join(p.args, "\n"), "--backend\ncpu",
		"--backend\ncuda\n--device\nall", 1), "\n")
	p.env = append(p.env, libraryVariable+"="+g.driver.Library, "CUTRANTT_AUTOTUNE=off", "EMULATE_DEVICES=2")
}

// reached lets the call of a kernel stand still, after skip others, and reports whether one
// does.
func (g *gpus) reached(skip int) bool {
	g.t.Helper()
	if err := os.WriteFile(g.gate, nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
	g.driver.Set(fmt.Sprintf("hold cuLaunchKernelEx %s %d", g.gate, skip))
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(g.gate + ".reached"); err == nil {
			return true
		}
	}
	return false // no window came, or the processor computes
}

// open ends what reached began.
func (g *gpus) open() {
	g.driver.Set()
	_ = os.Remove(g.gate)
	_ = os.Remove(g.gate + ".reached")
}

var gpuFaults = []fault{
	{"kill evaluator in a batch", killInBatch}, {"kill evaluator in a batch", killInBatch},
	{"kill evaluator in a batch", killInBatch},
	{"GPUs fail", func(r *rig, rng *mathrand.Rand) func() {
		r.gpus.driver.Set(fmt.Sprintf("fail cuLaunchKernelEx 719 %d", rng.IntN(100)))
		r.gpus.failing = 3
		return func() {
			r.gpus.driver.Set()
			if rng.IntN(2) == 0 { // else the processor goes on
				r.evaluator.kill()
				r.start(r.evaluator)
			}
		}
	}},
}

// killInBatch ends the evaluator while a GPU has computed a part of a batch.
func killInBatch(r *rig, rng *mathrand.Rand) func() {
	defer r.gpus.open()
	if !r.gpus.reached(rng.IntN(100)) {
		return nil
	}
	r.evaluator.kill()
	return func() { r.start(r.evaluator) }
}

// judge fails the test if the last evaluator did not compute windows together on its GPUs,
// or the emulator found a fault in kernels or in how they were launched.
func (g *gpus) judge(r *rig) {
	g.t.Helper()
	log, err := os.ReadFile(r.evaluator.log)
	if err != nil || strings.Contains(string(log), "emulator: ") || strings.Contains(string(log), "emulated GPU: ") {
		g.t.Errorf("the emulator found a fault: %v\n%s", err, log)
	}
	resp, err := http.Get("http://" + g.metrics + "/metrics")
	if err != nil {
		g.t.Error(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Error(err)
	}
	sum := func(name string) (n int) {
		for _, m := range regexp.MustCompile(`(?m)^hencedge_evaluator_`+name+`(?:\{.*\})? (\d+)`).FindAllSubmatch(text,
			-1) {
			v, _ := strconv.Atoi(string(m[1]))
			n += v
		}
		return n
	}
	results, batches, fallbacks := sum("results_total"), sum("batches_total"), sum("fallbacks_total")
	g.t.Logf("after the last start %d results in %d batches", results, batches)
	if batches == 0 || results <= batches*len(r.programs) || fallbacks != 0 {
		g.t.Errorf("%d results, %d batches, %d fallbacks: no windows were computed together\n%s", results, batches,
			fallbacks, log)
	}
}
