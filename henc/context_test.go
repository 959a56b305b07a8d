package henc_test

import (
	"errors"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/reference"
	"github.com/hencedge/hencedge/henc"
)

// TestContextColumns: n2 is the caller's, the default, or the backend's choice,
// and a ciphertext from another n2 is read into the context's own.
func TestContextColumns(t *testing.T) {
	p := must(henc.Named("edge12-d1"))(t)
	for _, tt := range []struct {
		name string
		opts []henc.Option
		want int
	}{
		{"default", nil, henc.DefaultN2},
		{"given", []henc.Option{henc.WithN2(4)}, 4},
		{"fastest on the CPU", []henc.Option{henc.WithFastestN2()}, cutrantt.Columns(cpu.New(), p.LogN())},
		{"fastest without a preference", []henc.Option{henc.WithBackend(reference.New()), henc.WithFastestN2()},
			cutrantt.MaxN2},
	} {
		if ctx, err := henc.NewContext(p, tt.opts...); err != nil || ctx.N2() != tt.want {
			t.Errorf("%s: n2 %v, %v; want %d", tt.name, ctx, err, tt.want)
		}
	}
	boot, slow := must(henc.NamedInsecure("boot10-insecure"))(t), summing{reference.New()}
	for _, p := range []henc.Parameters{p, boot} {
		want := slow.Columns(p.LogN())
		if p.UpperLevels() > 0 {
			want = slow.SumColumns(p.LogN())
		}
		ctx, err := henc.NewContext(p, henc.WithBackend(slow), henc.WithFastestN2())
		if err != nil || ctx.N2() != want {
			t.Errorf("%s: n2 %v, %v; want %d", p.Name(), ctx, err, want)
		}
	}
	for _, n2 := range []int{-1, 3, 32, 256 + 16} {
		if _, err := henc.NewContext(p, henc.WithN2(n2)); !errors.Is(err, henc.ErrDomain) {
			t.Errorf("n2 = %d: %v", n2, err)
		}
	}
}

// summing prefers one number of columns for most work, and another one for bootstrapping.
type summing struct{ cutrantt.Backend }

func (summing) Columns(int) int    { return 8 }
func (summing) SumColumns(int) int { return 2 }
