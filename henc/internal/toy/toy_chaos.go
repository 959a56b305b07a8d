//go:build chaos

package toy

// Allowed reports whether this build does.
const Allowed = true
