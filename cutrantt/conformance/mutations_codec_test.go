package conformance

// The arithmetic of henc between residues and numbers or bytes: each package has its
// vector code and its tests.
var (
	crtTests   = mutationRun{pkg: "./henc/internal/crt", pattern: "."}
	embedTests = mutationRun{pkg: "./henc/internal/embed", pattern: "."}
	wireTests  = mutationRun{pkg: "./henc/internal/wire", pattern: "."}

	emulatedCRT  = mutationRun{pkg: "./henc/internal/crt", pattern: ".", arm64: true} // NEON, generated again
	emulatedWire = mutationRun{pkg: "./henc/internal/wire", pattern: "Pack|Refuses", arm64: true}
)

var codecMutations = []mutation{
	{what: "mixed radix, constant of the digits below", file: "../henc/internal/crt/vector.go", in: "newVectorTable",
		old: "c = (uint64(q) - c) * t.place[j][i]", new: "c = c * t.place[j][i]", run: crtTests},
	{what: "mixed radix, half of the product", file: "../henc/internal/crt/vector.go", in: "newVectorTable",
		old: "new(big.Int).Rsh(whole, 1)", new: "new(big.Int).Rsh(whole, 2)", run: crtTests},
	{what: "mixed radix, exponent of a part", file: "../henc/internal/crt/vector.go", in: "newVectorTable",
		old: "{112, 82, 52}", new: "{112, 82, 51}", run: crtTests},
	{what: "mixed radix, place of a digit in a check", file: "../henc/internal/crt/vector.go", in: "newVectorTable",
		old: "c[checkPlaces+j] = p << 32", new: "c[checkPlaces+j] = p << 31", run: crtTests},
	{what: "mixed radix, check skipped", file: "../henc/internal/crt/vector.go", in: "vectorBlock",
		old: "for i := range t.vec.check", new: "for i := range t.vec.check[1:]", run: crtTests},
	{what: "mixed radix, inverse modulo 2^32 one step short", file: "../henc/internal/crt/vector.go",
		in: "negInverse32", old: "for range 4", new: "for range 3", run: crtTests},
	{what: "mixed radix, rounding without the sticky bit", file: "../henc/internal/crt/crt.go", in: "round",
		old: "sticky := -v[0] >> 63", new: "sticky := -v[0] >> 63 & 0", run: crtTests},
	{what: "mixed radix, borrow lost", file: "../henc/internal/crt/crt.go", in: "less",
		old: "d := a[i] - v[i] + negative", new: "d := a[i] - v[i]", run: crtTests},
	{what: "mixed radix, wrong integers not found again", file: "../henc/internal/crt/crt.go", in: "genericBlock",
		old: "wrong[c] |= differs", new: "wrong[c] = differs", run: crtTests},

	{what: "embedding, twiddle of the next power", file: "../henc/internal/embed/embed.go", in: "init",
		old: "power = power * 5", new: "power = power * 3", run: embedTests},
	{what: "embedding, reversal of the middle bits", file: "../henc/internal/embed/embed.go", in: "init",
		old: "uint32(reverse(m, len(e.reversed)))", new: "uint32(m)", run: embedTests},
	{what: "embedding, odd level left out", file: "../henc/internal/embed/vector.go", in: "fromSlots", old: "%2 == 1",
		new: "%2 == 2", run: embedTests},
	{what: "embedding, last level up", file: "../henc/internal/embed/vector.go", in: "toSlots", old: "if h < e.n",
		new: "if 2*h < e.n", run: embedTests},
	{what: "embedding, factor of the inverse", file: "../henc/internal/embed/vector.go", in: "fromSlots",
		old: "1/float64(e.n))", new: "1)", run: embedTests},

	{what: "packing, bits before a half", file: "../henc/internal/wire/vector.go", in: "newLayout",
		old: "i, s := -1, w-start", new: "i, s := -1, w", run: wireTests},
	{what: "packing, shift of the third pair", file: "../henc/internal/wire/vector.go", in: "newLayout",
		old: "shift = j*w - s", new: "shift = w - s", run: wireTests},
	{what: "packing, second word of a pair", file: "../henc/internal/wire/vector.go", in: "newLayout",
		old: "uint64(64-s)", new: "uint64(63-s)", run: wireTests},
	{what: "packing, groups beyond the buffer", file: "../henc/internal/wire/vector.go", in: "groups",
		old: "(size-touched)/w + 1", new: "size/w + 1", run: wireTests},
	{what: "packing, bits of a pair that give its quotient", file: "../henc/internal/wire/vector.go", in: "newLayout",
		old: "uint64(w-quotientBits), 32", new: "uint64(w-quotientBits-1), 32", run: wireTests},
	{what: "packing, Barrett constant", file: "../henc/internal/wire/vector.go", in: "barrett",
		old: "1 << (pairBits(q) + 1) / uint64(q)", new: "1<<(pairBits(q)+1)/uint64(q) - 9", run: wireTests},
	{what: "packing, a pair of q^2 accepted", file: "../henc/internal/wire/pack.go", in: "unpack",
		old: "if v >= limit", new: "if v > limit", run: wireTests},
	{what: "packing, quotient not corrected", file: "../henc/internal/wire/pack.go", in: "unpack",
		old: "r, h = r-q64, h+1", new: "r = r - q64", run: wireTests},
	{what: "NEON packing, byte in which a string ends", file: "../henc/internal/wire/vector.go", in: "newStrings",
		old: "uint64(2*w*i/8-2*w*(i-1)/8)", new: "uint64(2*w/8)", run: emulatedWire},
	{what: "NEON packing, upper word of a string", file: "../henc/internal/wire/vector.go", in: "newStrings",
		old: "s + w - 64}", new: "s + w - 63}", run: emulatedWire},
	{what: "NEON packing, bits of a pair that give its quotient", file: "../henc/internal/wire/vector.go",
		in: "newStrings", old: "uint64(quotientBits-w)", new: "uint64(quotientBits-w-1)", run: emulatedWire},
	{what: "NEON packing, bits before a string", file: "cpu/_asm/arm64/wire.go", in: "pack", old: "last[2*h+1]",
		new: "last[1]", run: emulatedWire},
	{what: "NEON packing, place of the last string", file: "cpu/_asm/arm64/wire.go", in: "places",
		old: "\"ADD %v<<1, %v, %v\"", new: "\"ADD %v<<2, %v, %v\"", run: emulatedWire},
	{what: "NEON unpacking, quotient not corrected", file: "cpu/_asm/arm64/wire.go", in: "unpack",
		old: "f.op(sub, quotient, quotient, low)", new: "", run: emulatedWire},
	{what: "NEON unpacking, quotients of any size", file: "cpu/_asm/arm64/wire.go", in: "unpack",
		old: "f.op(maximum, most, most, quotient)", new: "", run: emulatedWire},
	{what: "NEON unpacking, pairs of two words not joined", file: "cpu/_asm/arm64/wire.go", in: "unpack",
		old: "f.op(or, a, a, u)", new: "", run: emulatedWire},

	{what: "NEON mixed radix, carry of a part", file: "cpu/_asm/arm64/crt.go", in: "short",
		old: "f.opBy(addRight, next[1], sum[1], 30)", new: "f.opBy(addRight, next[1], sum[1], 31)", run: emulatedCRT},
	{what: "NEON mixed radix, borrow lost", file: "cpu/_asm/arm64/crt.go", in: "short", old: "if i > 0",
		new: "if i > 1", run: emulatedCRT},
	{what: "NEON mixed radix, last reduction of a digit", file: "cpu/_asm/arm64/crt.go", in: "reduceWide",
		old: "f.op(minimum, d, d, s[0])", new: "", run: emulatedCRT},
	{what: "NEON mixed radix, rounding without the sticky bit", file: "cpu/_asm/arm64/crt.go", in: "short",
		old: "f.op(or, sticky, sticky, v[1])", new: "f.op(or, sticky, v[1], v[1])", run: emulatedCRT},
	{what: "NEON mixed radix, sign of a float64", file: "cpu/_asm/arm64/crt.go", in: "short",
		old: "f.opBy(aboveLeft, large, negative, 31)", new: "", run: emulatedCRT},
	{what: "NEON mixed radix, exponent of large integers", file: "cpu/_asm/arm64/crt.go", in: "short",
		old: "f.spread(t, 8*shortExp30+4)", new: "f.spread(t, 8*shortExp30)", run: emulatedCRT},
	{what: "NEON mixed radix, differences of the last residues only", file: "cpu/_asm/arm64/crt.go", in: "check",
		old: "f.op(or, differs, differs, y)", new: "f.move(differs, y)", run: emulatedCRT},
	{what: "NEON mixed radix, sign not checked", file: "cpu/_asm/arm64/crt.go", in: "check",
		old: "for i, v := range d", new: "for i, v := range d[:4]", run: emulatedCRT},
}
