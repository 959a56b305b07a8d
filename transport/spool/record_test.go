package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// op is one system call that changes the file system.
type op struct {
	kind     string // create, write, sync, rename, remove, syncdir
	name, to string
	data     []byte
}

// recorder is the real file system that also writes down what is done to it.
type recorder struct {
	disk
	ops *[]op
}

type recordedFile struct {
	file
	name string
	ops  *[]op
}

func (r recorder) add(o op) { *r.ops = append(*r.ops, o) }

func (r recorder) Create(name string) (file, error) {
	f, err := r.disk.Create(name)
	if err == nil {
		r.add(op{kind: "create", name: name})
		f = recordedFile{f, name, r.ops}
	}
	return f, err
}

func (f recordedFile) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	*f.ops = append(*f.ops, op{kind: "write", name: f.name, data: slices.Clone(b[:n])})
	return n, err
}

func (f recordedFile) Sync() error {
	*f.ops = append(*f.ops, op{kind: "sync", name: f.name})
	return f.file.Sync()
}

func (r recorder) Rename(from, to string) error {
	r.add(op{kind: "rename", name: from, to: to})
	return r.disk.Rename(from, to)
}

func (r recorder) Remove(name string) error {
	err := r.disk.Remove(name)
	if err == nil {
		r.add(op{kind: "remove", name: name})
	}
	return err
}

func (r recorder) SyncDir(name string) error {
	r.add(op{kind: "syncdir", name: name})
	return r.disk.SyncDir(name)
}

// memFile is a file as a crash may leave it.
type memFile struct {
	data   []byte
	synced int // bytes that are surely there
}

// crashes returns the states that a crash after ops may leave below root, from the
// weakest promise of a file system (names and contents that were not flushed may
// or may not be there, each on its own) to the strongest. Per state: name to
// content.
func crashes(ops []op) (states []map[string][]byte) {
	type dirOp struct {
		from, to string // to "": removed; from "": created
		f        *memFile
	}
	live := map[string]*memFile{}
	durable := map[string]*memFile{} // names that are surely there
	var loose []dirOp                // changes of names since the last flush of the directory
	for _, o := range ops {
		switch o.kind {
		case "create":
			f := &memFile{}
			live[o.name] = f
			loose = append(loose, dirOp{to: o.name, f: f})
		case "write":
			live[o.name].data = append(live[o.name].data, o.data...)
		case "sync":
			live[o.name].synced = len(live[o.name].data)
		case "rename":
			live[o.to] = live[o.name]
			delete(live, o.name)
			loose = append(loose, dirOp{from: o.name, to: o.to, f: live[o.to]})
		case "remove":
			delete(live, o.name)
			loose = append(loose, dirOp{from: o.name})
		case "syncdir":
			durable = map[string]*memFile{}
			for n, f := range live {
				durable[n] = f
			}
			loose = nil
		}
	}
	apply := func(keep int) map[string]*memFile {
		names := map[string]*memFile{}
		for n, f := range durable {
			names[n] = f
		}
		for _, d := range loose[:keep] {
			delete(names, d.from)
			if d.to != "" {
				names[d.to] = d.f
			}
		}
		return names
	}
	for keep := range len(loose) + 1 {
		for _, tail := range []string{"none", "half", "zeros", "all"} {
			state := map[string][]byte{}
			for n, f := range apply(keep) {
				data := slices.Clone(f.data[:f.synced])
				rest := f.data[f.synced:]
				switch tail {
				case "half":
					data = append(data, rest[:len(rest)/2]...)
				case "zeros":
					data = append(data, make([]byte, len(rest))...)
				case "all":
					data = append(data, rest...)
				}
				state[n] = data
			}
			states = append(states, state)
		}
	}
	return states
}

// lay writes a state below dir.
func lay(t *testing.T, dir, root string, state map[string][]byte) {
	t.Helper()
	for name, data := range state {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, rel)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryCrash runs a history of puts and deliveries, and starts again from
// every state that a crash after any system call of it may leave. What Put
// promised and nobody delivered must be there, whole and in order; a cursor must
// never be ahead of what is there or was delivered, and never fall behind what
// was promised.
func TestEveryCrash(t *testing.T) {
	root := filepath.Join(t.TempDir(), "spool")
	var ops []op
	s := open(t, Options{Dir: root, fs: recorder{ops: &ops}})
	type fact struct{ put, done int } // objects promised, and delivered
	after := map[int]fact{0: {}}
	var now fact
	note := func() { after[len(ops)] = now }
	step := func(puts, deliveries int) {
		for range puts {
			it := item("in", now.put, 40)
			it.Cursor = []byte{byte(now.put)}
			put(t, s, it)
			now.put++
			note()
		}
		for range deliveries {
			l := s.TryLease(Oldest, 0)
			now.done++ // a crash from here on may find it gone or not
			note()
			l.Done()
			note()
		}
	}
	step(2, 1)
	step(0, 1) // the last one goes: its position must stay
	step(3, 2)
	step(1, 2)
	if now.put != 6 || now.done != 6 || len(ops) < 40 {
		t.Fatalf("%+v after %d calls", now, len(ops))
	}
	count := 0
	at := fact{}
	for n := range len(ops) + 1 {
		if f, ok := after[n]; ok {
			at = f
		}
		for i, state := range crashes(ops[:n]) {
			count++
			dir := filepath.Join(t.TempDir(), "spool")
			lay(t, dir, root, state)
			again := open(t, Options{Dir: dir})
			newest := -1
			if c := again.Cursor("in"); c != nil {
				newest = int(c[0])
			}
			where := fmt.Sprintf("after call %d (%+v), state %d", n, at, i)
			if newest < at.put-1 || newest > at.put {
				t.Fatalf("%s: the cursor is %d", where, newest)
			}
			got := drain(t, again)
			if again.Stats().Damaged > 0 && len(got) < at.put-at.done {
				t.Fatalf("%s: %+v", where, again.Stats())
			}
			for j := at.done; j < at.put; j++ {
				if !slices.Contains(got, fmt.Sprint(j)) {
					t.Fatalf("%s: object %d is lost; there are %q", where, j, got)
				}
			}
			if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Fatalf("%s: %q", where, got)
			}
			if len(got) > 0 && got[len(got)-1] > fmt.Sprint(max(newest, 0)) {
				t.Fatalf("%s: the cursor %d is behind %q", where, newest, got)
			}
		}
	}
	t.Logf("%d system calls, %d states", len(ops), count)
}
