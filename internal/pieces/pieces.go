// Package pieces handles bytes that lie in several pieces of memory, which follow each other.
package pieces

import "bytes"

// Len returns how many bytes there are.
func Len(all [][]byte) (n int) {
	for _, p := range all {
		n += len(p)
	}
	return n
}

// Join returns all bytes in one piece: a copy, unless there is only one.
func Join(all [][]byte) []byte {
	if len(all) == 1 {
		return all[0]
	}
	return bytes.Join(all, nil) // into memory that nothing clears before
}

// Section returns bytes from to to, or those of them that there are, in pieces that share the memory of all.
func Section(all [][]byte, from, to int) (out [][]byte) {
	for _, p := range all {
		if a, b := max(from, 0), min(to, len(p)); a < b {
			out = append(out, p[a:b:b])
		}
		from, to = from-len(p), to-len(p)
	}
	return out
}
