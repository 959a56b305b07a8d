package secret

import (
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc"
)

// TestWipeLeavesNothing looks at the memory of a wiped key.
func TestWipeLeavesNothing(t *testing.T) {
	p, err := henc.Named("edge12-add")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(p)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Generate(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Max(k.small) != 1 || k.root == (henc.Seed{}) || k.s == nil {
		t.Fatal("no key to wipe")
	}
	if err := k.Wipe(); err != nil {
		t.Fatal(err)
	}
	if slices.Max(k.small) != 0 || slices.Min(k.small) != 0 || k.root != (henc.Seed{}) || k.s != nil {
		t.Error("something of the key is left")
	}
}
