// Package durable keeps data on disk over crashes, power cuts and full disks: files
// that are replaced as a whole, states that are written even when the disk is full,
// logs of records with checksums, and locks.
package durable
