package program

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hencedge/hencedge/henc"
)

// Packed results: single values of many runs and programs in the slots of one ciphertext
// at level 0.
//
//   - A program that is compiled with Source.Packed ends with a multiplication by 1 in the
//     slot of its value and 0 elsewhere, so that nothing else is left in its ciphertext.
//   - The same multiplication brings the value to magnitude 1 at the scale PackScale, the
//     same for all programs of the parameters. So all slots of a pack are read alike, and
//     the noise of packing lies far below what programs promise.
//   - Filling a pack adds the results one by one. It rotates what is there by one slot
//     where the slot of the next value is taken. Many results are added in groups, side by
//     side, if there is a key for groupRotation.
//
// Where windows of several devices share a ciphertext, the mask has a 1 at every place, and a
// result takes the slots of all places, whether or not a device has a value there.
//
// The promised error of a packed program holds in every pack of at most MaxPack results and
// as many rotations, whatever the other programs are: it counts the noise of all results,
// of all rotations, and what the masks leave of the other results' slots.

// MaxPack is the largest number of results in a pack, and of rotations that fill one.
const MaxPack = 256

// PackRotation is the rotation that filling a pack needs a key for.
const PackRotation = 1

// packBits is how many bits of the lowest level a pack leaves free.
const packBits = 4

// leastMask is the least scale of a mask. Its rounding leaves about sqrt(N/24)/leastMask of
// what a masked slot held. A larger one makes plans rescale once more, from a level higher: at
// 2^40 var(x) of 256 samples took 288 limb switches under edge13-d3, at 2^36 it takes 198.
const leastMask = 0x1p36

// PackScale returns the scale of packs under p.
func PackScale(p henc.Parameters) float64 { return math.Exp2(math.Floor(p.LogQ(0) - packBits)) }

// PackMagnitude bounds the coefficients of a decrypted pack under p; see
// Circuit.Magnitude.
func PackMagnitude(p henc.Parameters) float64 { return 4 * PackScale(p) }

// finishPacked is finish for a pack. a is the factor of the value in the result's slot.
func (p *planner) finishPacked(v val) (w int, a, bound float64) {
	if v.sh.window() {
		p.fail(ErrType, "leave it out of the pack, or reduce it to one value",
			"%s gives %d values, and only single values are packed", p.text(), v.sh.n)
		return 0, 0, 0
	}
	if !p.switches("packing results") {
		return 0, 0, 0
	}
	bound = math.Inf(1)
	for x := v.w; p.err == nil; x = p.rescale(x) {
		s := p.get(x)
		unit := math.Exp2(math.Ceil(math.Log2(s.mag + s.dev.limit())))
		for level := 1; level <= s.level; level++ {
			if !p.ch.fits(level, s.mag, s.dev.limit(), s.scale) {
				continue
			}
			m, ok := p.mask(p.drop(x, level), v.pos, 1/unit)
			if !ok {
				continue
			}
			if b := p.packedBound(m, v.a*unit, v.b.value(), failure); b < bound/1.25 {
				w, a, bound = m, v.a*unit, b
			}
			break
		}
		if !p.canRescale(x, 0) {
			break
		}
	}
	if p.err == nil && math.IsInf(bound, 1) {
		p.fail(ErrDepth, "leave it out of the pack",
			"%s cannot be packed: no level is left for the last multiplication, or it has too few bits", p.text())
	}
	return w, a, bound
}

// packedBound bounds the error of a value that is a times a masked result, plus b.
func (p *planner) packedBound(w int, a, b, failure float64) float64 {
	err := p.inPack(w).limitAt(failure)
	return math.Abs(a)*(err+p.ch.rounding+0x1p-48) + 0x1p-50*math.Abs(b)
}

// inPack returns the error of the value of a masked result once it stands in a pack.
func (p *planner) inPack(w int) deviation {
	s := p.get(w)
	noise := func(sd float64) deviation { return deviation{own: rotations(sd, MaxPack, MaxPack)} }
	// The masks of equal programs are equal, so that what they leave adds up.
	left := deviation{own: spread{sd: p.ch.noise.Encode(leastMask)}, fixed: p.ch.rounding}.times(2 * MaxPack)
	return s.dev.plus(noise(p.ch.noise.Rescale(s.scale))).plus(noise(p.ch.noise.KeySwitch(0, s.scale))).plus(left)
}

// mask ends a program for a pack: it multiplies by factor in slot pos and by 0 elsewhere,
// and brings the result to PackScale at level 0. ok is false where the mask would be too
// coarse, or too large for the level.
func (p *planner) mask(w, pos int, factor float64) (out int, ok bool) {
	s := p.get(w)
	if p.err != nil || s.level < 1 {
		return 0, false
	}
	last := PackScale(p.ch.params)
	target := last * p.ch.factor[s.level] // before the rescaling
	scale := math.Abs(factor) * target / s.scale
	mag := s.mag * math.Abs(factor)
	if !(scale >= leastMask) || mag > 1 || !p.ch.fits(s.level, 1, 0, target) ||
		!p.ch.fits(s.level, s.mag, s.dev.limit(), s.scale) {
		return 0, false
	}
	value := math.Copysign(1, factor)
	n := step{op: stepMulPlain, a: w, level: s.level, scale: s.scale * scale, mag: s.mag, depth: s.depth + 1,
		plain: &plain{fmt.Sprintf("mask %d %+g", pos, value), []float64{value}, pos, scale}}
	enc := deviation{own: spread{sd: p.ch.noise.Encode(scale)}, fixed: p.ch.rounding}
	n.dev = s.dev.plus(enc.times(s.mag + s.dev.limit()))
	w = p.add(n)
	w = p.scaleBy(w, 1, target, math.Abs(factor), 0)
	return p.drop(p.rescaleTo(w, last), 0), p.err == nil
}

// Spots are the slots of a result for a pack: Slot, and as many as Places, evenly spread over
// the ring, where the windows of so many devices share a ciphertext. Places 0 means 1.
type Spots struct{ Slot, Places int }

// Spots returns where the values of a packed circuit stand.
func (c *Circuit) Spots() Spots { return Spots{c.out.Slot, c.places} }

// moved returns s after rotations by one slot.
func (s Spots) moved(by, ringSlots int) Spots {
	return Spots{((s.Slot-by)%ringSlots + ringSlots) % ringSlots, s.Places}
}

// meet reports whether two results have a slot in common. Spans are powers of two.
func (s Spots) meet(t Spots, ringSlots int) bool {
	return (s.Slot-t.Slot)%(ringSlots/max(s.Places, t.Places, 1)) == 0
}

// Pack adds results of packed circuits under one key into one ciphertext, whose memory is
// the caller's. spots are those of their circuits. at are the slots of the values in the
// pack, as Output.At takes them. It fails with ErrParams for results that are not for one
// pack, or with henc.ErrNoKey.
func Pack(ev *henc.Evaluator, results []*henc.Ciphertext, spots []Spots) (ct *henc.Ciphertext, at []int, err error) {
	params := ev.Context().Parameters()
	if len(results) == 0 || len(results) != len(spots) {
		return nil, nil, fmt.Errorf("%w: a pack of %d results with %d slots", ErrParams, len(results), len(spots))
	}
	for i, r := range results {
		if r.Level != 0 || !near(r.Scale, PackScale(params)) || spots[i].Slot < 0 || spots[i].Slot >= params.Slots() {
			return nil, nil, fmt.Errorf("%w: result %d at level %d, scale %g and slot %d is not for a pack", ErrParams,
				i, r.Level, r.Scale, spots[i].Slot)
		}
	}
	if len(results) > groupRotation && len(results) <= MaxPack {
		if at := groupPlaces(spots, params.Slots()); at != nil {
			ct, err := packGroups(ev, results)
			if !errors.Is(err, henc.ErrNoKey) {
				return ct, at, err
			}
		}
	}
	free := func(ct *henc.Ciphertext) {
		if ct != nil && ct != results[0] {
			ev.Context().Ring().Free(ct.Value)
		}
	}
	var places Places
	for i, r := range results {
		rotate, ok := places.Add(spots[i], params.Slots())
		if !ok {
			free(ct)
			return nil, nil, fmt.Errorf("%w: %d results do not fit a pack", ErrParams, len(results))
		}
		if i == 0 {
			ct = r
			continue
		}
		for range rotate {
			next, err := ev.Rotate(ct, PackRotation)
			free(ct)
			if err != nil {
				return nil, nil, fmt.Errorf("pack: %w", err)
			}
			ct = next
		}
		next, err := ev.Add(ct, r)
		free(ct)
		if err != nil {
			return nil, nil, fmt.Errorf("pack: %w", err)
		}
		ct = next
	}
	if ct == results[0] {
		if ct, err = ev.DropLevel(ct, 0); err != nil {
			return nil, nil, fmt.Errorf("pack: %w", err)
		}
	}
	return ct, places.Slots(), nil
}

// groupRotation is the rotation that filling a pack in groups needs a key for, and the number
// of results in a group. Groups are filled side by side, so that a pack of 256 takes 15 calls
// that rotate 16 ciphertexts and 15 that rotate one, where one result after another takes
// 255 calls. The rotations of all ciphertexts are as many.
const groupRotation = 16

// groupPlaces returns the slots of values that packGroups puts together, or nil where two of
// them would meet. The last group is filled up at its front.
func groupPlaces(spots []Spots, ringSlots int) []int {
	at := make([]int, len(spots))
	var placed []Spots
	groups := (len(spots) + groupRotation - 1) / groupRotation
	for i, s := range spots {
		after := groups*groupRotation - 1 - i // rotations by one slot, as it were
		if i >= (groups-1)*groupRotation {
			after = len(spots) - 1 - i
		}
		s = s.moved(after, ringSlots)
		if slices.ContainsFunc(placed, func(t Spots) bool { return s.meet(t, ringSlots) }) {
			return nil
		}
		at[i], placed = s.Slot, append(placed, s)
	}
	return at
}

// packGroups is Pack in groups, for more results than a group holds.
func packGroups(ev *henc.Evaluator, results []*henc.Ciphertext) (*henc.Ciphertext, error) {
	groups := (len(results) + groupRotation - 1) / groupRotation
	ring := ev.Context().Ring()
	zero, err := ev.Sub(results[0], results[0])
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	defer ring.Free(zero.Value)
	var padded []*henc.Ciphertext
	for _, r := range slices.Insert(slices.Clone(results), (groups-1)*groupRotation,
		slices.Repeat([]*henc.Ciphertext{zero}, groups*groupRotation-len(results))...) {
		padded = append(padded, &henc.Ciphertext{Value: r.Value, Level: 0, Scale: zero.Scale}) // near each other
	}
	be, err := henc.NewBatchEvaluator(slices.Repeat([]*henc.Evaluator{ev}, groups))
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	var sum *henc.Ciphertexts
	defer func() { be.Free(sum) }()
	column := make([]*henc.Ciphertext, groups)
	for j := range groupRotation {
		for g := range column {
			column[g] = padded[g*groupRotation+j]
		}
		next, err := be.Of(column, 0)
		if err == nil && sum != nil {
			next, err = rotateAdd(be, sum, next)
		}
		if err != nil {
			return nil, fmt.Errorf("pack: %w", err)
		}
		be.Free(sum)
		sum = next
	}
	ct := sum.At(0)
	for g := 1; g < groups; g++ {
		rotated, err := ev.Rotate(ct, groupRotation)
		if g > 1 {
			ring.Free(ct.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("pack: %w", err)
		}
		ct, err = ev.Add(rotated, sum.At(g))
		ring.Free(rotated.Value)
		if err != nil {
			return nil, fmt.Errorf("pack: %w", err)
		}
	}
	return ct, nil
}

// rotateAdd returns a, rotated by PackRotation, plus b.
func rotateAdd(be *henc.BatchEvaluator, a, b *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	rotated, err := be.Rotate(a, PackRotation)
	if err != nil {
		return nil, err
	}
	defer be.Free(rotated)
	return be.Add(rotated, b)
}

// Places assigns the slots of a pack, in the order in which results come. The zero value is
// an empty pack.
type Places struct {
	spots     []Spots // of the results, before any further rotation
	rotations int
}

// Add gives a place to the result of a packed circuit. It returns the rotations of what is
// there before the result is added. ok is false if the pack is full: that result begins
// another one.
func (p *Places) Add(s Spots, ringSlots int) (rotate int, ok bool) {
	if len(p.spots) >= MaxPack {
		return 0, false
	}
	taken := func(t Spots) bool { return s.meet(t.moved(rotate*PackRotation, ringSlots), ringSlots) }
	for slices.ContainsFunc(p.spots, taken) {
		if rotate++; p.rotations+rotate >= MaxPack {
			return 0, false
		}
	}
	for i := range p.spots {
		p.spots[i] = p.spots[i].moved(rotate*PackRotation, ringSlots)
	}
	p.spots = append(p.spots, s)
	p.rotations += rotate
	return rotate, true
}

// Slots returns the slots of the results, in the order in which they came.
func (p *Places) Slots() []int {
	slots := make([]int, len(p.spots))
	for i, s := range p.spots {
		slots[i] = s.Slot
	}
	return slots
}
