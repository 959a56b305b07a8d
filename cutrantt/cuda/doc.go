// Package cuda is the GPU backend of cutrantt. It drives libcuda.so.1, opened
// at run time, and needs neither cgo nor a CUDA toolkit; the kernels come
// compiled in package kernels. Builds with the tag nogpu, and platforms other
// than linux/amd64 and linux/arm64, have no GPU: New says so.
//
// A ring has one stream. Its operations are queued in call order and return
// before they are done; Download and Sync wait. Device memory comes from a pool
// of size classes, so that repeated work allocates nothing; it is handed on
// in the order of the stream, and batches that were dropped without Free are
// collected before much is taken. The driver's errors, exhausted memory included,
// become errors of the call that met them, or of a later Download or Sync.
package cuda
