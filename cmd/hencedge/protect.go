package main

import (
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/internal/daemon"
)

// Annotations of commands, which hold for the commands below them too.
const (
	// openMemory: it uses no keys but those it makes itself, and is there to be looked at
	// by profilers and debuggers.
	openMemory = "open-memory"
	// unlockedMemory: what it keeps off a swap device would be gigabytes of public keys, or
	// a GPU's driver.
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

// protection says how the memory of a command is protected.
func protectionOf(cmd *cobra.Command) (harden, lock bool) {
	if annotated(cmd, openMemory) {
		return false, false
	}
	// A GPU's driver maps far more than it uses, and pins what it needs itself.
	backend := cmd.Flags().Lookup("backend")
	return true, !annotated(cmd, unlockedMemory) && (backend == nil || backend.Value.String() == "cpu")
}

// protect makes the memory of the process hard to reach before a command does anything.
// Every command goes through here, so that none that loads a secret key is forgotten.
func (a *app) protect(cmd *cobra.Command) {
	if harden, lock := protectionOf(cmd); harden {
		a.Protection, a.Unprotected = daemon.Harden(lock)
	}
}
