package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// bootHolder is a key holder whose evaluation keys bootstrap.
type bootHolder struct {
	key  *secret.Key
	keys Keys
}

// newBootHolder makes the keys for all rotations that bootstrapping wants.
func newBootHolder(t *testing.T, ctx *henc.Context, n byte) bootHolder {
	t.Helper()
	plan, err := bootstrapPlan(ctx.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	key, err := secret.Generate(ctx, &henc.Seed{n})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := key.BootstrapKeys(plan)
	if err != nil {
		t.Fatal(err)
	}
	return bootHolder{key, Keys{Context: ctx, Evaluation: ev}}
}

// run encrypts a window, lets the engine compute the program, decrypts, and returns the largest error.
func (h bootHolder) run(e *Engine, c *program.Circuit, x []float64) (float64, error) {
	ctx := h.keys.Context
	ct, err := secret.NewSeededEncryptor(ctx, h.key).EncryptReal(x, 3, 0, nil) // the level of the stream
	if err != nil {
		return 0, err
	}
	body, err := ctx.MarshalCiphertext(ct)
	if err != nil {
		return 0, err
	}
	params := ctx.Parameters().Hash()
	in, err := e.Receive(params, body, Turn{})
	if err != nil {
		return 0, err
	}
	results, err := e.Run(c, h.keys.Ref(), map[program.Input]*Ciphertext{c.Inputs()[0]: in}, 0)
	if err != nil {
		return 0, err
	}
	if ct, err = ctx.UnmarshalCiphertext(results[0].Body); err != nil {
		return 0, err
	}
	slots, err := secret.NewDecryptor(ctx, h.key).DecryptReal(ct)
	if err != nil {
		return 0, err
	}
	want, err := c.Reference(map[string][]float64{"x": x})
	if err != nil {
		return 0, err
	}
	out, worst := c.Output(), 0.0
	for i, w := range want {
		worst = max(worst, math.Abs(out.A*slots[out.Slot+i]+out.B-w))
	}
	return worst, nil
}

// TestBootstraps: the engine runs a program that is deeper than its parameters, for two key holders at a
// time, and each decrypts it within the promise.
func TestBootstraps(t *testing.T) {
	p, err := henc.NamedInsecure("boot10-insecure")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := makeContext(p)
	if err != nil {
		t.Fatal(err)
	}
	holders := []bootHolder{newBootHolder(t, ctx, 1), newBootHolder(t, ctx, 2)}
	keys := []Keys{holders[0].keys, holders[1].keys}
	e, err := New(keys, Options{Workers: 2, Latency: time.Second, Places: 1, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), OnFallback: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	st := config.Stream{Name: "s", Params: p.Name(), Packing: config.PackingReal, Window: config.Window{Samples: 8},
		Level: new(3), Channels: []config.Channel{{Name: "c", Unit: "u", Range: [2]float64{-1, 1}}}}
	c, err := program.Compile(program.Source{Name: "p", Expr: "x^12 - x",
		Vars: map[string]program.Var{"x": {Device: "d", Stream: st}}}, p)
	if err != nil {
		t.Fatal(err)
	}
	if c.Bootstraps() == 0 {
		t.Fatal("the program does not bootstrap")
	}
	errs := make([]error, 6)
	var all sync.WaitGroup
	for i := range errs {
		rng := rand.New(rand.NewPCG(5, uint64(i)))
		all.Go(func() {
			x := make([]float64, 8)
			for k := range x {
				x[k] = 2*rng.Float64() - 1
			}
			worst, err := holders[i%2].run(e, c, x)
			if bound := c.Output().Bound; err == nil && worst > bound {
				err = fmt.Errorf("error %g, promised %g", worst, bound)
			}
			errs[i] = err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}

	// Without some key the job fails, and its holder's keys say why before.
	few := holders[0].keys
	spoil := func(change func(*henc.EvaluationKeys)) Keys {
		ev := *few.Evaluation
		ev.Galois = maps.Clone(ev.Galois)
		change(&ev)
		return Keys{Context: ctx, Evaluation: &ev}
	}
	for want, k := range map[string]Keys{
		"":                              few,
		"the keys of the sparse secret": spoil(func(k *henc.EvaluationKeys) { k.Sparse = nil }),
		"the relinearisation key":       spoil(func(k *henc.EvaluationKeys) { k.Relin = nil }),
		"the key of conjugation": spoil(func(k *henc.EvaluationKeys) {
			delete(k.Galois, henc.ConjugationElement(p))
		}),
		"the key of the rotation by -64": spoil(func(k *henc.EvaluationKeys) {
			delete(k.Galois, henc.GaloisElement(p, -64))
		}),
	} {
		if got := k.BootstrapLacks(); got != want {
			t.Errorf("lacks %q, want %q", got, want)
		}
	}
	none := bootHolder{holders[0].key, spoil(func(k *henc.EvaluationKeys) { k.Sparse = nil })}
	e, err = New([]Keys{none.keys}, Options{Workers: 1, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.run(e, c, make([]float64, 8)); !errors.Is(err, henc.ErrNoKey) ||
		!strings.Contains(err.Error(), "sparse secret") {
		t.Errorf("without keys: %v", err)
	}
}
