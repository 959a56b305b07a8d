package cuda

import "strconv"

// This file is the table of launch configurations, each with what was measured on an
// H200 (docs/lab/gpu.md) or the word that nothing was.

// plan is how columns of 2^log residues are transformed by one kernel: a block
// holds 2^block residues, a thread 2^each. It mirrors kernels/forward.cu and
// inverse.cu; first is the number of levels of the first pass.
type plan struct {
	log, block, each, first int
}

// plans are the single kernels by log2 of the column, for every GPU. Those of 12
// to 15 are the fastest of the shapes measured on an H200 with 66 limbs of 2^16
// (docs/lab/gpu.md): 4096 residues in 256 threads take 13.7 us forward and 13.3
// inverse, 8192 in 256 16.8 and 18.0, 16384 in 512 19.1 and 18.9, 32768 in 1024 23.7
// and 23.4. Other shapes were compared before residues had their present order.
var plans = map[int]plan{
	6: {6, 10, 3, 3}, 7: {7, 10, 4, 4}, 8: {8, 10, 4, 4}, 9: {9, 10, 3, 3}, 10: {10, 10, 4, 4},
	11: {11, 11, 4, 4}, 12: {12, 12, 4, 4}, 13: {13, 13, 5, 5}, 14: {14, 14, 5, 5}, 15: {15, 15, 5, 5},
}

// tailLog is the size of the parts that long columns are cut into.
const tailLog = 12

// Columns of 2^leastUp to 2^mostUp residues have kernels that change from a basis of
// up to mostUpLimbs limbs as they load (kernels/digits.cuh): extensions of digits and
// ends of divisions. On an H200, products of ciphertexts under one key in us, without
// and with them: 2^14, 12 + 3 primes, n2 = 4: one 43.6 and 40.9, 16 together 217 and
// 180, 64 757 and 639; 2^13, 6 + 1 primes: one 30 and 22, 64 312 and 196.
const (
	leastUp     = 11
	mostUp      = 12
	mostUpLimbs = 3
)

// divideBlocks is how many blocks of each limb a division does at a time: its sources
// are read once for every limb. All of them: 655 us for 64 products at 2^14; 64, 128
// and 256: 640, 639 and 641.
const divideBlocks = 128

// mostGraphLog is log2 of the largest degree whose encryptions of one message are
// one CUDA graph; 64 messages together take 1 us more of 65 as one.
// On an H200, times of single calls that the host waits for: seeded 18.3 to 14.7 us
// at 2^13 and 19.2 to 15.9 at 2^14, public key 18.5 to 17.0 and 20.2 to 20.5 (its
// 95th percentile 24.0 to 22.3, on the device 14.7 to 14.0); at 2^16 1 to 2 us
// more. Products of ciphertexts gained nothing (docs/lab/gpu.md).
const mostGraphLog = 14

// mostEncryptLog is log2 of the longest columns that are encrypted in few kernels. Agents have
// 16 columns of at most 2^13; a kernel for columns of 2^15 was 153 kB of the images for rings that
// nobody encrypts in.
const mostEncryptLog = 14

// neighbours is how many neighbouring blocks of n2 residues a thread of
// kernels/hadamard.cu, keyswitch.cu and encrypt_public.cu has; 128 threads are a block.
// Products of 66 limbs of 2^16 with n2 = 1 took 24.0 us with one residue a thread and
// 13.4 with four; the other n2 have what registers allow.
func neighbours(n2 int) int {
	switch n2 {
	case 1, 2:
		return 4
	case 4:
		return 2
	}
	return 1
}

// From leastOneKey items under one key on, and with up to oneKeyDigits digits, the sums
// of digits times key with n2 = 4 come from the tensor cores (kernels/onekey.cu), whose
// blocks have oneKeyThreads threads for oneKeyRows rows of a limb, and oneKeyShared
// bytes of shared memory for up to mostOneKey items a launch. On an H200, products at 2^14
// with 12 + 3 primes in us, without and with it: 16 together 170 and 175, 24 241 and 250,
// 32 312 and 307, 64 600 and 572.
const (
	leastOneKey   = 32
	oneKeyDigits  = 4
	oneKeyRows    = 32
	oneKeyThreads = 256
	mostOneKey    = 256
	oneKeyShared  = 4 * (2*4*64*32 + 16*(8*36+4) + 4*256 + 4*mostOneKey + 4*4*256)
)

// A block of seededThreads threads of kernels/encrypt_seeded.cu draws seededTile
// residues. Seeded encryption of 66 limbs of 2^16 took 127 us with 128 threads a block
// and 133 with 256, when residues were still drawn by masks.
const (
	seededTile    = 2048
	seededThreads = 128
)

// A thread of kernels/basis.cu and extend.cu computes basisGroup limbs: one took 111.6
// us for 22 to 88 limbs of 2^16, eight 69.0. One of kernels/sample.cu writes limbGroup
// limbs, which was not compared with others.
const (
	basisGroup = 8
	limbGroup  = 8
)

// A block of kernels/extend.cu may fill mostGroups bytes of shared memory with groups
// of outputs; at least one fits. fillBlocks is how many blocks of 256 threads occupy a
// large GPU, two for each multiprocessor: fewer deal their outputs to several blocks.
// Neither was compared with other values.
const (
	mostGroups = 40 << 10
	fillBlocks = 264
)

// transformBytes is how much memory the transforms of one launch of an encryption may
// take, windowBytes how much of the messages of a call goes to the device at a time: the
// host fills one staging buffer while the other is copied. Public-key encryption of 66
// limbs of 2^16 in groups of 33, 22, 17 and 11 limbs took 106, 103, 115 and 120 us, of all
// of them 101; 64 messages of 2^13 take the same with windows of 0.5 to 4 MiB.
// Slots go in windows of a staging buffer: 64 times 4096 values took the host 755 us in one, 917 in three.
const (
	transformBytes = 256 << 20
	windowBytes    = 1 << 20
)

// mostScratch bounds the intermediate results of one set of launches in bytes; more
// items take several. On small GPUs it is an eighth of the memory. 64 products at 2^14
// fit it; parts of 16 and 32 gained nothing.
const mostScratch = 4 << 30

func (p plan) name(direction string) string { return numbered(direction, p.log) }
func (p plan) threads() int                 { return 1 << (p.block - p.each) }

// shared is the shared memory of a block in bytes: its residues, and the factors of
// the first two passes where a block is one column in three passes of three levels or
// more; else one word of padding after every 2^each residues (Plan in
// kernels/transform.cuh).
func (p plan) shared() int {
	if last := p.log - 2*p.each; p.block == p.log && last >= 3 && last <= p.each {
		return 4<<p.block + 8<<(2*p.each)
	}
	return 4 * (1<<p.block + 1<<(p.block-p.each))
}

// numbered is the name of a kernel that exists for several sizes.
func numbered(name string, n int) string { return name + "_" + strconv.Itoa(n) }

// planFor is the plan for columns of 2^log residues on a device whose blocks
// may use limit bytes of shared memory. Where no single kernel fits, two do:
// split is then the number of levels of the first one, else 0.
func planFor(log, limit int) (p plan, split int) {
	if p, ok := plans[log]; ok && p.shared() <= limit {
		return p, 0
	}
	tail := plans[tailLog]
	return plan{log, tail.block, tail.each, log - tailLog}, log - tailLog
}
