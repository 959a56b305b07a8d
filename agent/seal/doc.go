// Package seal makes signed objects of windows: it encrypts them under the keys of a
// configuration and signs them with the device's key.
//
// Keys are loaded from files, or given, and say what to do where they cannot be used.
// A State hands out the boot epoch and the sequence numbers that a window is sealed
// under. Each number was on disk, as used, before it is handed out.
package seal
