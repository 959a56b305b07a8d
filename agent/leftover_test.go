package agent

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
)

// Distinctive samples, which nothing but the agent computes: sample n is
// markBase + n*markStep, exactly.
const (
	markBase, markStep = 731.0, 1.0 / 512
	markLow, markHigh  = 700.0, 800.0
	markSamples        = 3200
	markWindow         = 64
)

// leftovers are samples in the memory of a process.
type leftovers struct {
	Raw    int // as numbers in the channel's unit
	Scaled int // as numbers in [-1, 1], as they are encoded
}

// mark tells whether a word of memory is a sample, in either form. It computes what it
// looks for, so that it leaves nothing of it behind.
func mark(word uint64) (raw, scaled bool) {
	f := math.Float64frombits(word)
	is := func(v float64) bool {
		n := (v - markBase) / markStep
		return n >= 0 && n < markSamples && n == math.Trunc(n)
	}
	if is(f) {
		return true, false
	}
	if f < -1 || f > 1 || f == 0 {
		return false, false
	}
	const mid, half = (markLow + markHigh) / 2, (markHigh - markLow) / 2
	n := math.Round((f*half + mid - markBase) / markStep)
	return false, n >= 0 && n < markSamples && (markBase+n*markStep-mid)/half == f
}

// scanMemory looks through everything that this process can write to.
func scanMemory() (out leftovers, err error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return out, err
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return out, err
	}
	defer mem.Close()
	buf := make([]byte, 1<<20)
	for line := range strings.Lines(string(maps)) {
		var lo, hi int64
		var perm string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &lo, &hi, &perm); err != nil || !strings.HasPrefix(perm, "rw") {
			continue
		}
		for at := lo; at < hi; at += int64(len(buf)) {
			part := buf[:min(int64(len(buf)), hi-at)]
			if _, err := mem.ReadAt(part, at); err != nil {
				break
			}
			for i := 0; i+8 <= len(part); i += 8 {
				raw, scaled := mark(binary.LittleEndian.Uint64(part[i:]))
				if raw {
					out.Raw++
				}
				if scaled {
					out.Scaled++
				}
			}
		}
	}
	return out, nil
}

// TestLeftoversChild is the process that TestLeftovers looks into.
func TestLeftoversChild(t *testing.T) {
	file := os.Getenv("HENCEDGE_LEFTOVERS")
	if file == "" {
		t.Skip("a part of TestLeftovers")
	}
	cfg := testConfig(t)
	s := &cfg.Streams[0]
	s.Interval, s.Window.Samples = 0, markWindow
	s.Replay = &config.Replay{File: file, Format: "csv", Time: "t", TimeFormat: "unix", Speed: "fast"}
	s.Channels = nil
	for _, c := range []string{"a", "b"} {
		s.Channels = append(s.Channels, config.Channel{Name: c, Unit: "1", Range: [2]float64{markLow, markHigh}, Source: &config.Source{Type: config.SourceReplay, Column: c}})
	}
	cfg.Queue.Full = config.QueueBlock
	durable(t, cfg, filepath.Join(t.TempDir(), "spool"))
	deps, _ := testDeps(t, &fakeClient{})
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := a.Stats().Streams["system"].Samples; n != markSamples {
		t.Fatalf("%d samples", n)
	}
	found, err := scanMemory()
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("LEFT %s\n", out)
}

// What an agent has encrypted is not in its memory any more: of thousands of samples
// a few may be left on stacks, where Go's compiler put them. (The text of a replay file
// is plaintext on the disk already and is not looked for.)
func TestLeftovers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.csv")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	io.WriteString(w, "t,a,b\n")
	for n := range markSamples {
		fmt.Fprintf(w, "%d,%.9f,%.9f\n", 1000+n, markBase+float64(n)*markStep, markBase+float64(n)*markStep)
	}
	if w.Flush() != nil || f.Close() != nil {
		t.Fatal("cannot write")
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestLeftoversChild$", "-test.v")
	cmd.Env = append(os.Environ(), "HENCEDGE_LEFTOVERS="+file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, text, ok := strings.Cut(string(out), "LEFT ")
	var left leftovers
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&left); !ok || err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if left.Raw > markWindow/2 || left.Scaled > markWindow/2 {
		t.Errorf("of %d samples %d are left as they were read and %d as they were encoded", 2*markSamples, left.Raw, left.Scaled)
	}
}
