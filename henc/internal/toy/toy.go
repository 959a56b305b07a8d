//go:build !chaos

// Package toy says whether a build treats parameters of the insecure sets like others: it names them, and writes and
// reads their keys. Only builds with the tag chaos do, for the chaos test, whose devices and keys have to be small.
package toy

// Allowed reports whether this build does.
const Allowed = false
