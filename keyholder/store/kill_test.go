package store

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

// child says that this process is the key holder of TestKill; its value is a task.
const child = "HENCEDGE_STORE_CHILD"

// task is what a child is told.
type task struct {
	Dir, State string
	History    config.History
	// Hang is how many results are stored before the child stands still, to be killed there:
	// between the commit and the record, or with Before before the commit; 0: never.
	Hang   int
	Before bool
}

func TestMain(m *testing.M) {
	text := os.Getenv(child)
	if text == "" {
		os.Exit(m.Run())
	}
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		c := &chain{dir: t.Dir, state: t.State, history: t.History}
		n := 0
		err = c.run(context.Background(), nil, func(after bool) {
			if after == t.Before {
				return
			}
			n++
			fmt.Println(n)
			if n == t.Hang {
				select {}
			}
		})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// rounds returns how many rounds of kills are made: HENCEDGE_CHAOS_ROUNDS, or few.
func rounds(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("HENCEDGE_CHAOS_ROUNDS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A key holder that is killed at any moment neither loses nor doubles a result.
func TestKill(t *testing.T) {
	dir := testenv.QuickDir(t)
	c := newChain(t, dir, filepath.Join(dir, "state"), history(dir))
	kills(t, c, rounds(t, 24), func(bool) bool { return true })
}

// kills runs a key holder as a process of its own, again and again, and kills it: between
// commit and record, before the commit, or at any other time. strike is called before; it says
// whether to kill a process that would go on.
func kills(t *testing.T, c *chain, n int, strike func(goesOn bool) (kill bool)) {
	t.Helper()
	for round := range n {
		c.compute(t, 1+rand.N(5))
		job := task{Dir: c.dir, State: c.state, History: c.history, Hang: 1 + rand.N(3), Before: round%3 == 0}
		after := 0
		if round%3 == 2 {
			after, job.Hang = rand.N(3), 0
		}
		cmd := c.start(t, job)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			count, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Errorf("round %d: %s", round, lines.Text())
			}
			if count == job.Hang || job.Hang == 0 && count > after {
				if job.Hang == 0 {
					time.Sleep(rand.N(3 * time.Millisecond)) // any moment will do
				}
				if strike(job.Hang == 0) || job.Hang > 0 {
					_ = cmd.Process.Kill()
				}
				after = math.MaxInt
			}
		}
		_ = cmd.Wait()
	}
	if err := c.run(t.Context(), nil, func(bool) {}); err != nil {
		t.Fatal(err)
	}
	c.expect(t)
	t.Logf("%d results in %d rounds", c.made, n)
}

// start returns a key holder as a process.
func (c *chain) start(t *testing.T, job task) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd
}

// While the disk of the database is full, results wait, also over a restart. Each is stored
// once when there is room.
func TestFullDisk(t *testing.T) {
	disk, dir := testenv.Disk(t, "4m"), t.TempDir()
	c := newChain(t, dir, filepath.Join(dir, "state"), history(disk))
	c.compute(t, 3)
	ctx := t.Context() // no bound of time: a busy machine takes long, and every run ends by itself
	if err := c.run(ctx, nil, func(bool) {}); err != nil {
		t.Fatal(err)
	}
	c.expect(t)
	ballast := filepath.Join(disk, "ballast")
	for round := range 2 {
		c.compute(t, 40)
		running, stop := context.WithCancel(ctx)
		opened, ended := make(chan *Store, 1), make(chan error, 1)
		go func() {
			ended <- c.run(running, func(s *Store) {
				testenv.Fill(t, ballast)
				opened <- s
			}, func(bool) {})
		}()
		var s *Store
		select {
		case s = <-opened:
		case err := <-ended:
			t.Fatal(err)
		}
		testrig.Eventually(t, "results that wait", func() bool { return len(s.Health()) > 0 })
		if round == 0 {
			stop()
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if round == 1 && len(s.Health()) > 0 {
			t.Error(s.Health())
		}
		stop()
	}
	c.expect(t)
}
