package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hencedge/hencedge/config"
)

// secretFiles checks who may read the files that hold secrets in clear. A group may
// read them: that of the service, say, with root as the owner.
func secretFiles(role string, secrets ...config.NamedSecret) []Check {
	var out []Check
	for _, n := range secrets {
		path := n.Secret.File()
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil { // whether the secret can be had is another check
			continue
		}
		c := Check{Name: role + " " + n.Path, Status: OK,
			Detail: fmt.Sprintf("%s, mode %04o", path, info.Mode().Perm())}
		if n.Secret.Exposed() != "" {
			c.Status, c.Detail, c.Remedy = Fail, c.Detail+": every user of this machine may read or change it",
				"chmod o-rwx "+path
		}
		out = append(out, c)
	}
	return out
}

// loose returns how users other than root and me could change the file at path: the file
// itself, or by replacing it or a directory above. It returns "" if they cannot. world is
// set if every user can. Root (me 0) may rely on files of any user.
func loose(path string, me int) (how string, world bool) {
	if how, world = looseAt(path, me); how != "" {
		return how, world
	}
	// the way to a link, and the way that it shows
	if to, err := filepath.EvalSymlinks(path); err == nil && to != path {
		return looseAt(to, me)
	}
	return "", false
}

func looseAt(path string, me int) (how string, world bool) {
	for p := path; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil {
			return "", false
		}
		mode := info.Mode()
		if st, ok := info.Sys().(*syscall.Stat_t); ok && me != 0 && st.Uid != 0 && int(st.Uid) != me {
			return fmt.Sprintf("%s belongs to user %d", p, st.Uid), false
		}
		switch {
		case p != path && mode&fs.ModeSticky != 0: // only the owners may rename there
		case mode.Perm()&0o002 != 0:
			return fmt.Sprintf("%s has mode %04o", p, mode.Perm()), true
		case mode.Perm()&0o020 != 0:
			return fmt.Sprintf("%s has mode %04o", p, mode.Perm()), false
		}
		if p == filepath.Dir(p) {
			return "", false
		}
	}
}

// trusted checks that others cannot change what a role trusts without a signature: its
// configuration, which names commands and peers, the key that it encrypts under, and the
// certificate authorities of the broker.
func trusted(role string, me int, paths ...string) Check {
	c := Check{Name: role + " files that it trusts", Status: OK}
	var list []string
	n := 0
	for _, p := range paths {
		if p == "" {
			continue
		}
		p, err := filepath.Abs(p)
		if err != nil {
			continue
		}
		n++
		how, world := loose(p, me)
		if how == "" {
			continue
		}
		list = append(list, how)
		if world {
			c.Status = Fail
		} else if c.Status == OK {
			c.Status = Warn
		}
	}
	if c.Status == OK {
		c.Detail = fmt.Sprintf("nobody but root and their owner can change the %d", n)
		return c
	}
	c.Detail = "others can change them: " + strings.Join(list, ", ")
	c.Remedy = "chmod go-w, chown root: whoever changes them decides for whom this machine encrypts, and what it " +
		"executes"
	return c
}
