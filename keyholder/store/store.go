package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/backoff"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/keyholder"
)

// Options configure a Store. History and Logger are required.
type Options struct {
	History config.History // with its defaults
	// ReadOnly opens a database that exists, for queries. Another process may write to it.
	ReadOnly bool
	// Begin is called before each attempt to store a result, and done when it ends: a disk
	// that hangs can so be told from one that is full. May be nil.
	Begin  func(what string) (done func())
	Logger *slog.Logger
}

// Store is an open database of results. It is safe for concurrent use.
type Store struct {
	o    Options
	base base
	db   *sql.DB // one connection, unless the store is for reading only

	many int // results that Points adds up at most, where there are summaries

	stored  atomic.Uint64          // results since the start
	waiting atomic.Pointer[string] // why a result waits for the database; nil: none does
	size    atomic.Int64           // bytes, when Tidy last looked

	mu      sync.Mutex
	begun   bool               // see ready
	changed chan struct{}      // closed when a result was stored
	last    map[subject]Series // newest values, with History.LastValues
}

// base is a kind of database.
type base interface {
	// open returns the database, made and brought to the newest version if need be.
	open(ctx context.Context) (*sql.DB, error)
	// insert returns the statement that stores a row of encode unless it is there, and the condition
	// that finds it by its identity and its start.
	insert() (text, where string)
	// spans returns the spans of time whose results can be removed at once, the oldest first, or
	// none, and drop removes one.
	spans(ctx context.Context, db *sql.DB) ([]span, error)
	drop(ctx context.Context, tx transaction, s span) error
	// size returns how many bytes the results take.
	size(ctx context.Context, db *sql.DB) (int64, error)
	// shrink gives room that rows have left back to the disk, where that is worth it.
	shrink(ctx context.Context, db *sql.DB) error
	// sound reports whether rows that are committed now will be found by the next process. A
	// database that could not be reached when it was opened is made ready for them.
	sound(ctx context.Context, db *sql.DB) error
	// patience bounds an attempt to store a result; 0: nothing does.
	patience() time.Duration
	// lasting reports whether an error stays, however often a statement is tried again.
	lasting(err error) bool
	// bind gives a statement with ? for its arguments the form that the database takes.
	bind(text string) string
	// snapshot returns the options of a transaction whose statements see the same rows.
	snapshot() *sql.TxOptions
	// close closes the database, after an error of open none.
	close(db *sql.DB) error
}

// Open opens the database that a configuration names. For writing it is made if it does
// not exist, and migrated if it is of an earlier version; that of a server that is away when
// the server comes. Open fails with ErrVersion if a later version made the database, and with
// durable.ErrLocked if another process writes to it.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{o: o, many: manyResults, changed: make(chan struct{}), last: map[subject]Series{}}
	switch {
	case o.History.Postgres != nil:
		s.base = newPostgres(o.History.Postgres, o.History.Keep, o.ReadOnly)
	case o.History.File != "":
		s.base = &sqlite{path: o.History.File, readOnly: o.ReadOnly}
	default:
		return nil, errors.New("the results' database has no place: the configuration has no \"state\"")
	}
	var err error
	if s.db, err = s.base.open(ctx); err != nil {
		return nil, fmt.Errorf("database of results: %w", err)
	}
	if !o.ReadOnly {
		if err := s.ready(ctx); err != nil && s.base.lasting(err) {
			return nil, errors.Join(fmt.Errorf("database of results: %w", err), s.Close())
		}
	}
	return s, nil
}

// Close closes the database.
func (s *Store) Close() error { return s.base.close(s.db) }

// Keep stores a result. While the database takes nothing, because its disk is full or it
// cannot be reached, Keep waits and tries again, until ctx ends. An error that would stay,
// such as damage, is returned.
func (s *Store) Keep(ctx context.Context, r *keyholder.Result) error {
	waits := backoff.Waits{First: firstRetry, Most: lastRetry}
	for {
		err := s.attempt(ctx, r)
		switch {
		case err == nil:
			if s.waiting.Swap(nil) != nil {
				s.o.Logger.Info("the database of results takes results again")
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case s.base.lasting(err):
			return err
		}
		why := err.Error()
		if s.waiting.Swap(&why) == nil {
			s.o.Logger.Error("the database of results takes nothing; results wait", "error", err)
		}
		if err := role.Sleep(ctx, waits.Next()); err != nil {
			return err
		}
	}
}

// Delays between attempts to store a result.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

func (s *Store) attempt(ctx context.Context, r *keyholder.Result) error {
	if s.o.Begin != nil {
		defer s.o.Begin("store a result")()
	}
	if p := s.base.patience(); p > 0 {
		var stop func()
		ctx, stop = context.WithTimeout(ctx, p)
		defer stop()
	}
	return s.Add(ctx, r)
}

// Add stores a result, unless it is there, and returns when it is on disk. After an error it
// may be there or not; adding it again is right in both cases.
func (s *Store) Add(ctx context.Context, r *keyholder.Result) error {
	err := s.ready(ctx)
	var n int64
	if err == nil {
		err = s.inTx(ctx, func(tx transaction) (err error) {
			row := encode(r)
			insert, where := s.base.insert()
			if n, err = tx.exec(ctx, insert, row...); err == nil && n > 0 {
				_, err = tx.exec(ctx, seriesSQL(where), row[0], r.Start.UnixNano())
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("store a result: %w", err)
	}
	if n > 0 {
		s.stored.Add(uint64(n))
		s.told(r)
	}
	return nil
}

// Health returns why results wait for the database, if they do.
func (s *Store) Health() []string {
	if why := s.waiting.Load(); why != nil {
		return []string{"the database of results takes nothing: " + *why}
	}
	return nil
}

// Run applies summaries and retention at its start and then every minute, until ctx ends.
func (s *Store) Run(ctx context.Context) {
	for {
		if err := s.Tidy(ctx); err != nil && ctx.Err() == nil {
			s.o.Logger.Warn("old results could not be removed", "error", err)
		}
		if role.Sleep(ctx, tidyEvery) != nil {
			return
		}
	}
}

const tidyEvery = time.Minute
