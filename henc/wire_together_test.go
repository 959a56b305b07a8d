package henc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/backendtest"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// TestUnmarshalBatches: many ciphertexts at once, of several shapes and with faults between
// them, give the residues and the errors that the CPU gives for each alone.
func TestUnmarshalBatches(t *testing.T) {
	p := must(henc.Named("edge12-d1"))(t)
	on := must(henc.NewContext(p, henc.WithBackend(backendtest.New(t)), henc.WithN2(4)))(t)
	alone := must(henc.NewContext(p, henc.WithBackend(cpu.New()), henc.WithN2(4)))(t)
	var bodies [][]byte
	for _, n2 := range []int{4, 16} { // of the context, and another one
		ctx := must(henc.NewContext(p, henc.WithBackend(cpu.New()), henc.WithN2(n2)))(t)
		key := must(secret.Generate(ctx, seedOf("together")))(t)
		public := must(henc.NewEncryptor(ctx, must(key.PublicKey())(t)))(t)
		seeded := secret.NewSeededEncryptor(ctx, key)
		for level := range 2 {
			x := reals(p.Slots(), uint64(n2+level))
			full := must(ctx.MarshalCiphertext(must(public.EncryptReal(x, level, 0, seedOf("a")))(t)))(t)
			bodies = append(bodies, full,
				must(ctx.MarshalCiphertext(must(seeded.EncryptReal(x, level, 0, seedOf("b")))(t)))(t))
			bodies = append(bodies, faulty(p, level, full)...)
		}
	}
	bodies = append(bodies, nil, []byte("no ciphertext"), bodies[0])

	cts, errs := on.UnmarshalCiphertexts(bodies)
	compareBodies(t, on, alone, bodies, cts, errs)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4 { // in pieces, of which the first is long enough for the header, or not
		pieces := make([][][]byte, len(bodies))
		for i, b := range bodies {
			pieces[i] = inPieces(rng, b)
		}
		staged := make([]*henc.Staged, len(bodies))
		for i := range pieces {
			staged[i] = on.Stage(pieces[i])
		}
		for range 2 { // after an error they are asked for again
			cts, errs := on.UnmarshalStaged(staged)
			compareBodies(t, on, alone, bodies, cts, errs)
		}
		for _, s := range staged {
			s.Done()
		}
	}
	if cts, errs := on.UnmarshalCiphertexts(nil); len(cts) != 0 || len(errs) != 0 {
		t.Errorf("of nothing: %v, %v", cts, errs)
	}
	whole := on.Stage(bodies[:1])
	staged := []*henc.Staged{on.Stage(nil), alone.Stage(bodies[:1]), nil, whole}
	_, errs = on.UnmarshalStaged(staged)
	for i, want := range []error{henc.ErrTruncated, henc.ErrParams, henc.ErrParams, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("staged ciphertext %d: %v, want %v", i, errs[i], want)
		}
		staged[i].Done()
		staged[i].Done()
	}
	if _, errs := on.UnmarshalStaged(staged); !errors.Is(errs[3], henc.ErrParams) {
		t.Errorf("after Done: %v", errs[3])
	}
}

// stagingBackend makes rings that stage, on the processor. stagingRing is the last one.
type stagingBackend struct {
	cutrantt.Backend
	ring *stagingRing
}

type stagingRing struct {
	cutrantt.Ring
	refuses error // of every load
	held    int   // what is staged
}

func (b *stagingBackend) NewRing(logN int, q []cutrantt.Modulus, o cutrantt.Options) (cutrantt.Ring, error) {
	r, err := b.Backend.NewRing(logN, q, o)
	b.ring = &stagingRing{Ring: r}
	return b.ring, err
}

func (r *stagingRing) LoadPacked(*cutrantt.PackedLoad) ([]*cutrantt.Batch, error) {
	return nil, r.refuses
}

func (r *stagingRing) StorePacked([][][]byte, []*cutrantt.Batch) ([]bool, error) {
	return nil, r.refuses
}

func (r *stagingRing) Stage(pieces [][]byte) ([]byte, func()) {
	r.held++
	return slices.Concat(pieces...), func() { r.held-- }
}

// TestStagedAgain: what is staged can be asked for again after a device had no memory, is read by the host where no
// device takes it, and is given back once.
func TestStagedAgain(t *testing.T) {
	p := must(henc.Named("edge12-d1"))(t)
	b := &stagingBackend{Backend: cpu.New()}
	on := must(henc.NewContext(p, henc.WithBackend(b), henc.WithN2(4)))(t)
	alone := must(henc.NewContext(p, henc.WithBackend(cpu.New()), henc.WithN2(4)))(t)
	key := must(secret.Generate(alone, seedOf("again")))(t)
	public := must(henc.NewEncryptor(alone, must(key.PublicKey())(t)))(t)
	body := must(alone.MarshalCiphertext(must(public.EncryptReal(reals(p.Slots(), 1), 1, 0, seedOf("a")))(t)))(t)
	staged := []*henc.Staged{on.Stage([][]byte{body}), on.Stage([][]byte{body[:300], body[300:]})}
	if b.ring.held != len(staged) {
		t.Errorf("%d are staged, want %d", b.ring.held, len(staged))
	}
	b.ring.refuses = cutrantt.ErrMemory
	for range 2 {
		_, errs := on.UnmarshalStaged(staged)
		for i, err := range errs {
			if !errors.Is(err, cutrantt.ErrMemory) {
				t.Errorf("ciphertext %d without memory: %v", i, err)
			}
		}
	}
	b.ring.refuses = cutrantt.ErrNotSupported
	cts, errs := on.UnmarshalStaged(staged)
	want := must(alone.UnmarshalCiphertext(body))(t)
	for i, ct := range cts {
		if errs[i] != nil || !slices.Equal(residues(t, on, ct), residues(t, alone, want)) {
			t.Errorf("ciphertext %d by the host: %v, or other residues", i, errs[i])
		}
	}
	for range 2 {
		staged[0].Done()
	}
	if b.ring.held != 1 {
		t.Errorf("%d are staged after one was given back twice, want 1", b.ring.held)
	}
}

// inPieces cuts b anywhere, also around the heads of its polynomials.
func inPieces(rng *rand.Rand, b []byte) (out [][]byte) {
	first := []int{100, 250, len(b)/2 - 60 + rng.IntN(120), rng.IntN(len(b) + 1)}[rng.IntN(4)]
	for n := first; len(b) > 0; n = 1 + rng.IntN(len(b)) {
		n = min(max(n, 0), len(b))
		out = append(out, b[:n:n])
		if b = b[n:]; len(b) == 0 {
			break
		}
	}
	return out
}

// compareBodies compares what on made of bodies with what alone makes of each.
func compareBodies(t *testing.T, on, alone *henc.Context, bodies [][]byte, cts []*henc.Ciphertext, errs []error) {
	t.Helper()
	if len(cts) != len(bodies) || len(errs) != len(bodies) {
		t.Fatalf("%d ciphertexts, %d errors of %d bodies", len(cts), len(errs), len(bodies))
	}
	seen := map[error]int{}
	for i, b := range bodies {
		want, wantErr := alone.UnmarshalCiphertext(b)
		if (errs[i] == nil) != (wantErr == nil) || wantErr != nil && errs[i].Error() != wantErr.Error() {
			t.Errorf("body %d: %v, want %v", i, errs[i], wantErr)
			continue
		}
		for _, kind := range []error{henc.ErrRange, henc.ErrDegenerate, henc.ErrTruncated} {
			if errors.Is(wantErr, kind) {
				seen[kind]++
			}
		}
		if wantErr != nil {
			if cts[i] != nil {
				t.Errorf("body %d: a ciphertext and %v", i, errs[i])
			}
			continue
		}
		got := cts[i]
		if got.Level != want.Level || got.Scale != want.Scale || (got.Seed == nil) != (want.Seed == nil) ||
			got.Value.Domain() != want.Value.Domain() {
			t.Errorf("body %d: level %d, scale %g, in %v", i, got.Level, got.Scale, got.Value.Domain())
		}
		if !slices.Equal(residues(t, on, got), residues(t, alone, want)) {
			t.Errorf("body %d: other residues", i)
		}
	}
	if seen[henc.ErrRange] != 12 || seen[henc.ErrDegenerate] != 4 || seen[henc.ErrTruncated] == 0 {
		t.Errorf("refused: %v", seen)
	}
}

// TestSum: ciphertexts as they were sent, by agents with other columns too, give in one sum the
// residues that they give one by one. What is refused as sent is refused in the same words.
func TestSum(t *testing.T) {
	p := must(henc.Named("edge12-d1"))(t)
	for _, own := range []int{1, 16} {
		ctx := must(henc.NewContext(p, henc.WithBackend(backendtest.New(t)), henc.WithN2(own)))(t)
		ev := henc.NewEvaluator(ctx, nil)
		var bodies [][]byte
		for i, n2 := range []int{16, 4, 1, 16, 1} {
			agent := must(henc.NewContext(p, henc.WithBackend(cpu.New()), henc.WithN2(n2)))(t)
			key := must(secret.Generate(agent, seedOf("sum")))(t)
			encrypt := must(henc.NewEncryptor(agent, must(key.PublicKey())(t)))(t).EncryptReal
			if i > 2 {
				encrypt = secret.NewSeededEncryptor(agent, key).EncryptReal
			}
			ct := must(encrypt(reals(p.Slots(), uint64(i)), p.MaxLevel()-i%2, p.DefaultScale(), seedOf("a")))(t)
			bodies = append(bodies, must(agent.MarshalCiphertext(ct))(t))
		}
		for _, b := range append(faulty(p, p.MaxLevel(), bodies[0]), nil, bodies[0]) {
			_, want := ctx.UnmarshalCiphertext(b)
			_, err := ctx.UnmarshalAsSent(b)
			if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
				t.Errorf("as sent: %v, want %v", err, want)
			}
		}
		level := p.MaxLevel() - 1
		var sent []*henc.Ciphertext
		var want *henc.Ciphertext
		for i, b := range bodies {
			x, y := must(ctx.UnmarshalAsSent(b))(t), must(ctx.UnmarshalCiphertext(b))(t)
			domain := must(henc.PeekCiphertext(b))(t).Domain
			if _, device := ctx.Ring().(cutrantt.Packed); device {
				domain = ctx.Domain()
			}
			if x.Value.Domain() != domain || (x.Seed == nil) != (y.Seed == nil) {
				t.Errorf("ciphertext %d as sent is in %v, seed %v", i, x.Value.Domain(), x.Seed != nil)
			}
			before := residues(t, ctx, x)
			y = must(ev.DropLevel(y, y.Level-level))(t)
			if want == nil {
				want = y
			} else {
				want = must(ev.Add(want, y))(t)
			}
			sent = append(sent, x)
			for _, some := range [][]*henc.Ciphertext{sent, {x}} { // as many, and this one alone
				sum, expect := must(ctx.Sum(some, level))(t), want
				if len(some) == 1 {
					expect = y
				}
				if err := ctx.CheckCiphertext(sum); err != nil || sum.Level != level || sum.Scale != p.DefaultScale() ||
					!slices.Equal(residues(t, ctx, sum), residues(t, ctx, expect)) {
					t.Errorf("n2 = %d: the sum of %d up to ciphertext %d differs (%v)", own, len(some), i, err)
				}
				ctx.Ring().Free(sum.Value)
			}
			if !slices.Equal(before, residues(t, ctx, x)) {
				t.Errorf("ciphertext %d is changed, or freed", i)
			}
		}
		low, scaled := must(ctx.Sum(sent[:1], 0))(t), sent[0].WithScale(2*p.DefaultScale())
		for what, c := range map[string]struct {
			cts   []*henc.Ciphertext
			level int
			want  error
		}{
			"nothing":       {nil, 0, henc.ErrParams},
			"nil":           {[]*henc.Ciphertext{sent[0], nil}, 0, henc.ErrDegree},
			"no residues":   {[]*henc.Ciphertext{{}}, 0, henc.ErrDegree},
			"a level below": {[]*henc.Ciphertext{sent[0], low}, p.MaxLevel(), henc.ErrLevel},
			"a false level": {[]*henc.Ciphertext{{Value: low.Value, Level: p.MaxLevel(), Scale: low.Scale}}, 0,
				henc.ErrLevel},
			"no level":     {sent[:1], -1, henc.ErrLevel},
			"other scales": {[]*henc.Ciphertext{sent[0], scaled}, 0, henc.ErrScale},
		} {
			if ct, err := ctx.Sum(c.cts, c.level); ct != nil || !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", what, err, c.want)
			}
		}
	}
}

// TestMarshalBatches: many ciphertexts at once, of several shapes and with faults between them,
// give the bytes and the errors that the CPU gives for each alone.
func TestMarshalBatches(t *testing.T) {
	p := must(henc.Named("edge12-d1"))(t)
	on := must(henc.NewContext(p, henc.WithBackend(backendtest.New(t))))(t)
	alone := must(henc.NewContext(p, henc.WithBackend(cpu.New()), henc.WithN2(on.N2())))(t)
	key := must(secret.Generate(alone, seedOf("together")))(t)
	public := must(henc.NewEncryptor(alone, must(key.PublicKey())(t)))(t)
	seeded := secret.NewSeededEncryptor(alone, key)
	var want []*henc.Ciphertext // on the CPU
	zero := func(ct *henc.Ciphertext, poly int) *henc.Ciphertext {
		limb := must(ct.Value.Slice(poly, poly+1, len(ct.Value.Limbs())-1, len(ct.Value.Limbs())))(t)
		check(t, alone.Ring().Upload(limb, make([]uint32, limb.Len())))
		return ct
	}
	for level := range 2 {
		x := reals(p.Slots(), uint64(level))
		for range 3 {
			want = append(want, must(public.EncryptReal(x, level, 0, nil))(t),
				must(seeded.EncryptReal(x, level, 0, nil))(t))
		}
		other := must(seeded.EncryptReal(x, level, 0, nil))(t)
		other.Seed[3] ^= 1
		dropped := must(seeded.EncryptReal(x, level, 0, nil))(t)
		dropped.Seed = nil
		want = append(want, other, dropped, zero(must(public.EncryptReal(x, level, 0, nil))(t), 0),
			zero(must(public.EncryptReal(x, level, 0, nil))(t), 1),
			zero(must(seeded.EncryptReal(x, level, 0, nil))(t), 0))
	}
	want = append(want, nil, &henc.Ciphertext{})
	cts, to := make([]*henc.Ciphertext, len(want)), make([][]byte, len(want)-1)
	for i, ct := range want {
		if i < len(to) && i%3 > 0 {
			to[i] = append(make([]byte, 0, i*40000), "before"...)
		}
		if ct == nil || ct.Value == nil {
			cts[i] = ct
			continue
		}
		b := must(on.Ring().NewBatch(2, ct.Value.Limbs(), ct.Value.Domain()))(t)
		check(t, on.Ring().Upload(b, residues(t, alone, ct)))
		cts[i] = &henc.Ciphertext{Value: b, Level: ct.Level, Scale: ct.Scale, Seed: ct.Seed}
	}

	bodies, errs := on.AppendCiphertexts(to, cts)
	if len(bodies) != len(cts) || len(errs) != len(cts) {
		t.Fatalf("%d bodies, %d errors of %d ciphertexts", len(bodies), len(errs), len(cts))
	}
	seen := map[error]int{}
	for i, ct := range want {
		body, wantErr := alone.MarshalCiphertext(ct)
		if wantErr == nil && i < len(to) {
			body = append(slices.Clone(to[i]), body...)
		}
		if (errs[i] == nil) != (wantErr == nil) || wantErr != nil && errs[i].Error() != wantErr.Error() {
			t.Errorf("ciphertext %d: %v, want %v", i, errs[i], wantErr)
		}
		for _, kind := range []error{henc.ErrSeed, henc.ErrDegenerate, henc.ErrDegree} {
			if errors.Is(errs[i], kind) {
				seen[kind]++
			}
		}
		if !slices.Equal(bodies[i], body) {
			t.Errorf("ciphertext %d: other bytes", i)
		}
	}
	if seen[henc.ErrSeed] != 2 || seen[henc.ErrDegenerate] != 2 || seen[henc.ErrDegree] != 2 {
		t.Errorf("refused: %v", seen)
	}
	if bodies, errs := on.MarshalCiphertexts(nil); len(bodies) != 0 || len(errs) != 0 {
		t.Errorf("of nothing: %v, %v", bodies, errs)
	}
}

// faulty returns copies of an encoded ciphertext with pairs out of range in each polynomial,
// with a limb of zeros in each, of which that of c0 is allowed, and one that is cut.
func faulty(p henc.Parameters, level int, full []byte) [][]byte {
	size, q := p.PackedBytes(level), p.Q()
	head := 3
	if size >= 1<<16 {
		head = 5
	}
	c1 := len(full) - size
	c0 := c1 - head - size
	limb := cutrantt.PackedBytes(p.N(), q[0])
	with := func(at, n int, v byte) []byte {
		b := slices.Clone(full)
		for i := range n {
			b[at+i] = v
		}
		return b
	}
	return [][]byte{
		with(c0, 8, 0xff), with(c1-head-8, 8, 0xff), with(len(full)-8, 8, 0xff),
		with(c0, limb, 0), with(c1, limb, 0), slices.Clone(full[:len(full)-1]),
	}
}

func residues(t testing.TB, ctx *henc.Context, ct *henc.Ciphertext) []uint32 {
	t.Helper()
	x := make([]uint32, ct.Value.Len())
	check(t, ctx.Ring().Download(x, ct.Value))
	return x
}

// BenchmarkSum reads 8 windows of edge13-d3, written with the columns of an agent, and adds them
// up: each converted as it is read, and together.
func BenchmarkSum(b *testing.B) {
	const windows = 8
	p := must(henc.Named("edge13-d3"))(b)
	ctx := must(henc.NewContext(p, henc.WithBackend(backendtest.New(b)), henc.WithFastestN2()))(b)
	agent := must(henc.NewContext(p, henc.WithBackend(cpu.New()), henc.WithN2(henc.DefaultN2)))(b)
	key := must(secret.Generate(agent, seedOf("together")))(b)
	public := must(henc.NewEncryptor(agent, must(key.PublicKey())(b)))(b)
	ct := must(public.EncryptReal(reals(p.Slots(), 1), p.MaxLevel(), 0, seedOf("a")))(b)
	body := must(agent.MarshalCiphertext(ct))(b)
	for _, c := range []struct {
		name string
		read func([]byte) (*henc.Ciphertext, error)
	}{{"converted", ctx.UnmarshalCiphertext}, {"as-sent", ctx.UnmarshalAsSent}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				cts := make([]*henc.Ciphertext, windows)
				for i := range cts {
					cts[i] = must(c.read(body))(b)
				}
				cts = append(cts, must(ctx.Sum(cts, p.MaxLevel()))(b))
				for _, ct := range cts {
					ctx.Ring().Free(ct.Value)
				}
			}
			check(b, ctx.Ring().Sync())
			b.ReportMetric(float64(b.N*windows)/b.Elapsed().Seconds(), "windows/s")
		})
	}
}

// BenchmarkUnmarshalCiphertexts reads windows of edge13-d3 at the top level, written with the
// columns of an agent, alone and together. On a GPU (CUTRANTT_TEST_BACKEND=cuda) the next call
// begins while residues are still being unpacked and converted, as in service.
func BenchmarkUnmarshalCiphertexts(b *testing.B) {
	p := must(henc.Named("edge13-d3"))(b)
	ctx := must(henc.NewContext(p, henc.WithBackend(backendtest.New(b)), henc.WithFastestN2()))(b)
	agent := must(henc.NewContext(p, henc.WithBackend(cpu.New()), henc.WithN2(henc.DefaultN2)))(b)
	key := must(secret.Generate(agent, seedOf("together")))(b)
	public := must(henc.NewEncryptor(agent, must(key.PublicKey())(b)))(b)
	ct := must(public.EncryptReal(reals(p.Slots(), 1), p.MaxLevel(), 0, seedOf("a")))(b)
	body := must(agent.MarshalCiphertext(ct))(b)
	for _, k := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprint(k), func(b *testing.B) {
			bodies := make([][]byte, k)
			for i := range bodies {
				bodies[i] = slices.Clone(body)
			}
			b.SetBytes(int64(k * len(body)))
			for b.Loop() {
				cts, errs := ctx.UnmarshalCiphertexts(bodies)
				check(b, errors.Join(errs...))
				for _, ct := range cts {
					ctx.Ring().Free(ct.Value)
				}
			}
			check(b, ctx.Ring().Sync())
			b.ReportMetric(float64(b.N*k)/b.Elapsed().Seconds(), "windows/s")
		})
	}
}
