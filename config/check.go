package config

import (
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// checker collects the mistakes that types cannot express. bad holds the paths
// that already failed to decode, so that nothing is reported twice.
type checker struct {
	doc  *yamlx.Document
	bad  []string
	errs []*Error
}

// sound reports whether nothing at, below or above any of the paths has
// failed already.
func (c *checker) sound(paths ...string) bool {
	for _, p := range paths {
		for _, b := range c.bad {
			if p == b || within(p, b) || within(b, p) {
				return false
			}
		}
	}
	return true
}

// within reports whether path inner lies below path outer.
func within(inner, outer string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (outer == "" || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}

// decoded reports whether neither path nor what it lies in failed already.
func (c *checker) decoded(path string) bool {
	for _, b := range c.bad {
		if path == b || within(path, b) {
			return false
		}
	}
	return true
}

// given reports whether the file has a value at path; true without a file.
func (c *checker) given(path string) bool { return c.doc.Gives(path) }

func (c *checker) fail(path, cause, remedy string) {
	if c.decoded(path) {
		c.errs = append(c.errs, c.doc.Problem(path, cause, remedy))
	}
}

// failKey is fail pointing at the key instead of the value.
func (c *checker) failKey(path, cause, remedy string) {
	if !c.decoded(path) {
		return
	}
	if at, ok := c.doc.Key(path); ok {
		c.errs = append(c.errs, c.doc.ErrorAt(at, path, cause, remedy))
		return
	}
	c.fail(path, cause, remedy)
}

var (
	namePattern  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	identPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// ValidName reports whether s may name a device, stream, channel, program or
// evaluator: [A-Za-z0-9_.-]{1,64}, and neither "." nor "..".
func ValidName(s string) bool {
	return namePattern.MatchString(s) && s != "." && s != ".."
}

func (c *checker) name(path, s string) bool {
	if ValidName(s) {
		return true
	}
	remedy := "use 1 to 64 letters, digits, '_', '.' or '-'"
	switch {
	case strings.ContainsAny(s, "“”„‘’"):
		remedy = "write plain quotes (\") or none"
	case strings.Contains(s, ": "):
		remedy = "put a comma between the entries within braces"
	}
	c.fail(path, "invalid name "+yamlx.Quote(s), remedy)
	return false
}

// unique reports a name that an earlier entry of the list at path has.
func (c *checker) unique(path, kind string, names []string) {
	first := map[string]int{}
	for i, n := range names {
		if j, dup := first[n]; dup && n != "" {
			c.fail(fmt.Sprintf("%s[%d].name", path, i), fmt.Sprintf("the %s %q is already defined as %s[%d]", kind, n, path, j), "give each one its own name")
			continue
		}
		first[n] = i
	}
}

// oneOf checks an enumerated value.
func oneOf[T ~string](c *checker, path string, v T, known ...T) {
	words := make([]string, len(known))
	for i, k := range known {
		if k == v {
			return
		}
		words[i] = string(k)
	}
	c.fail(path, "unknown value "+yamlx.Quote(string(v)), yamlx.SuggestValue(string(v), words))
}

// between checks an inclusive range. A value outside counts as not decoded, so that
// nothing else is said about it.
func between[T int | Size | Duration](c *checker, path string, v, lo, hi T) {
	if v < lo || v > hi {
		defer func() { c.bad = append(c.bad, path) }()
		c.fail(path, yamlx.Show(v)+" is out of range", fmt.Sprintf("use a value from %s to %s", yamlx.Show(lo), yamlx.Show(hi)))
	}
}

// publicKey checks "ed25519:<base64 of 32 bytes>".
func (c *checker) publicKey(path, s string) {
	const remedy = "copy the whole line that `hencedge keys identity FILE` prints on the device: ed25519: and 44 characters"
	b64, ok := strings.CutPrefix(s, "ed25519:")
	if !ok {
		c.fail(path, "not a public key", remedy)
		return
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(b64)
	if err != nil || len(raw) != 32 {
		c.fail(path, "the public key is damaged: it is not base64 of 32 bytes", remedy)
	}
}

func (c *checker) signers(path, kind string, list []Device) {
	names := make([]string, len(list))
	keys := map[string]int{}
	for i, d := range list {
		p := fmt.Sprintf("%s[%d]", path, i)
		names[i] = d.Name
		c.name(p+".name", d.Name)
		c.publicKey(p+".public_key", d.PublicKey)
		if j, dup := keys[d.PublicKey]; dup && d.PublicKey != "" {
			c.fail(p+".public_key", fmt.Sprintf("the same key as %s[%d]", path, j), "give each signer its own key")
			continue
		}
		keys[d.PublicKey] = i
	}
	c.unique(path, kind, names)
}

// version checks the schema version.
func (c *checker) version(v int) {
	if v != SchemaVersion {
		c.fail("version", fmt.Sprintf("version %d is not known", v), fmt.Sprintf("write version: %d, or install a newer hencedge", SchemaVersion))
	}
}

// finite reports whether x is a usable number.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
