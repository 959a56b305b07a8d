// Package taint lets valgrind's memcheck follow secrets through the arithmetic, after
// A. Langley's ctgrind: a test marks secrets as undefined memory, and memcheck then
// reports every branch and every address that depends on one. Only builds with the
// tag taint do anything; see cross/timing.sh and docs/security.md.
package taint
