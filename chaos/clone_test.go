package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clone copies the board's directory as it is now and gives the copy's agent a client id.
func (r *rig) clone(clientID string) *process {
	r.t.Helper()
	to := filepath.Join(r.dir, "clone")
	if err := os.CopyFS(to, os.DirFS(filepath.Join(r.dir, "board"))); err != nil {
		r.t.Fatal(err)
	}
	name := filepath.Join(to, "agent.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		r.t.Fatal(err)
	}
	if clientID != "" {
		text = []byte(strings.Replace(string(text), "broker: {", "broker: {client_id: "+clientID+", ", 1))
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
	for _, secret := range []string{"signing.key"} { // the copy is readable by others
		if err := os.Chmod(filepath.Join(to, secret), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	p := &process{name: "clone", log: filepath.Join(r.dir, "clone.log"), env: r.agent.env}
	for _, arg := range r.agent.args {
		p.args = append(p.args, strings.Replace(arg, "/board/", "/clone/", 1))
	}
	r.t.Cleanup(p.kill)
	return p
}

// says waits until a process has logged a text.
func (r *rig) says(p *process, text string) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		log, err := os.ReadFile(p.log)
		if err == nil && strings.Contains(string(log), text) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s does not say %q: %v\n%s\n%s", p.name, text, err, r.logs(), log)
		}
	}
}

// A board that runs from a copy of another one's disk is told at the evaluator, by the
// device's name, and at both boards, whether or not they share their client id, and when
// both start in the same second too.
func TestClonedBoard(t *testing.T) {
	binary := build(t, false)
	for name, tt := range map[string]struct {
		id       string
		together bool
		boards   string
	}{
		"the same client id": {"", false, "does another client use the same id"},
		"another client id":  {"another", false, "another board sends with this device's name and signing key"},
		"at the same time":   {"another", true, "another board sends with this device's name and signing key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, binary, shortLegs(t)[0], 200*16)
			r.start(r.broker, r.holder, r.evaluator, r.agent)
			r.settle(4)
			r.stop()
			clone := r.clone(tt.id)
			r.start(r.agent)
			if !tt.together {
				r.settle(2)
			}
			r.start(clone)
			r.says(r.evaluator, "two boards send with one identity")
			r.says(r.evaluator, "device=board")
			r.says(r.agent, tt.boards)
			r.says(clone, tt.boards)
		})
	}
}
