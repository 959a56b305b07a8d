package doctor

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// system are the directories of / whose files come with the system or from the
// kernel.
var system = []string{"bin", "boot", "dev", "lib", "lib32", "lib64", "libx32", "lost+found", "proc", "sbin", "sys",
	"usr"}

// ReadRoots returns where files of people and services lie: the directories of / but
// those of the system.
func ReadRoots() []string { return readRoots("/") }

func readRoots(top string) []string {
	out := []string{filepath.Join(top, "usr/local")}
	entries, _ := os.ReadDir(top) // without it there is nothing to find either
	for _, e := range entries {
		path := filepath.Join(top, e.Name())
		if info, err := os.Stat(path); err == nil && info.IsDir() && !slices.Contains(system, e.Name()) {
			out = append(out, path)
		}
	}
	// Where keys usually lie comes first: a large disk may use up the time.
	usual := []string{"etc", "home", "root", "opt", "srv", "run", "tmp", "usr/local", "var"}
	rank := func(path string) int {
		rel, _ := filepath.Rel(top, path)
		if i := slices.Index(usual, rel); i >= 0 {
			return i
		}
		return len(usual)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	return out
}

// notFiles are directories whose files are the kernel's.
var notFiles = []string{"/proc", "/sys", "/dev"}

// Bounds of a walk.
const (
	maxWalked = 500_000
	maxWalk   = 30 * time.Second
)

// signingHead is how a file of a signing key begins.
var signingHead = []byte("ed25519-secret:")

// walked is what a walk found.
type walked struct {
	files   int  // that this user can read
	cut     bool // a bound was reached
	secrets []string
	signing []string
}

// walk looks at every regular file below o.Roots that this user can open, for secret
// keys of ciphertexts and for signing keys other than own.
func walk(o Options, own []string, now func() time.Time) walked {
	var w walked
	end := now().Add(maxWalk)
	own = resolved(own)
	seen := map[string]bool{}
	looked := 0
	for _, root := range o.Roots {
		root, err := filepath.Abs(root)
		if err != nil {
			continue
		}
		// /home may be a link to a larger disk.
		if to, err := filepath.EvalSymlinks(root); err == nil {
			root = to
		}
		// what cannot be read is no finding
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && d != nil && d.IsDir():
				return fs.SkipDir
			case err != nil:
				return nil
			case d.IsDir():
				for _, n := range notFiles {
					if path == n {
						return fs.SkipDir
					}
				}
				if seen[path] {
					return fs.SkipDir
				}
				seen[path] = true
				return nil
			case !d.Type().IsRegular():
				return nil
			}
			if looked++; w.files >= maxWalked || looked%256 == 1 && now().After(end) ||
				o.tell("files", int64(looked), 0) != nil {
				w.cut = true
				return fs.SkipAll
			}
			head, ok := headOf(path)
			if !ok {
				return nil
			}
			w.files++
			switch {
			case slices.Contains(own, path):
			case secretHead(head) && holdsSecret(path, d):
				w.secrets = append(w.secrets, path)
			case bytes.HasPrefix(head, signingHead):
				w.signing = append(w.signing, path)
			}
			return nil
		})
	}
	return w
}

// headOf reads the first bytes of a file; ok is false when this user cannot.
func headOf(path string) (head []byte, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	head = make([]byte, len(signingHead))
	n, err := io.ReadFull(f, head)
	return head[:n], err == nil || err == io.ErrUnexpectedEOF || err == io.EOF
}

// nothingToSteal proves, within the bounds of a walk, that a device in public-key
// mode holds no key that decrypts: none in any file that this user can read but own.
func nothingToSteal(o Options, own ...string) Check {
	c := Check{Name: "keys that this user can read", Status: OK}
	w := walk(o, own, time.Now)
	who := "this user"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	switch {
	case len(w.secrets) > 0:
		c.Status, c.Detail = Fail, "secret key in "+strings.Join(w.secrets, ", ")
		c.Remedy = "remove it (shred -u) and rotate the key set: a secret key belongs to the key holder alone"
		return c
	case len(w.signing) > 0:
		c.Status, c.Detail = Warn, "signing keys of others: "+strings.Join(w.signing, ", ")
		c.Remedy = "keep each device's and evaluator's signing key readable by its own user only"
		return c
	}
	c.Detail = fmt.Sprintf("no secret key in the %d files that %s can read below %s", w.files, who,
		strings.Join(o.Roots, " "))
	if w.cut {
		c.Status, c.Detail = Info, c.Detail+"; the search was cut short"
	}
	return c
}
