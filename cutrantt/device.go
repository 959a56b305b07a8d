package cutrantt

import "time"

// What a Backend or a Ring may implement besides, found by type assertion. A
// backend that runs in the process itself needs none of it.

// Health is a Ring on a device that can fail.
type Health interface {
	// Err is nil while the device works, and later what it failed with, which
	// wraps ErrDevice.
	Err() error
}

// Broken is why r cannot work any more, or nil.
func Broken(r Ring) error {
	if h, ok := r.(Health); ok {
		return h.Err()
	}
	return nil
}

// Meter is a Ring that measures on its device.
type Meter interface {
	// Time runs f and returns how long the device took from the start of the
	// first kernel to the end of the last operation that f queued on this ring,
	// gaps included; what comes before the first kernel, such as a copy to the
	// device, does not count. It waits for all of it.
	Time(f func() error) (time.Duration, error)
	// TimeRun is Time for a run of operations so short that the device would wait for
	// the host between them. Where it can, the ring collects the kernels of lead and
	// queues them, and then those of run: the device goes from one to the next by itself,
	// and begins with run's, where the clock starts, when it is done with lead's. lead
	// should keep it busy while the host queues run's, so be of about the same length; the
	// same kernels with the same shapes cost the host least. parts is how many pieces
	// run's kernels were queued in: more than one where something parts them, such as a
	// copy, and then gaps count as they do for Time. It is 0 where the ring cannot collect
	// kernels, and the time then is that of Time(run).
	TimeRun(lead, run func() error) (d time.Duration, parts int, err error)
	// Launches counts the kernels that the ring has queued so far, those inside
	// of graphs included.
	Launches() uint64
}

// EncryptionMeter is a Ring that queues the kernels of an encryption again and again, for
// benchmarks: with the message and its seeds on the device before, a call does nothing
// but launch kernels, and Meter.TimeRun can collect many. Use it for nothing else:
// messages and secret seeds stay on the device from one call to the next, and every
// call of a job makes the same ciphertext.
type EncryptionMeter interface {
	// MeterPublic takes the jobs to the device, for encryptions as of EncryptPublic of one
	// job a call. Its conditions and errors are those of EncryptPublic.
	MeterPublic(key Operand, limbs []int, labels EncryptionLabels, jobs []Encryption) (MeteredEncryptions, error)
	// MeterSeeded is the same for EncryptSeeded.
	MeterSeeded(s *Batch, limbs []int, labels EncryptionLabels, jobs []Encryption) (MeteredEncryptions, error)
}

// MeteredEncryptions are encryptions whose messages and seeds stay on the device until
// they are released.
type MeteredEncryptions interface {
	// Queue queues the kernels that EncryptPublic or EncryptSeeded of job i alone queues.
	// The last one wipes what those before it made of the message and the seeds; the
	// message and the secret seed stay for the next call, and in their place it
	// overwrites other memory of the same size.
	Queue(i int) error
	// Results are the ciphertexts of the jobs, of arbitrary residues until Queue. They
	// outlive the release.
	Results() []*Batch
	// Release wipes the messages, the secret seeds, and what an encryption that failed
	// has left, and waits for that. Queue then is an error. What cannot be wiped is kept:
	// after an error it can be called again.
	Release() error
}

// Profiler is a Backend that tells what its kernels take.
type Profiler interface {
	// CacheBytes is the size of the cache that all multiprocessors share; inputs
	// that are to come from memory must exceed it.
	CacheBytes() int64
	// Kernels are the kernels that ran in this process, by name.
	Kernels() ([]Kernel, error)
}

// Kernel is a compiled kernel and its last launch.
type Kernel struct {
	Name         string
	Architecture int     // compute capability of the machine code, times 10
	Registers    int     // a thread
	LocalBytes   int     // a thread: spilled registers and arrays; 0 is wanted
	SharedBytes  int     // a block, static and dynamic
	Threads      int     // a block
	Blocks       int     // that one multiprocessor holds at once
	Occupancy    float64 // threads that a multiprocessor holds, of those that it could
	Launches     uint64  // in this process
}

// Tuner is a Backend that measures which Hadamard method is fastest.
type Tuner interface {
	// Choices are what MethodAuto stands for, as far as that is known by now.
	Choices() []Choice
}

// Choice is the method for one degree and n2.
type Choice struct {
	LogN, N2 int
	Method   Method
	Source   string // ChoiceDefault, ChoiceMeasured or ChoiceCached
}

// Where a choice comes from.
const (
	ChoiceDefault  = "default"  // a table
	ChoiceMeasured = "measured" // now, on this device
	ChoiceCached   = "cached"   // measured by an earlier process
)
