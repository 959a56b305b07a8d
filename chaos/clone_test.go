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
// device's name, and at both boards, whether or not they share their client id.
func TestClonedBoard(t *testing.T) {
	binary := build(t)
	for _, id := range []string{"", "another"} {
		t.Run("client id "+id, func(t *testing.T) {
			r := newRig(t, binary, shortLegs(t)[0], 200*16)
			r.start(r.broker, r.holder, r.evaluator, r.agent)
			r.settle(4)
			r.stop()
			clone := r.clone(id)
			r.start(r.agent)
			r.settle(2)
			r.start(clone)
			r.says(r.evaluator, "two boards send with one identity")
			r.says(r.evaluator, "device=board")
			if id == "" {
				r.says(r.agent, "does another client use the same id")
				r.says(clone, "does another client use the same id")
				return
			}
			r.says(r.agent, "another board sends with this device's name and signing key")
			r.says(clone, "another board sends with this device's name and signing key")
		})
	}
}
