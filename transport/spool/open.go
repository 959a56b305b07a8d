package spool

import (
	"fmt"
	"log/slog"
	"time"
)

// Open locks the directory until Release, reads it and counts what is there. Damaged files
// are quarantined and are no error. It fails when the directory cannot be read or made, and
// with ErrLocked when it is in use.
func Open(o Options) (*Spool, error) {
	if o.fs == nil {
		o.fs = disk{}
	}
	if o.Memory <= 0 {
		o.Memory = 64 << 20
	}
	if o.KeepDamaged <= 0 {
		o.KeepDamaged = 16
	}
	if o.KeepDamagedBytes <= 0 {
		o.KeepDamagedBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Spool{o: o, log: o.Logger, changed: make(chan struct{}), streams: map[string]*queue{}, start: time.Now(),
		next: 1}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Mono == nil {
		s.o.Mono = func() time.Duration { return time.Since(s.start) }
	}
	for _, path := range []string{o.Dir, o.Mirror} {
		if path != "" {
			s.dirs = append(s.dirs, directory{o.fs, path, new(claimed)})
		}
	}
	if o.Dir == "" {
		s.dirs = nil
		return s, nil
	}
	err := s.lock()
	if err == nil {
		err = s.load()
	}
	if err != nil {
		s.Release()
		return nil, fmt.Errorf("open the spool: %w", err)
	}
	return s, nil
}
