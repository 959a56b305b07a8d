package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	driver "modernc.org/sqlite"
	code "modernc.org/sqlite/lib"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/keyholder"
)

// sqlite is a database in a file.
type sqlite struct {
	path     string
	readOnly bool
	lock     *os.File
	file     os.FileInfo // of path, when it was opened
}

// ErrMoved: the file of an open database was removed, or another one has its name.
var ErrMoved = errors.New("the file of the database was moved away; start again")

var _ base = (*sqlite)(nil)

func (s *sqlite) open(ctx context.Context) (*sql.DB, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	db, err := s.connect(ctx)
	if err == nil && !s.readOnly {
		err = durable.SyncDir(filepath.Dir(s.path))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", s.path, err), s.close(db))
	}
	return db, nil
}

// prepare takes the lock and makes the file, so that nobody else can ever read it. SQLite
// gives the files beside it the same mode.
func (s *sqlite) prepare() (err error) {
	if s.readOnly {
		if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s does not exist yet: \"results serve\" makes it", s.path)
		}
		return nil
	}
	if s.lock, err = durable.LockFile(s.path + ".lock"); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		s.file, err = f.Stat()
		err = errors.Join(err, keyholder.Private(s.path), f.Close())
	}
	if err != nil {
		return errors.Join(err, s.close(nil))
	}
	return nil
}

// connect opens the file and brings it to the newest version.
func (s *sqlite) connect(ctx context.Context) (*sql.DB, error) {
	path, err := filepath.Abs(s.path)
	if err != nil {
		return nil, err
	}
	o := url.Values{"_pragma": {"busy_timeout(10000)", cachePages}}
	if s.readOnly {
		o.Set("mode", "ro")
	} else {
		// auto_vacuum counts only before the first table.
		o["_pragma"] = append(o["_pragma"], "auto_vacuum(INCREMENTAL)", "journal_mode(WAL)", "synchronous(FULL)")
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+o.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(readers)
	if !s.readOnly {
		db.SetMaxOpenConns(1)
	}
	var version, tables int
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables)
	}
	if err == nil && version == 0 && tables > 0 {
		err = errors.New("it is a database of something else; name another file")
	}
	if err == nil {
		err = checkVersion(version, len(migrations), s.readOnly)
	}
	if err == nil {
		err = migrate(ctx, db, version, migrations, func(v int) string {
			return fmt.Sprintf("PRAGMA user_version = %d", v)
		})
	}
	return db, err
}

// cachePages is what each connection keeps of the file, 512 KiB: the system keeps it too, and SQLite's default of
// 2 MiB made no view faster.
const cachePages = "cache_size(-512)"

func (s *sqlite) bind(text string) string { return text }

func (s *sqlite) snapshot() *sql.TxOptions { return nil } // every transaction is one

func (s *sqlite) close(db *sql.DB) (err error) {
	if db != nil {
		err = db.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}

// pages returns how many pages of the file are in use and free, and their size in bytes.
func pages(ctx context.Context, db *sql.DB) (used, free, size int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT page_count, freelist_count, page_size FROM pragma_page_count(), "+
		"pragma_freelist_count(), pragma_page_size()").Scan(&used, &free, &size)
	return used - free, free, size, err
}

func (s *sqlite) size(ctx context.Context, db *sql.DB) (int64, error) {
	used, _, size, err := pages(ctx, db)
	return used * size, err
}

func (s *sqlite) shrink(ctx context.Context, db *sql.DB) error {
	used, free, _, err := pages(ctx, db)
	if err != nil || free < shrinkFrom || 4*free < used {
		return err
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkBy))
	return err
}

// Pages that are free before any is given back, and that are given back at a time.
const (
	shrinkFrom = 256
	shrinkBy   = 1 << 14
)

func (s *sqlite) insert() (text, where string) { return insertSQL, byIdentity }

func (s *sqlite) spans(context.Context, *sql.DB) ([]span, error) { return nil, nil }

func (s *sqlite) drop(context.Context, transaction, span) error { return nil } // there are none

func (s *sqlite) patience() time.Duration { return 0 }

func (s *sqlite) sound(context.Context, *sql.DB) error {
	now, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, s.file) {
		return fmt.Errorf("%w: %s", ErrMoved, s.path)
	}
	return nil // another error is that of a disk, which the statement meets as well
}

func (s *sqlite) lasting(err error) bool {
	var e *driver.Error
	if !errors.As(err, &e) {
		return errors.Is(err, ErrMoved)
	}
	switch e.Code() & 0xff {
	case code.SQLITE_CORRUPT, code.SQLITE_NOTADB, code.SQLITE_SCHEMA, code.SQLITE_CONSTRAINT, code.SQLITE_MISMATCH,
		code.SQLITE_MISUSE, code.SQLITE_TOOBIG, code.SQLITE_ERROR:
		return true
	}
	return false
}
