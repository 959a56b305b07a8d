package cpu

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
)

// VariantVariable is the environment variable that selects the code New runs:
// "generic" for plain Go, or the name of a vector variant. Unset or empty means the
// best one that the CPU has. It is read once.
const VariantVariable = "CUTRANTT_CPU"

const generic = "generic"

// variants are the vector variants of this machine, best first.
var variants = sync.OnceValue(vectorCodes)

// Variants are the names that NewVariant accepts on this machine, best first;
// "generic" is the last and always there.
func Variants() []string {
	var names []string
	for _, c := range variants() {
		names = append(names, c.name)
	}
	return append(names, generic)
}

// NewVariant returns the backend that runs one variant. All give the same bits. It
// fails with cutrantt.ErrNotSupported where the machine cannot run it.
func NewVariant(name string) (cutrantt.Backend, error) {
	if name == generic {
		return backend{}, nil
	}
	for _, c := range variants() {
		if c.name == name {
			return backend{vec: c}, nil
		}
	}
	return nil, fmt.Errorf("%w: variant %q of the CPU backend; this machine has %s", cutrantt.ErrNotSupported, name, strings.Join(Variants(), ", "))
}

// selected is the backend of New.
var selected = sync.OnceValue(func() backend {
	name := os.Getenv(VariantVariable)
	if name == "" {
		name = Variants()[0]
	}
	b, err := NewVariant(name)
	if err != nil {
		return backend{err: fmt.Errorf("%s: %w", VariantVariable, err)}
	}
	return b.(backend)
})

// variant is the name of the code that b runs.
func (b backend) variant() string {
	if b.vec == nil {
		return generic
	}
	return b.vec.name
}
