// Package access tells what the user of a service may read and write, for checks that
// root runs.
package access

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/hencedge/hencedge/systemd"
)

// mayRead reports whether a user with id uid and groups gids can read the file at path, by
// the modes of the file and of the directories above it. A missing file counts as readable;
// other checks find it.
func mayRead(path string, uid uint32, gids []uint32) bool {
	allowed := func(info fs.FileInfo, bit fs.FileMode) bool {
		st, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !ok:
			return true
		case st.Uid == uid:
			bit <<= 6
		case slices.Contains(gids, st.Gid):
			bit <<= 3
		}
		return info.Mode().Perm()&bit != 0
	}
	info, err := os.Stat(path)
	if err != nil {
		return true
	}
	if !allowed(info, 0o4) {
		return false
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && !allowed(info, 0o1) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// Unreadable returns warnings about files that a service's user cannot read. It returns
// none unless root checks the configuration of the service: others see for themselves.
func Unreadable(r systemd.Role, file string, paths ...string) []string {
	file, err := filepath.Abs(file)
	if err != nil || file != r.Config() || os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(r.Name())
	if err != nil {
		return nil
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil
	}
	var gids []uint32
	for _, g := range append(groups, u.Gid) {
		if n, err := strconv.ParseUint(g, 10, 32); err == nil {
			gids = append(gids, uint32(n))
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range append([]string{file}, paths...) {
		if p != "" && !mayRead(p, uint32(uid), gids) {
			out = append(out, fmt.Sprintf("%s cannot read %s: chmod 644, or for a secret chgrp %s and chmod 640",
				r.Name(), p,
				r.Name()))
		}
	}
	return out
}

// Unwritable returns warnings about places that a service cannot write to. Its unit opens
// its state directory and what ReadWritePaths= adds. It returns none unless root checks the
// configuration of the service.
func Unwritable(r systemd.Role, file string, paths ...string) []string {
	file, err := filepath.Abs(file)
	if err != nil || file != r.Config() || os.Geteuid() != 0 {
		return nil
	}
	open := []string{r.StateDir()}
	if out, err := exec.Command("systemctl", "show", "-P", "ReadWritePaths", r.Name()+".service").Output(); err == nil {
		open = append(open, strings.Fields(string(out))...)
	}
	var out []string
	for _, p := range paths {
		if p != "" && !below(p, open) {
			out = append(out,
				fmt.Sprintf("the unit of %s opens nothing for writing but %s: %s needs ReadWritePaths=%s in a "+
					"drop-in (systemctl edit %s)",
					r.Name(), r.StateDir(), p, filepath.Dir(p), r.Name()))
		}
	}
	return out
}

// below reports whether path is one of dirs or below one. A dir may begin with systemd's
// marks "-" and "+".
func below(path string, dirs []string) bool {
	for _, d := range dirs {
		d = filepath.Clean(strings.TrimLeft(d, "-+"))
		if path == d || strings.HasPrefix(path, strings.TrimSuffix(d, "/")+"/") {
			return true
		}
	}
	return false
}
