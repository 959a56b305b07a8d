package main

import (
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/internal/daemon"
)

// Annotations of commands, which hold for the commands below them too.
const (
	// openMemory: the command uses only keys that it makes itself, and profilers and
	// debuggers may look at it.
	openMemory = "open-memory"
	// unlockedMemory: locking would keep gigabytes of public keys, or a GPU's driver, in
	// memory.
	unlockedMemory = "unlocked-memory"
)

// annotated reports whether a command or one above it has an annotation.
func annotated(cmd *cobra.Command, name string) bool {
	for ; cmd != nil; cmd = cmd.Parent() {
		if _, ok := cmd.Annotations[name]; ok {
			return true
		}
	}
	return false
}

// protectionOf returns how the memory of a command is protected.
func protectionOf(cmd *cobra.Command) (harden, lock bool) {
	if annotated(cmd, openMemory) {
		return false, false
	}
	// A GPU's driver maps far more than it uses, and pins what it needs itself.
	backend := cmd.Flags().Lookup("backend")
	return true, !annotated(cmd, unlockedMemory) && (backend == nil || backend.Value.String() == "cpu")
}

// protect protects the memory of the process before a command does anything. Every command
// goes through here, so that none that loads a secret key is forgotten.
func (a *app) protect(cmd *cobra.Command) {
	if harden, lock := protectionOf(cmd); harden {
		a.Protection, a.Unprotected = daemon.Harden(lock)
	}
}
