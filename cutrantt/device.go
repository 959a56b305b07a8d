package cutrantt

// Optional interfaces of a Backend or a Ring, found by type assertion. Only Direct is for
// backends that run in the process itself.

// Direct is a Ring whose batches lie in the memory of the process.
type Direct interface {
	// Residues returns the N residues of limb limb of polynomial poly, to read and to write.
	// Whoever writes there leaves each below the modulus of the limb. It fails with ErrForeign
	// for a batch of another ring or one that was freed, and with ErrShape outside the batch.
	Residues(b *Batch, poly, limb int) ([]uint32, error)
}

// Health is a Ring on a device that can fail.
type Health interface {
	// Err returns nil while the device works. Once it has failed, Err returns the cause,
	// which wraps ErrDevice.
	Err() error
}

// Recorder is a Ring on a device that repeats many operations at the cost of one.
type Recorder interface {
	// Record calls f twice and records the operations of the second call. on has the batches and operands of this
	// ring, and the same moduli and method. Where the device records nothing, or f needs more than kernels in the
	// second call (transfers, new operands, batches of zeros), Record fails with an error that wraps ErrNotSupported.
	// Both calls of f have to do the same; what each of them makes is left to f to free.
	Record(f func(on Ring) error) (Recording, error)
}

// Recording is operations that were recorded. It holds all memory that they use beyond the batches.
type Recording interface {
	// Replay does the operations again, on the same batches and operands, with the residues that these have now. It is
	// one operation of the ring, which writes all batches that were written then. It fails with ErrForeign if one of
	// them or an operand was freed.
	Replay() error
}

// Broken is why r cannot work any more, or nil.
func Broken(r Ring) error {
	if h, ok := r.(Health); ok {
		return h.Err()
	}
	return nil
}

// Memory is a Backend on a device with memory of its own. Such a device runs batches of
// items in one set of launches.
type Memory interface {
	// Memory is the device's memory in bytes, used or not.
	Memory() uint64
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
