// Package meter holds what a device offers for measurement: its clock, what its kernels
// take, and encryptions that can be repeated without the host. Benchmarks find these by
// type assertion on a ring or backend of package cutrantt. The product uses none of it.
package meter

import (
	"time"

	"github.com/hencedge/hencedge/cutrantt"
)

// Meter is a cutrantt.Ring that measures on its device.
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

// EncryptionMeter is a cutrantt.Ring that queues the kernels of an encryption again and again, for
// benchmarks: with the message and its seeds on the device before, a call does nothing
// but launch kernels, and Meter.TimeRun can collect many. Use it for nothing else:
// messages and secret seeds stay on the device from one call to the next, and every
// call of a job makes the same ciphertext.
type EncryptionMeter interface {
	// MeterPublic takes the jobs to the device, for encryptions as of EncryptPublic of one
	// job a call. Its conditions and errors are those of EncryptPublic.
	MeterPublic(key cutrantt.Operand, limbs []int, labels cutrantt.EncryptionLabels,
		jobs []cutrantt.Encryption) (MeteredEncryptions, error)
	// MeterSeeded is the same for EncryptSeeded.
	MeterSeeded(s *cutrantt.Batch, limbs []int, labels cutrantt.EncryptionLabels,
		jobs []cutrantt.Encryption) (MeteredEncryptions, error)
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
	Results() []*cutrantt.Batch
	// Release wipes the messages, the secret seeds, and what an encryption that failed
	// has left, and waits for that. Queue then is an error. What cannot be wiped is kept:
	// after an error it can be called again.
	Release() error
}

// Profiler is a cutrantt.Backend that tells what its kernels take.
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
