//go:build !nostore

package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/store"
	"github.com/hencedge/hencedge/keyholder/store/parquet"
	"github.com/hencedge/hencedge/keyholder/store/sink"
)

// storeCommands returns the commands for the database of results.
func (a *app) storeCommands() []*cobra.Command {
	return []*cobra.Command{a.serveCommand(), a.queryCommand()}
}

func (a *app) serveCommand() *cobra.Command {
	var f holderFlags
	var w watchFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: serveShort,
		Long: `serve does what "results watch" does, and keeps the results in a database instead of
printing them: each exactly once, also over kills and full disks. While the database
takes nothing, results wait. "history" in the configuration says which database, and how
long results stay in it; "results query" reads it.

Do not run it beside "results watch": each would get some of the results.`,
		Example: `  hencedge results serve -c keyholder.yaml
  hencedge results serve -c keyholder.yaml --metrics 127.0.0.1:9464`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.config = cmp.Or(f.config, defaultHolder)
			if w.count < 0 {
				return cli.UsageHint(cmd, fmt.Errorf("--count %d: use 1 or more, or 0 for no end", w.count))
			}
			return a.watch(cmd, &f, w, keepInStore)
		},
	}
	f.register(cmd)
	cmd.Flags().StringArrayVar(&w.topics, "topic", nil,
		"also follow this topic, in addition to the configuration's, for a program with its own topic")
	cmd.Flags().StringSliceVar(&w.only, "program", nil, "follow only these programs (default the configuration's)")
	cmd.Flags().StringVar(&w.save, "save", "",
		"also store every sealed result in this directory, which is made if necessary")
	cmd.Flags().StringVar(&w.metrics, "metrics", "", "serve counts of results and refusals for Prometheus on this "+
		"host:port")
	cmd.Flags().IntVar(&w.count, "count", 0, "stop after this many results; 0 goes on")
	return cmd
}

// keepInStore makes results rows of the database.
func keepInStore(ctx context.Context, s *session) (finish func() error, err error) {
	if s.cfg.State == "" {
		return nil, cli.Usage(errors.New(`"results serve" needs "state" in the configuration: it remembers which ` +
			"results are in the database already"))
	}
	if !s.cfg.Receipts {
		s.log.Warn("receipts is false: results that were taken and are not in the database yet are lost when this " +
			"process is killed")
	}
	h := s.cfg.Kept()
	st, err := store.Open(ctx, store.Options{History: h, Begin: s.service.pulse.Begin, Logger: s.log})
	if err != nil {
		return nil, err
	}
	sinks, err := sink.Open(sink.Options{Store: st, Sinks: h.Sinks, Logger: s.log})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	for _, w := range keyholder.SinkWarnings(s.cfg) {
		s.log.Warn(w)
	}
	s.metrics = append(s.metrics, st, sinks)
	if h.LastValues {
		s.metrics = append(s.metrics, store.LastValues{Store: st})
	}
	page, err := openPage(ctx, s)
	if err != nil {
		sinks.Close()
		return nil, errors.Join(err, st.Close())
	}
	s.write = func(r *keyholder.Result) error {
		err := st.Keep(s.alarms.ctx, r)
		if err == nil {
			page.observe(r)
		}
		return err
	}
	running, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { st.Run(running) })
	beside.Go(func() { sinks.Run(running) })
	return func() error {
		stop()
		beside.Wait()
		sinks.Close()
		return errors.Join(page.close(), st.Close())
	}, nil
}

func (a *app) queryCommand() *cobra.Command {
	var file, format, from, to string
	q := store.Query{}
	cmd := &cobra.Command{
		Use:   "query",
		Short: queryShort,
		Long: `query prints results that "results serve" has stored, in the order of their windows,
also while it runs. --from and --to are points in time (RFC 3339 or a date), or a time
before now such as 36h or 7d. A window counts if it begins at --from or later, and before
--to. NDJSON and CSV are those of "results watch"; Parquet has the columns of the CSV.`,
		Example: `  hencedge results query -c keyholder.yaml --program soc-mean --from 24h
  hencedge results query --device board7 --from 2026-11-01 --to 2026-12-01 --limit 0 --format csv
  hencedge results query --limit 0 --format parquet > results.parquet`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if a.JSON {
				format = "ndjson"
			}
			if !slices.Contains([]string{"table", "ndjson", "csv", "parquet"}, format) {
				return cli.UsageHint(cmd, fmt.Errorf("--format %q: use table, ndjson, csv or parquet", format))
			}
			if f, ok := a.Std.Out.(*os.File); ok && format == "parquet" && cli.IsTerminal(f) {
				return cli.UsageHint(cmd, errors.New("--format parquet is not for a terminal; add > results.parquet"))
			}
			if q.Limit < 0 {
				return cli.UsageHint(cmd, fmt.Errorf("--limit %d: use 1 or more, or 0 for all", q.Limit))
			}
			now := time.Now()
			if q.From, err = parseTime(from, now); err != nil {
				return cli.UsageHint(cmd, fmt.Errorf("--from: %w", err))
			}
			if q.To, err = parseTime(to, now); err != nil {
				return cli.UsageHint(cmd, fmt.Errorf("--to: %w", err))
			}
			return a.query(cmd.Context(), file, q, format)
		},
	}
	cli.ConfigFlag(cmd, &file, defaultHolder)
	cmd.Flags().StringSliceVar(&q.Programs, "program", nil, "results of these programs (default all)")
	cmd.Flags().StringSliceVar(&q.Devices, "device", nil, "results about these devices of a class (default all)")
	cmd.Flags().StringVar(&from, "from", "", "windows that begin then or later")
	cmd.Flags().StringVar(&to, "to", "", "windows that begin before")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "the newest of them; 0: all")
	cmd.Flags().StringVar(&format, "format", "table", "table, ndjson, csv or parquet")
	a.JSONFlag(cmd, "one JSON object a line, the same as --format ndjson")
	return cmd
}

// query prints what a query of the database finds.
func (a *app) query(ctx context.Context, file string, q store.Query, format string) (err error) {
	st, err := a.openStore(ctx, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if format == "parquet" {
		w := parquet.NewWriter(a.Std.Out)
		if err := a.each(ctx, st, q, w.Write); err != nil {
			return err
		}
		return w.Close()
	}
	write, err := a.resultWriter(format)
	if err != nil {
		return err
	}
	return a.each(ctx, st, q, write)
}

// each writes what a query finds. It counts the results on standard error, unless they go to a
// terminal, where they can be seen themselves.
func (a *app) each(ctx context.Context, st *store.Store, q store.Query, write func(*keyholder.Result) error) error {
	if f, ok := a.Std.Out.(*os.File); ok && cli.IsTerminal(f) {
		return st.Each(ctx, q, write)
	}
	p, n := a.Progress("results"), int64(0)
	defer p.Done()
	return st.Each(ctx, q, func(r *keyholder.Result) error {
		n++
		p.Update(n, 0)
		return write(r)
	})
}

// openStore opens the database of a configuration for reading.
func (a *app) openStore(ctx context.Context, file string) (*store.Store, error) {
	log, err := a.Logger()
	if err != nil {
		return nil, err
	}
	f := holderFlags{config: file}
	cfg, err := f.load()
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, store.Options{History: cfg.Kept(), ReadOnly: true, Logger: log})
}
