package program

import (
	"fmt"
	"sync"
)

// Variants holds the circuits of a program for windows that are not full. It is safe for
// concurrent use.
type Variants struct {
	mu       sync.Mutex
	circuits map[string]*Circuit
}

// Circuit returns the circuit for windows with the given samples by input. It calls
// compile if it does not have that circuit yet.
func (v *Variants) Circuit(present map[Input]int, compile func(map[Input]int) (*Circuit, error)) (*Circuit, error) {
	key := fmt.Sprint(present) // in the order of the inputs
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.circuits[key]; c != nil {
		return c, nil
	}
	c, err := compile(present)
	if err != nil {
		return nil, err
	}
	if v.circuits == nil || len(v.circuits) >= maxVariants {
		v.circuits = map[string]*Circuit{}
	}
	v.circuits[key] = c
	return c, nil
}

// maxVariants bounds the circuits that Variants holds.
const maxVariants = 64
