package keyholder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// inbox holds, in order, the results that were taken and are not decrypted yet. With a
// path they are on disk, and the next start continues with them.
type inbox struct {
	path  string // state file that the names of its files begin with; empty: in memory
	spool *spool.Spool
	seen  *seen
	log   *slog.Logger
}

// Bounds of an inbox. While it is full, no result is taken. That depends only on numbers,
// on sizes, and on how fast decrypted results are handed on.
const (
	maxInbox      = 1024
	maxInboxBytes = 256 << 20
	inboxStream   = "results" // the spool's name of the one queue
)

// Suffixes of the files and directories beside the state file.
const (
	inboxSuffix  = ".inbox"  // directory of results that wait for decryption
	unreadSuffix = ".unread" // directory of results that were taken and could not be read
	seenSuffix   = ".results"
)

// Bounds of the directory of unread results.
const (
	maxUnread      = 64
	maxUnreadBytes = 64 << 20
)

// openInbox opens the inbox beside a state file; maxObject is the largest result.
func openInbox(path string, maxObject int, s *seen, log *slog.Logger) (*inbox, error) {
	if maxObject <= 0 {
		maxObject = transport.DefaultMaxObject
	}
	b := &inbox{path: path, seen: s, log: log}
	o := spool.Options{
		Strict: true, Reserve: true, Objects: maxInbox, Bytes: max(maxInboxBytes, 2*int64(maxObject)),
		Default: spool.Limit{Full: spool.Block}, Logger: log,
	}
	if path != "" {
		o.Dir = path + inboxSuffix
	}
	var err error
	if b.spool, err = spool.Open(o); err != nil {
		return nil, fmt.Errorf("inbox of results: %w", err)
	}
	return b, nil
}

func (b *inbox) close() {
	b.spool.Close()
	b.spool.Release()
}

// recover goes through the objects that an earlier process took. It removes those whose
// results were all handed on before a crash brought their files back, and gives the rest to
// f, with the results that were not.
func (b *inbox) recover(f func(results []transport.Meta, sealed []byte)) error {
	for _, e := range b.spool.Entries() {
		l, sealed, err := b.spool.Read(e)
		if l == nil || errors.Is(err, spool.ErrDamaged) {
			continue // counted and reported by the spool
		}
		if err != nil {
			l.Return(0)
			return fmt.Errorf("inbox of results: %w", err)
		}
		results, err := transport.PeekResults(sealed)
		if results = b.seen.fresh(results); err != nil || len(results) == 0 {
			l.Done()
			continue
		}
		l.Return(0)
		b.seen.hold(results)
		f(results, sealed)
	}
	return nil
}

// put stores an object that carries these results. It waits while the inbox is full or the
// disk fails.
func (b *inbox) put(ctx context.Context, results []transport.Meta, topic string, sealed []byte) error {
	b.seen.hold(results)
	err := persist(ctx, b.log, func() error {
		return b.spool.Put(ctx, spool.Item{Stream: inboxStream, Topic: topic, Sealed: sealed})
	})
	if err != nil {
		b.seen.release(results)
	}
	return err
}

// next waits for the oldest result and returns it, or nil when ctx ends.
func (b *inbox) next(ctx context.Context) *spool.Lease {
	for ctx.Err() == nil {
		b.spool.Tick()
		changed := b.spool.Changed()
		if l := b.spool.TryLease(spool.Oldest, 0); l != nil {
			return l
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// setAside keeps a result that was taken and cannot be read, for "results decrypt". Only
// the newest are kept.
func (b *inbox) setAside(l *spool.Lease, sealed []byte) {
	m, err := transport.PeekMeta(sealed)
	if results, rerr := transport.PeekResults(sealed); rerr == nil {
		b.seen.release(results)
	}
	if b.path != "" && err == nil {
		dir := b.path + unreadSuffix
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = writeFile(filepath.Join(dir, resultName(m)), sealed, secretMode)
		}
		if err == nil {
			err = trimDirectory(dir, maxUnread, maxUnreadBytes)
		}
		if err != nil {
			b.log.Error("a result that could not be read was not kept", "program", m.Program, "error", err)
		}
	}
	l.Done()
}

// trimDirectory removes the oldest results of a directory until it is within the bounds.
func trimDirectory(dir string, files int, size int64) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var infos []os.FileInfo
	for _, e := range list {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasSuffix(e.Name(), resultSuffix) {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	total := int64(0)
	for i, info := range infos {
		if total += info.Size(); i >= files || total > size {
			err = errors.Join(err, os.Remove(filepath.Join(dir, info.Name())))
		}
	}
	return err
}

// persist calls write until it succeeds, ctx ends or it fails for another reason than a
// disk that is full, read-only or failing.
func persist(ctx context.Context, log *slog.Logger, write func() error) error {
	for told := false; ; told = true {
		err := write()
		if err == nil || !durable.Unwritable(err) {
			return err
		}
		if !told {
			log.Error("the state cannot be written; results wait", "error", err)
		}
		if role.Sleep(ctx, diskRetry) != nil {
			return err
		}
	}
}

// diskRetry is the delay between attempts to write the state.
const diskRetry = time.Second
