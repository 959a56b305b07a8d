package cudatest

// A mutation is one deliberate fault in a file of kernels; old occurs there exactly
// once. run is the tests of cutrantt/conformance that have to fail.
type mutation struct{ what, file, old, new, run string }

const (
	transforms   = "Transform|Blocks"
	conversions  = "Convert"
	elements     = "Elementwise"
	products     = "Mul|Product"
	bases        = "Extend|DivRound"
	divisions    = "DivRounds|SwitchKeys"
	switches     = "SwitchKeys|MulTensor"
	oneKeys      = "OneKey"
	samples      = "Sample|Set"
	encryptions  = "Encrypting"
	automorphism = "Automorphism"
)

var mutations = []mutation{
	// Arithmetic.
	{"correction without minimum", "arith.cuh", "return min(x, x - m);", "return x - m;", elements},
	{"fold by less", "arith.cuh", "return __viaddmin_u32(x, nm, x);", "return __viaddmin_u32(x, nm + 1, x);", transforms},
	{"difference without lift", "arith.cuh", "return min(d, d + q);", "return d;", elements},
	{"negated zero", "arith.cuh", "return corr(q - x, q);", "return q - x;", elements},
	{"quotient of the negative factor", "arith.cuh", "make_uint2(q - w.x, ~w.y)", "make_uint2(q - w.x, 0 - w.y)", products},
	{"reduction of the low half", "arith.cuh", "return corr(corr(reduced(x, m), 2 * m.q), m.q);", "return corr(reduced(x, m), m.q);", products},
	{"reduction without the low quotient", "arith.cuh", "const u32 k = __umulhi(hi, m.r32s) + __umulhi(lo, m.ones);", "const u32 k = __umulhi(hi, m.r32s);", products},
	{"power", "arith.cuh", "if (e & 1) r = mulmod(r, x, m);", "if (e & 2) r = mulmod(r, x, m);", transforms},
	{"place in the limb", "arith.cuh", "i = (blockIdx.x & ((1u << parts) - 1)) << logPer;", "i = (blockIdx.x & ((1u << parts) - 1)) << logPer & ~1023u;", "Convert|Automorphism"},
	{"no wait for the kernel before", "arith.cuh", "  announce();\n  settle();", "  announce();", elements},
	{"no wait after the factors", "transform.cuh", "settle();", "", transforms},

	// Transforms.
	{"butterfly sign", "transform.cuh", "x[ib] = a - b + q2;                   // (0, 4q)", "x[ib] = b - a + q2;", transforms},
	{"butterfly without correction", "transform.cuh", "const u32 a = fold(x[ia], nq2);        // [0, 2q)", "const u32 a = x[ia];", transforms},
	{"inverse butterfly without correction", "transform.cuh", "x[ia] = fold(a + b, nq2);            // from [0, 4q)", "x[ia] = a + b;", transforms},
	{"inverse butterfly sign", "transform.cuh", "x[ib] = shoup(b - a + q2, w, q);    // from (0, 4q)", "x[ib] = shoup(a - b + q2, w, q);", transforms},
	{"inverse without 1/n1", "transform.cuh", "x[ia] = shoup(a + b, last[0], q);", "x[ia] = fold(a + b, nq2);", transforms},
	{"twiddle of the level", "transform.cuh", "const uint2 w = tw[((1 << l) - 1 + g) * stride];", "const uint2 w = tw[((1 << l) - 1) * stride];", transforms},
	{"twiddle of the mirrored group", "transform.cuh", "((1 << l) - 1 + ((1 << l) - 1 - g)) * stride", "((1 << l) - 1 + g) * stride", transforms},
	{"padding of two in one place", "transform.cuh", "else return i + (i >> EB);", "else return i + (i >> EB & 1);", transforms},
	{"residues of two rows in one place", "transform.cuh", "if constexpr (swaps) return i ^ swap(i);", "if constexpr (swaps) return (i & ~4u) ^ swap(i);", transforms},
	{"place of the next residue", "transform.cuh", "return (at ^ (place(j) & 31)) + (j & ~31u);", "return (at ^ (j & 31)) + (j & ~31u);", transforms},
	{"factors used before they are there", "transform.cuh", "    __syncthreads();\n  }\n}", "  }\n}", transforms},
	{"fewer factors copied than passes read", "transform.cuh", "to[i + threadIdx.x] = __ldg(at.tw + i + threadIdx.x);", "if (i + threadIdx.x < P::near - 1) to[i + threadIdx.x] = __ldg(at.tw + i + threadIdx.x);", transforms},
	{"factors held for the next thread", "transform.cuh", "held.load(at.tw + (1 << (D + R)) + threadIdx.x);", "held.load(at.tw + (1 << (D + R)) + (threadIdx.x ^ 1));", transforms},
	{"factors held for the inverse out of order", "transform.cuh", "held.load(at.tw + (2 << (2 * EB)) - 1 - t);", "held.load(at.tw + (1 << (2 * EB)) + t);", transforms},
	{"rows of the next lane", "transform.cuh", "const u32 first = warp + 4 * (t & 31), from = P::place(first);", "const u32 first = warp + 4 * (t & 31), from = P::place(warp + 4 * (t & 30));", transforms},
	{"barrier of a warp instead of the block", "transform.cuh", "if (LOG - D <= 5 + EB) __syncwarp();", "if (LOG - D <= 6 + EB) __syncwarp();", transforms},
	{"no barrier of the warp", "transform.cuh", "if (LOG - D <= 5 + EB) __syncwarp();", "if (LOG - D <= 5 + EB) ;", transforms},
	{"no barrier between inverse passes", "transform.cuh", "u32 x[Z::J][1 << R];\n  between<LOG, EB, D, R>();", "u32 x[Z::J][1 << R];", transforms},
	{"last correction", "transform.cuh", "x[j][k] = fold(fold(x[j][k], m.nq2), m.nq);", "x[j][k] = fold(x[j][k], m.nq2);", transforms},
	{"last correction of the inverse", "transform.cuh", "SUB ? x[j][k] : fold(x[j][k], m.nq)", "x[j][k]", transforms},
	{"part of a long column", "transform.cuh", "groups + (SUB ? sub << D : 0) + z.h,", "groups + z.h,", transforms},
	{"head of a long column", "forward.cu", "((set >> (logn1 - R)) << logn1) + (set & (step - 1))", "((set >> (logn1 - R)) << logn1) + (set & (step / 2 - 1))", transforms},
	{"inverse head without correction", "inverse.cu", "= fold(x[k], minus(q));", "= x[k];", transforms},
	{"table order", "tables.cu", "__brev(k) >> (32 - p.logN)", "__brev(k) >> (31 - p.logN)", transforms},
	{"table of passes", "tables.cu", "t[(((1u << d) + h) << l) + g]", "t[(((1u << d) + h) << l) + h]", transforms},
	{"table entries beyond its end", "tables.cu", "if (at >= n1) return;", "if (at >= n1 + 256) return;", transforms},

	// Layouts, element by element, automorphisms.
	{"finish sign", "convert.cu", "x[ib] = sub(u, v, q);", "x[ib] = sub(v, u, q);", conversions},
	{"undo without halving", "convert.cu", "x[ib] = (v + (q & (0 - (v & 1)))) >> 1;", "x[ib] = v >> 1;", conversions},
	{"layout", "convert.cu", "((k & ((1u << p.logColumns) - 1)) << (p.logN - p.logColumns)) + (k >> p.logColumns)", "((k & ((1u << p.logColumns) - 1)) << (p.logN - p.logColumns)) + (k >> p.logColumns & ~1u)", "Convert"},
	{"constant of every coefficient", "elementwise.cu", "p.transformed ? 1u << (p.logN - p.logN2) : 1;", "1u << (p.logN - p.logN2);", elements},
	{"subtraction turned", "elementwise.cu", "return sub(x, y, q); }); }", "return sub(y, x, q); }); }", elements},
	{"automorphism sign", "automorphism.cu", "e >= n ? neg(x, q) : x;", "x;", automorphism},
	{"automorphism of blocks", "automorphism.cu", "s >= n1 ? neg(y, q) : y;", "y;", automorphism},
	{"two residues to one place", "automorphism.cu", "(to >> p.logN2)]", "(to >> p.logN2 & ~1u)]", automorphism},

	// Products.
	{"root of odd blocks", "hadamard.cuh", "return b & 1 ? negc(w, q) : w;", "return w;", products},
	{"misaligned rows", "hadamard.cuh", "const uint2 v = *(const uint2*)(from + j * n1);", "const uint2 v = *(const uint2*)(from + 1 + j * n1);", products},
	{"lazy without the root", "hadamard.cuh", "if (t > 0) b[t] = mulc(b[t], w, m.q);", "if (t > 1) b[t] = mulc(b[t], w, m.q);", products},
	{"karatsuba middle term", "hadamard.cuh", "z[2 * t + 1] = add(z[2 * t + 1], reduce(S - P - Q, m), m.q);", "z[2 * t + 1] = add(z[2 * t + 1], reduce(S - P, m), m.q);", products},
	{"toom lift", "hadamard.cuh", "d1 = reduce(v[1] + lift - v[2], m)", "d1 = reduce(v[1] - v[2], m)", products},
	{"toom point 1/2", "hadamard.cuh", "y = corr(corr(2 * y + x2, 2 * q), q);", "y = corr(2 * y + x2, q);", products},
	{"schoolbook wrap", "hadamard.cuh", "if (i <= t) lo = add(lo, v, m.q);", "if (i < t) lo = add(lo, v, m.q);", products},
	{"one block too many", "hadamard.cu", "for (u32 i = 0; i < p.terms; i++) {\n    u32 x[V][N];", "for (u32 i = 0; i <= p.terms; i++) {\n    u32 x[V][N];", products},
	{"operand of the first limb", "hadamard.cu", "(u64)(p.at ? p.at[h.limb] : h.limb)", "(u64)h.limb", products},

	// Changes of basis, key switching.
	{"rounding", "basis.cu", "u64 v = 1ull << 55;", "u64 v = 0;", bases},
	{"lazy run too long", "basis.cu", "i + 11 < p.sources; i += 11", "i + 17 < p.sources; i += 17", bases},
	{"copied limb", "basis.cu", "((u64)copy << p.logN) + c]", "((u64)0 << p.logN) + c]", bases},
	{"byte of the sum", "extend.cu", "hi = s2 + (s3 << 8);", "hi = s3 + (s2 << 8);", bases},
	{"column of the tile", "extend.cu", "const u32 c = base + 4 * (g >> 1) + 16 * (g & 1);", "const u32 c = base + 4 * (g & 3) + 16 * (g >> 2);", bases},
	{"registers of b", "extend.cu", "if (k == 0) mma<false>(d[m][j], f, y[k][0][j], y[k][1][j]);", "if (k == 0) mma<false>(d[m][j], f, y[k][1][j], y[k][0][j]);", bases},
	{"rounding of v", "extend.cu", "v[j] = (v[j] + (1ull << 55)) >> 56;", "v[j] = v[j] >> 56;", bases},
	{"sum over two lanes", "extend.cu", "v[j] += __shfl_xor_sync(~0u, v[j], 2);", "", bases},
	{"no wait for the constants", "extend.cu", "  copied();\n  const auto sums", "  const auto sums", bases},
	{"group out of its turn", "extend.cu", "sums(d0, min(o + 2, count - 1));", "sums(d0, o + 2);", "Extend|DivRound|SwitchKeys"},
	{"part of a warp goes on", "extend.cu", "if (count & 1) finish(d0, count - 1);", "if (threadIdx.x & 1) return;\n    __syncwarp();", "Extend|DivRound|SwitchKeys"},
	{"third correction", "extend.cu", "  x = min(x, x + twice);\n", "", bases},
	{"quotient before the difference", "down.cu", "mulc(o.x - v + q, inverse, q)", "mulc(o.x - v, inverse, q)", divisions},
	{"no barrier before the image", "down.cu", "  if (d.galois <= 1) return; // the same for the whole block\n  __syncthreads();", "  if (d.galois <= 1) return; // the same for the whole block\n  __syncwarp();", divisions},
	{"root of the image", "down.cu", "s &= 2 * n1 - 1;", "s &= n1 - 1;", divisions},
	{"sum not added", "down.cu", "low = add.at && k < numbers.lows ?", "low = add.at && k < 1 ?", divisions},
	{"blocks of a division at a time", "down.cu", "first + rest % count;", "first + rest / gridDim.y;", divisions},
	{"digits without rounding", "digits.cuh", "v = 1ull << 55;", "v = 0;", divisions},
	{"quotient of the sum", "digits.cuh", "(quotients >> 32)", "(quotients >> 33)", divisions},
	{"factors of the last level", "inverse.cu", "+ 2 * at.limb : at.tw", "+ at.limb : at.tw", divisions},
	{"middle of the tensor", "keyswitch.cu", "z[1][v] = add(z[1][v], z[1][v], k.q);", "", switches},
	{"unfolded sum", "keyswitch.cu", "if (N == 16) { s0 = folded(s0, k); s1 = folded(s1, k); }", "if (N == 16) s0 = folded(s0, k);", switches},
	{"digit of the extension", "keyswitch.cu", "((i32)l < 0 ? x.at : e.at)", "((i32)l <= 0 ? x.at : e.at)", switches},
	{"late fold", "keyswitch.cu", "== 16 / N - 1 && i + 1 < p.digits)", "== 16 / N && i + 1 < p.digits)", switches},

	{"round before it is there", "onekey.cu", "    copied();\n    if (merged && item < p.items) {", "    __syncthreads();\n    if (merged && item < p.items) {", oneKeys},
	{"factor of what does not wrap", "onekey.cu", "member > result ? mulc", "member >= result ? mulc", oneKeys},
	{"bytes of the key", "onekey.cu", "return k < 3 ? reversed >> 8 * (3 - k)", "return k < 4 ? reversed >> 8 * (3 - k) % 24", oneKeys},
	{"column of the key", "onekey.cu", "((result - member) & 3) * n1 + first", "((result + member) & 3) * n1 + first", oneKeys},
	{"items beyond the last", "onekey.cu", "if (item >= p.items) break;", "", oneKeys},
	{"carry of the low half", "onekey.cu", " + (low >> 16);", ";", oneKeys},
	{"results while they are read", "onekey.cu", "else __syncthreads();", "else __syncwarp();", oneKeys},
	{"digits that are not there", "onekey.cu", "*(uint4*)(shared + h * Tiles::digits + digits * Tiles::digit + 4 * i) = make_uint4(0, 0, 0, 0);", ";", oneKeys},
	{"sum of the first only", "onekey.cu", "if (merged && sum < p.lows) {", "if (merged && sum < 1) {", oneKeys},

	// Samplers and encryption.
	{"rotation", "sample.cuh", "b = rotate<7>(b ^ c);", "b = rotate<8>(b ^ c);", samples},
	{"rejection", "sample.cuh", "accepted = (u32)m >= below;", "accepted = (u32)m > below + (1u << 20);", samples},
	{"ternary", "sample.cuh", "(u64)hi << 32 | lo, 3) - 1;", "(u64)hi << 32 | lo, 2) - 1;", samples},
	{"sign of a residue", "sample.cuh", "const u64 sign = (u64)(v >> 63);", "const u64 sign = (u64)(v >> 63) & 0;", samples},
	{"large floats", "sample.cuh", "const i32 shift = (i32)e - 1075;", "const i32 shift = (i32)e - 1074;", samples},
	{"redrawn though it has a value", "sample.cu", "z[j] = left >> j & 1 ? r : z[j];", "z[j] = r;", samples},
	{"limbs beyond the last", "sample.cu", "if (first + l < p.count) to[", "if (first + l <= p.count) to[", samples},
	{"part of the noise", "encrypt.cu", "blockIdx.x & (parts - 1)) * 128 + threadIdx.x;", "blockIdx.x & (parts - 1)) * 64 + threadIdx.x;", encryptions},
	{"kind of the polynomial", "encrypt.cu", "kind == 0 ? p.labelE0 : kind == 1 ? p.labelV : p.labelE1", "kind == 0 ? p.labelE0 : kind == 1 ? p.labelE1 : p.labelV", encryptions},
	{"negative small integer", "encrypt.cuh", "(u32)c + (at.q & (u32)(c >> 31))", "(u32)c", encryptions},
	{"addend of the next output", "encrypt.cuh", "odd = t > 0 ? e[(2 * t - 1) * n1] : 0;", "odd = e[(2 * t - 1) * n1];", encryptions},
	{"wiped too early", "encrypt.cuh", "const u64 used = (u64)transforms * p.last * gridDim.y << (p.logN - 2);", "const u64 used = 0;", encryptions},
	{"key of the first limb", "encrypt_public.cu", "const u32* key = p.key + ((u64)p.at[limb] << (LOG + 4)) + row;", "const u32* key = p.key + ((u64)limb << (LOG + 4)) + row;", encryptions},
	{"message of the neighbour", "encrypt.cu", "message((const double2*)job->message + 4 * block + j)", "message((const double2*)job->message + 4 * (block ^ 1) + j)", encryptions},
	{"redrawn twice in the list", "encrypt_seeded.cu", "if (left) list[~attempt & 1]", "if (left) list[attempt & 1]", encryptions},
	{"count not set back", "encrypt_seeded.cu", "if (t == 0) count[next == 2 ? 0 : next + 1] = 0;", "", encryptions},
	{"block of the stream of another thread", "encrypt_seeded.cu", "chacha(w, key, of[at], label, id, attempt);", "chacha(w, key, of[t], label, id, attempt);", encryptions},
	{"wait after the first load", "encrypt_seeded.cu", "    settle();\n    if (p.last) wipe(p, 1);", "    if (p.last) wipe(p, 1);\n    settle();", encryptions},
	{"tile of the neighbour", "encrypt_seeded.cu", "tile[place(j * h.rows + i)]", "tile[place(j * h.rows) + i]", encryptions},
}
