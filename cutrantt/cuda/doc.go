// Package cuda is the GPU backend of cutrantt. It drives libcuda.so.1, opened
// at run time, and needs neither cgo nor a CUDA toolkit; the kernels come
// compiled in package kernels. Builds with the tag nogpu, and platforms other
// than linux/amd64 and linux/arm64, have no GPU: New says so.
//
// A ring has one stream. Its operations are queued in call order and return
// before they are done; Download and Sync wait. Device memory comes from a pool
// of size classes, so that repeated work allocates nothing; it is handed on
// in the order of the stream, and batches that were dropped without Free are
// collected before much is taken. On a GPU that shares the processor's memory
// (Jetson), batches lie in host memory that both use, and Upload and Download copy
// without the driver; MemoryVariable forces either way.
//
// The driver's errors become errors of the call that met them, or of a later
// Download or Sync. Exhausted memory is cutrantt.ErrMemory, and the ring works on.
// After an error that no context survives (an illegal address, an uncorrectable
// memory error, a GPU that is gone) every call of every ring on that GPU fails with
// cutrantt.ErrDevice. Open then tries a new context; drivers refuse it after most
// such errors until the process ends.
//
// Where a ring may choose the Hadamard method, it is measured once per GPU, degree
// and n2, and kept in the user's cache directory; see TuningVariable. All methods
// give the same residues.
package cuda
