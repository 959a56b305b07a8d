package transport

import "fmt"

// MaxName is the longest device, stream or program name, in bytes.
const MaxName = 64

// CheckName accepts [A-Za-z0-9_.-]{1,64}, the alphabet of device, stream and
// program names: no topic separator, no wildcard, no control character. The
// names "." and ".." are refused too, since names become file names.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: name of %d bytes, want 1 to %d", ErrMalformed, len(name), MaxName)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '-':
		default:
			return fmt.Errorf("%w: name %q has a character outside A-Z a-z 0-9 _ . -", ErrMalformed, name)
		}
	}
	if name == "." || name == ".." {
		return fmt.Errorf("%w: name %q is reserved", ErrMalformed, name)
	}
	return nil
}
