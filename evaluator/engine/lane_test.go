package engine

import (
	"math/rand/v2"
	"testing"
)

// TestDevicesTakeTurns: whatever the order in which windows come, each device gets its part of those of each layout at
// each place, and no device is the first at all places. Also where boards send one window of each layout in turn.
func TestDevicesTakeTurns(t *testing.T) {
	const places, each = 8, 21
	for _, devices := range []int{1, 2, 3} {
		for name, layouts := range map[string]int{"one layout": 1, "two": 2} {
			var order []Turn // by board
			for range each {
				for place := range places {
					for layout := range layouts {
						order = append(order, Turn{[32]byte{byte(layout)}, place})
					}
				}
			}
			shuffled := append([]Turn(nil), order...)
			rng := rand.New(rand.NewPCG(1, uint64(devices)))
			rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			for how, order := range map[string][]Turn{"by board": order, "shuffled": shuffled} {
				t.Run(name+", "+how, func(t *testing.T) { takeTurns(t, devices, order, each) })
			}
		}
	}
}

// takeTurns gives out windows, each of every turn.
func takeTurns(t *testing.T, devices int, order []Turn, each int) {
	l := &lane{}
	for range devices {
		l.devices = append(l.devices, &device{})
	}
	got, first, seen := map[*device]map[Turn]int{}, map[*device]bool{}, map[Turn]bool{}
	for i, turn := range order {
		d := l.next(turn)
		if got[d] == nil {
			got[d] = map[Turn]int{}
		}
		got[d][turn]++
		if !seen[turn] {
			seen[turn], first[d] = true, true
		}
		if i%5 == 0 {
			l.next(packing) // which takes nothing from windows
		}
	}
	for at, d := range l.devices {
		for turn := range seen {
			if n, least := got[d][turn], each/devices; n < least || n > least+1 {
				t.Errorf("%d devices: device %d has %d of %d windows of layout %d at place %d", devices, at, n, each,
					turn.Layout[0], turn.Place)
			}
		}
	}
	if len(first) != devices {
		t.Errorf("%d devices: %d are the first at a place", devices, len(first))
	}
}

// TestWindowsReadTogether: windows of several streams of a board, which come in turn, lie on one device.
func TestWindowsReadTogether(t *testing.T) {
	l := &lane{devices: []*device{{}, {}}}
	for n := range 40 {
		place := n % 8
		x, y := l.next(Turn{[32]byte{1}, place}), l.next(Turn{[32]byte{2}, place})
		if x != y {
			t.Fatalf("window %d: the two streams lie on different devices", n)
		}
	}
}
