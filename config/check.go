package config

import (
	"fmt"

	"github.com/hencedge/hencedge/config/internal/rule"
	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// A checker collects the mistakes that the rules for single keys and blocks cannot express:
// arithmetic, and references to other places.
type checker struct{ *rule.Checker }

// err returns the mistakes that were found, or nil.
func (c *checker) err() error {
	c.Doc.Mask(c.Errs)
	return (&Errors{List: c.Errs}).Err()
}

// unique reports a name that an earlier entry of the list at path has.
func (c *checker) unique(path, kind string, names []string) {
	first := map[string]int{}
	for i, n := range names {
		if j, dup := first[n]; dup && n != "" {
			c.Fail(fmt.Sprintf("%s[%d].name", path, i), fmt.Sprintf("the %s %q is already defined as %s[%d]", kind, n,
				path, j),
				"give each one its own name")
			continue
		}
		first[n] = i
	}
}

// signers checks that signers have names and keys of their own.
func (c *checker) signers(path, kind string, list []Signer) {
	names := make([]string, len(list))
	keys := map[string]int{}
	for i, d := range list {
		names[i] = d.Name
		if j, dup := keys[d.PublicKey]; dup && d.PublicKey != "" {
			c.Fail(fmt.Sprintf("%s[%d].public_key", path, i), fmt.Sprintf("the same key as %s[%d]", path, j),
				"give each signer its own key")
			continue
		}
		keys[d.PublicKey] = i
	}
	c.unique(path, kind, names)
}

// retries checks the waits between attempts.
func (c *checker) retries(path string, lo, hi Duration) {
	if hi < lo && c.Sound(path+".retry_min", path+".retry_max") {
		c.Fail(path+".retry_max", fmt.Sprintf("%s is below retry_min, %s", yamlx.ShowDuration(hi),
			yamlx.ShowDuration(lo)),
			fmt.Sprintf("use %s or more, or a shorter retry_min", yamlx.ShowDuration(lo)))
	}
}

func (c *checker) limits(l Limits) {
	if c.Sound("limits.memory", "limits.object") && l.Memory < l.Object {
		c.Fail("limits.memory", fmt.Sprintf("%s cannot hold one object of %s", l.Memory, l.Object),
			fmt.Sprintf("use %s or more, or lower limits.object", l.Object))
	}
}
