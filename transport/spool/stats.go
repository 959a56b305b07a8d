package spool

import "time"

// Stats are the counts of a spool.
type Stats struct {
	Objects, MemoryObjects int   // that wait; of these, in memory
	Bytes, MemoryBytes     int64 // theirs
	Oldest                 time.Duration
	Dropped                uint64 // lost to a full spool
	Expired                uint64 // lost to age
	Damaged                uint64 // lost to damage: their files were quarantined
	Repaired               uint64 // files that were completed, cut to their length, or restored from the mirror
	Recovered              uint64 // objects that were there at the start
	WriteErrors            uint64
	Written                uint64 // bytes written into files, both copies
	Syncs                  uint64 // flushes of files and directories
}

// StreamStats are the counts of what waits of one stream.
type StreamStats struct {
	Objects int
	Bytes   int64
	Oldest  time.Duration // age of the oldest
}
