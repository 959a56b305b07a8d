package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport"
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

// scanMemory looks for samples in the memory of this process.
func scanMemory() (out leftovers, err error) {
	err = testenv.SearchMemory(8, func(word uint64) {
		raw, scaled := mark(word)
		if raw {
			out.Raw++
		}
		if scaled {
			out.Scaled++
		}
	})
	return out, err
}

// leftoversChild is the process that TestLeftovers looks into.
func leftoversChild(t *testing.T, file string) {
	cfg := testConfig(t)
	s := &cfg.Streams[0]
	s.Interval, s.Window.Samples = 0, markWindow
	s.Replay = &config.Replay{File: file, Format: "csv", Time: "t", TimeFormat: "unix", Speed: "fast"}
	s.Channels = nil
	for _, c := range []string{"a", "b"} {
		s.Channels = append(s.Channels,
			config.Channel{Name: c, Unit: "1", Range: [2]float64{markLow, markHigh},
				Source: &config.Source{Type: config.SourceReplay, Column: c}})
	}
	cfg.Queue.Full = config.QueueBlock
	withSpool(t, cfg, filepath.Join(t.TempDir(), "spool"))
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
	if file := os.Getenv("HENCEDGE_LEFTOVERS"); file != "" {
		leftoversChild(t, file)
		return
	}
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
	cmd := exec.Command(os.Args[0], "-test.run", "^TestLeftovers$", "-test.v")
	// Where Linux or Go's runtime interrupts vector code they keep its registers, up to
	// 256 numbers, until the next interruption: a matter of the machine's load, not of
	// what the agent wipes.
	cmd.Env = append(os.Environ(), "HENCEDGE_LEFTOVERS="+file, "GODEBUG=asyncpreemptoff=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, text, ok := strings.Cut(string(out), "LEFT ")
	var left leftovers
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&left); !ok || err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if left.Raw > markWindow/8 || left.Scaled > markWindow/8 {
		t.Errorf("of %d samples %d are left as they were read and %d as they were encoded", 2*markSamples, left.Raw,
			left.Scaled)
	}
}

// What is in the spool is ciphertext, and in no file of the agent is a sample, as a
// number in either byte order or as text.
func TestNoPlaintextOnDisk(t *testing.T) {
	dir := t.TempDir()
	cfg := withSpool(t, testConfig(t), filepath.Join(dir, "spool"))
	cfg.State = filepath.Join(dir, "state")
	client := &fakeClient{fail: func(topic string) error {
		if strings.Contains(topic, "/up/") {
			return errors.New("broker is away")
		}
		return nil
	}}
	deps, k := testDeps(t, client)
	deps.Clock = role.SystemClock()
	cfg.Streams[0].Interval = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var truth []Observation
	deps.Observer = func(o Observation) {
		if truth = append(truth, o); len(truth) == 4 {
			cancel()
		}
	}
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	cfg.StopTimeout = 100 * time.Millisecond
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	client.fail = nil
	deps.Observer, cfg.StopTimeout = nil, config.DefaultStopTimeout
	a, err = New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	spooled(t, a, k, truth)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	noSampleIn(t, dir, cfg, truth)
}

// spooled checks that the first windows of the spool are the ciphertexts of what was seen.
func spooled(t *testing.T, a *Agent, k *testKeys, truth []Observation) {
	t.Helper()
	entries := a.spool.Entries()
	if len(entries) < 4 {
		t.Fatalf("%d windows in the spool", len(entries))
	}
	for i, e := range entries[:4] {
		l := a.spool.Take(e.Stream, e.Number)
		sealed, err := l.Sealed()
		l.Return(0)
		if err != nil {
			t.Fatal(err)
		}
		m, err := transport.PeekMeta(sealed)
		if err != nil || transport.ObjectID(sealed) != truth[i].Object || m.Params != k.ctx.Parameters().Hash() {
			t.Errorf("window %d: %+v, %v", i, m, err)
		}
		if len(sealed) < truth[i].Body {
			t.Errorf("window %d has %d bytes, its ciphertext %d", i, len(sealed), truth[i].Body)
		}
	}
}

// noSampleIn checks that no file below dir holds a sample, as it was read or as it was
// encoded.
func noSampleIn(t *testing.T, dir string, cfg *config.Agent, truth []Observation) {
	t.Helper()
	files := 0
	look := func(kind string, text []byte, pattern []byte) {
		if len(pattern) >= 4 && bytes.Contains(text, pattern) {
			t.Errorf("%s holds a sample, as %x", kind, pattern)
		}
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		for _, o := range truth {
			for c, list := range o.Values {
				mid, half := cfg.Streams[0].Channels[c].Affine()
				for _, v := range list {
					for _, x := range []float64{v, (v - mid) / half} {
						if bits := math.Float64bits(x); x != 0 {
							look(path, text, binary.LittleEndian.AppendUint64(nil, bits))
							look(path, text, binary.BigEndian.AppendUint64(nil, bits))
						}
					}
					look(path, text, strconv.AppendFloat(nil, v, 'g', -1, 64))
				}
			}
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files, %v", files, err)
	}
}
