package engine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
)

// fleetCircuit is a program across the devices of a class that needs no rotations, for which the
// rig has no keys.
func (r *rig) fleetCircuit() *program.Circuit {
	r.t.Helper()
	p := r.circuits[0].Parameters()
	st := config.Stream{Name: "s", Params: p.Name(), Window: config.Window{Samples: 1}, Packing: config.PackingReal,
		Channels: []config.Channel{{Name: "c", Unit: "u", Range: [2]float64{-1, 1}}}}
	c, err := program.Compile(program.Source{Name: "all", Class: "pump", Expr: "fleet.mean(x)",
		Vars: map[string]program.Var{"x": {Stream: st}}}, p)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// add adds windows of the first holder n times.
func (r *rig) add(s *Sum, c *program.Circuit, n int) {
	r.t.Helper()
	for range n {
		ct, err := r.e.Receive(c.Parameters().Hash(), r.bodies[0], Turn{})
		if err != nil {
			r.t.Fatal(err)
		}
		if err := r.e.Add(s, c.Parts(), r.refs[0], map[program.Input]*Ciphertext{c.Inputs()[0]: ct}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestSum: a sum over devices is that of one device, bit for bit, and can be finished again.
func TestSum(t *testing.T) {
	for devices := 1; devices <= 2; devices++ {
		r := newRig(t, devices, width{batches: 2, most: 8}, time.Millisecond)
		c := r.fleetCircuit()
		l := r.e.lanes[c.Parameters().Hash()]
		rest, err := c.Across(5, 5)
		if err != nil {
			t.Fatal(err)
		}
		var s Sum
		r.add(&s, c, 5)
		if len(s.parts) != devices {
			t.Errorf("%d devices have parts", len(s.parts))
		}
		d := l.devices[0]
		want := r.sumAlone(d, c, rest, 5)
		for range 2 {
			got, err := r.e.Finish(&s, rest, r.refs[0])
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Body, want) {
				t.Error("another sum")
			}
		}
		s.Free()
		if _, err := r.e.Finish(&s, rest, r.refs[0]); !errors.Is(err, program.ErrInput) {
			t.Errorf("a sum of nothing: %v", err)
		}
	}
}

// sumAlone adds up on one device, without an engine.
func (r *rig) sumAlone(d *device, c, rest *program.Circuit, n int) []byte {
	r.t.Helper()
	ev := d.keys[r.refs[0]]
	var sum *henc.Ciphertext
	for range n {
		ct, err := d.ctx.UnmarshalCiphertext(r.bodies[0])
		if err != nil {
			r.t.Fatal(err)
		}
		b, err := program.RunBatch([]program.Item{{Routine: c.Parts(), Evaluator: ev,
			Inputs: map[program.Input]*henc.Ciphertext{c.Inputs()[0]: ct}}})
		if err != nil {
			r.t.Fatal(err)
		}
		if one := b.Result(0, 0); sum == nil {
			sum = one
		} else if sum, err = ev.Add(sum, one); err != nil {
			r.t.Fatal(err)
		}
	}
	out, _, err := rest.Run(ev, map[program.Input]*henc.Ciphertext{program.SumInput(0): sum})
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := d.ctx.MarshalCiphertext(out)
	if err != nil {
		r.t.Fatal(err)
	}
	return body
}

// TestSumLost: a part on a device that failed is lost, and nothing is made of the others. What
// is added later goes elsewhere.
func TestSumLost(t *testing.T) {
	r := newRig(t, 2, width{batches: 2, most: 8}, time.Millisecond)
	c := r.fleetCircuit()
	rest, err := c.Across(4, 4)
	if err != nil {
		t.Fatal(err)
	}
	var s Sum
	r.add(&s, c, 4)
	r.devices[0].broken.Store(true)
	if _, err := r.e.Finish(&s, rest, r.refs[0]); !errors.Is(err, ErrLost) {
		t.Fatalf("a part is lost: %v", err)
	}
	var again Sum
	r.add(&again, c, 4)
	got, err := r.e.Finish(&again, rest, r.refs[0])
	if err != nil {
		t.Fatal(err)
	}
	working := r.e.lanes[c.Parameters().Hash()].devices[0]
	if !bytes.Equal(got.Body, r.sumAlone(working, c, rest, 4)) {
		t.Error("another sum")
	}
}
