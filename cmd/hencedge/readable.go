package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/systemd"
)

// mayRead reports whether a user with id uid and groups gids can read the file at
// path, by the modes of the file and of the directories above it. What is not there
// is somebody else's complaint.
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

// serviceReads warns, when root checks the configuration of the service, of files
// that the service's own user cannot read: root can read them all.
func serviceReads(r systemd.Role, file string, paths ...string) []string {
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
			out = append(out, fmt.Sprintf("%s cannot read %s: chmod 644, or for a secret chgrp %s and chmod 640", r.Name(), p, r.Name()))
		}
	}
	return out
}

// agentReads are the files that an agent reads.
func agentReads(cfg *config.Agent) []string {
	out := []string{cfg.Keys.PublicKey, cfg.Keys.SecretKey, cfg.Broker.CA, cfg.Broker.Cert, cfg.Broker.Key, cfg.SigningKey}
	for _, n := range cfg.Secrets() {
		out = append(out, n.Secret.File())
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY") // systemd hands these over
	return slices.DeleteFunc(out, func(p string) bool { return dir != "" && filepath.Dir(p) == filepath.Clean(dir) })
}
