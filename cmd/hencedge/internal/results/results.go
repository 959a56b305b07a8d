package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/internal/traces"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

// Command returns "results" with all that is below it.
func Command(c *cli.App) *cobra.Command {
	a := &app{c}
	g := cli.Group("results", "decrypt and check what evaluators publish",
		`A result is a sealed object: an encrypted value with a signed header. The key holder
trusts the evaluators whose public keys stand in the configuration or in --signer. It
decrypts the results of approved programs and refuses everything else; each kind of
refusal has its own error.`,
		a.approveCommand(), a.watchCommand(), a.decryptCommand(), a.verifyCommand(), a.alertsCommand())
	g.AddCommand(a.storeCommands()...)
	return g
}

func (a *app) watchCommand() *cobra.Command {
	var f holderFlags
	var format, save, metrics, out string
	var topics, only []string
	var count int
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "follow decrypted results as they arrive",
		Long: `watch subscribes to the results on the configured broker. It verifies and decrypts
each and prints it as a row of a table, or as data with --format. Refused objects are
logged on standard error and do not affect later ones. watch runs until it is
interrupted, or for --count results. It raises the alarms that the configuration asks for
under "alerts" and delivers them; "results alerts" shows them.`,
		Example: `  hencedge results watch -c keyholder.yaml
  hencedge results watch --json --count 10`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.config = cmp.Or(f.config, defaultHolder)
			if a.JSON {
				format = "ndjson"
			}
			if count < 0 {
				return cli.UsageHint(cmd, fmt.Errorf("--count %d: use 1 or more, or 0 for no end", count))
			}
			if !slices.Contains([]string{"", "table", "ndjson", "csv"}, format) {
				return cli.UsageHint(cmd, fmt.Errorf("--format %q: use table, ndjson or csv", format))
			}
			return a.watch(cmd, &f, watchFlags{format, save, metrics, out, topics, only, count}, a.print)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&format, "format", "", "table, ndjson or csv (default the configuration's output)")
	cmd.Flags().StringArrayVar(&topics, "topic", nil,
		"also follow this topic, in addition to the configuration's, for a program with its own topic")
	cmd.Flags().StringSliceVar(&only, "program", nil, "follow only these programs (default the configuration's)")
	cmd.Flags().StringVar(&save, "save", "",
		"also store every sealed result in this directory, which is made if necessary")
	cmd.Flags().StringVar(&out, "out", "",
		"append to this file, made for this user alone, instead of standard output; SIGHUP opens it anew")
	cmd.Flags().StringVar(&metrics, "metrics", "", "serve counts of results and refusals for Prometheus on this "+
		"host:port")
	cmd.Flags().IntVar(&count, "count", 0, "stop after this many results; 0 goes on")
	a.JSONFlag(cmd, "one JSON object a line, the same as --format ndjson")
	return cmd
}

type watchFlags struct {
	format, save, metrics, out string
	topics, only               []string
	count                      int
}

// watch follows results and hands them to what open sets as session.write. finish is called
// when no result comes any more.
func (a *app) watch(cmd *cobra.Command, f *holderFlags, w watchFlags,
	open func(context.Context, *session) (finish func() error, err error)) (err error) {
	log, err := a.Logger()
	if err != nil {
		return err
	}
	a.TellProtection(log)
	cfg, err := f.load()
	if err != nil {
		return err
	}
	receipts, err := f.receipts(cfg, log)
	if err != nil {
		return err
	}
	o := keyholder.ReaderOptions{}
	if receipts != nil {
		defer receipts.Close()
		o.Replay = receipts.Guard()
	}
	r, err := f.open(cmd, cfg, o)
	if err != nil {
		return err
	}
	defer r.Close()
	w.complete(cfg)
	if err := r.Load(); err != nil {
		return err
	}
	release, err := r.Claim(cfg.Broker.URL, cfg.Broker.ClientID)
	if err != nil {
		return err
	}
	defer release()
	s := &session{cfg: cfg, flags: w, version: a.Version, log: log, reader: r, receipts: receipts}
	if s.service, err = a.newHolderService(w.out, log); err != nil {
		return err
	}
	defer s.service.close()
	ctx := cmd.Context()
	finish, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, finish()) }()
	return s.follow(ctx, r)
}

// print makes results lines of standard output.
func (a *app) print(_ context.Context, s *session) (finish func() error, err error) {
	write, err := a.resultWriter(s.flags.format)
	s.write = s.service.writing(write)
	return func() error { return nil }, err
}

// follow connects to the broker and hands results on until ctx ends or the alarms cannot go
// on.
func (s *session) follow(ctx context.Context, r *keyholder.Reader) error {
	cfg, w, log := s.cfg, s.flags, s.log
	if w.save != "" {
		if err := os.MkdirAll(w.save, 0o755); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	var err error
	if s.alarms, err = startAlarms(ctx, cfg, log); err != nil {
		return err
	}
	defer s.alarms.stop()
	s.service.start(ctx)
	client, err := keyholder.Dial(ctx, cfg.Broker, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer cli.CloseClient(client)
	if s.receipts != nil {
		s.receipts.Use(client)
		s.tally.Damage(s.receipts.Damaged())
	}
	tracer, err := traces.New(cfg.Traces, traces.Options{Role: "keyholder", Name: cfg.Name, Version: s.version,
		Logger: log})
	if err != nil {
		return err
	}
	defer tracer.Close()
	s.metrics = append(s.metrics, tracer)
	stopMetrics, err := daemon.ServeMetrics(w.metrics, s.collector(), log)
	if err != nil {
		return err
	}
	defer stopMetrics()
	err = keyholder.Watch(s.alarms.ctx, r, keyholder.WatchOptions{
		Client: client, TopicPrefix: cfg.Broker.TopicPrefix, Programs: w.only, Topics: w.topics,
		Limits: keyholder.Limits(cfg.Limits), Receipts: s.receipts, Count: w.count, Traces: tracer,
		OnReady: func() {
			s.service.connected()
			if s.connected != nil {
				s.connected(client)
			}
			log.Info("watching results", "broker", cfg.Broker.URL, "programs", w.only)
		},
		OnResult: s.result, OnUnread: s.unread, OnRefused: s.refused,
	})
	if s.alarms.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // a result waited for the database; it is still in the inbox
	}
	return errors.Join(err, s.alarms.finish(ctx))
}

// complete takes from the configuration what no flag says.
func (w *watchFlags) complete(cfg *config.KeyHolder) {
	w.format = cmp.Or(w.format, cfg.Output)
	if len(w.only) == 0 {
		w.only = cfg.Programs
	}
	for _, topic := range cfg.Topics {
		if !slices.Contains(w.topics, topic) {
			w.topics = append(w.topics, topic)
		}
	}
}

// session hands on what a watch reads and refuses.
type session struct {
	cfg      *config.KeyHolder
	reader   *keyholder.Reader
	receipts *keyholder.Receipts // nil: none are given
	flags    watchFlags
	version  string
	service  *holderService
	write    func(*keyholder.Result) error
	saved    [32]byte // the newest object in flags.save
	metrics  []prometheus.Collector
	tally    keyholder.Tally
	alarms   *alarms
	log      *slog.Logger
	// connected is told of the connection to the broker when results can come; nil: nobody is.
	connected func(transport.Client)
}

// result hands on one decrypted result. An error ends the watch.
func (s *session) result(r *keyholder.Result) error {
	if odd := s.tally.Result(r); odd != "" {
		s.log.Warn("the times of a program's results have a gap or a repetition",
			"program", r.Program, "device", r.Device, "sequence", r.Sequence, "odd", odd)
	}
	if err := s.service.writing(s.note)(r); err != nil {
		return err
	}
	if err := s.write(r); err != nil {
		return err
	}
	s.service.handed()
	return nil
}

// note does what comes before a result is written: it keeps the object and looks for alarms.
func (s *session) note(r *keyholder.Result) error {
	if s.flags.save != "" && r.ID != s.saved { // the results of a pack are one object
		if _, err := r.Save(s.flags.save); err != nil {
			return err
		}
		s.saved = r.ID
	}
	return s.alarms.observe(r)
}

// unread logs a result that was taken and cannot be read.
func (s *session) unread(topic string, err error) {
	s.log.Error("a result was taken and cannot be read; if state is configured, it is kept in STATE.unread",
		"class", s.tally.Refuse(err), "topic", topic, "error", err)
}

// refused logs an object that was not taken.
func (s *session) refused(topic string, err error) {
	s.log.Warn("result refused", "class", s.tally.Refuse(err), "topic", topic, "error", err)
}

// resultWriter returns a function that prints results in a format.
func (a *app) resultWriter(format string) (func(*keyholder.Result) error, error) {
	if format != "table" {
		w, err := keyholder.NewWriter(a.Std.Out, format)
		if err != nil {
			return nil, err
		}
		return w.Write, nil
	}
	t := cli.NewTable(a.Std.Out, cli.Column{Title: "window", Width: 19}, cli.Column{Title: "program", Width: 16},
		cli.Column{Title: "value", Width: 14, Right: true}, cli.Column{Title: "+/-", Width: 9, Right: true},
		cli.Column{Title: "samples", Right: true}, cli.Column{Title: "epoch", Right: true},
		cli.Column{Title: "evaluator"})
	headed := false
	return func(r *keyholder.Result) error {
		if !headed {
			headed = true
			if err := t.Header(); err != nil {
				return err
			}
		}
		program := r.Program
		if r.Device != "" {
			program += "/" + r.Device
		}
		samples := fmt.Sprint(r.Samples)
		if f := r.Fleet; f != nil {
			program += fmt.Sprintf(" (%d devices)", f.Devices)
			samples = fmt.Sprint(f.Samples)
		}
		return t.Row(r.Start.Local().Format("2006-01-02 15:04:05"), program, resultValues(r),
			fmt.Sprintf("%.2g", r.Bound),
			samples, fmt.Sprint(r.Epoch), r.Evaluator)
	}, nil
}

// resultValues returns the value with its unit, or the first few values of a vector.
func resultValues(r *keyholder.Result) string {
	var parts []string
	for i, v := range r.Values {
		if i == 4 {
			parts = append(parts, fmt.Sprintf("... (%d)", len(r.Values)))
			break
		}
		parts = append(parts, strconv.FormatFloat(v, 'g', 8, 64))
	}
	return cli.WithUnit(strings.Join(parts, " "), r.Unit)
}

func (a *app) decryptCommand() *cobra.Command {
	var f holderFlags
	var format string
	cmd := &cobra.Command{
		Use:   "decrypt [FILE...]",
		Short: "decrypt stored results to NDJSON or CSV",
		Long: `decrypt reads sealed results from files, or one from standard input. It verifies and
decrypts each and prints it, in any order and as often as it is given. Of a pack it prints
every result. If a file, or a result of a pack, is refused, it says so on standard error,
still reads the others, and exits with code 1.`,
		Example: `  hencedge results decrypt -c keyholder.yaml archive/*.cose > values.ndjson
  hencedge results decrypt --signer cloud=ed25519:... --format csv result.cose`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(keyholder.Formats(), format) {
				return cli.UsageHint(cmd,
					fmt.Errorf("--format %q: use %s", format, strings.Join(keyholder.Formats(), " or ")))
			}
			w, err := keyholder.NewWriter(a.Std.Out, format)
			if err != nil {
				return err
			}
			return a.stored(cmd, &f, args, func(r *keyholder.Reader, _ string, p keyholder.Proof) error {
				all, refused, err := r.ReadAll("", p.Sealed)
				if err != nil {
					return err
				}
				for _, res := range all {
					if err := w.Write(res); err != nil {
						return err
					}
				}
				return errors.Join(refused...)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&format, "format", "ndjson", "ndjson or csv")
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	var f holderFlags
	cmd := &cobra.Command{
		Use:   "verify [FILE...]",
		Short: "check signature, key, epoch and parameters of stored results",
		Long: `verify checks sealed results from files, or one from standard input, without
decrypting them: who signed them, that they are unaltered, and that key, epoch and
parameters belong to the key set. A file that was taken from the page may also hold the
receipt that the key holder gave for the result, which is then checked too. verify reads no
secret key. The exit code is 1 if any of them is refused.`,
		Example: "  hencedge results verify -c keyholder.yaml archive/*.cose --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.stored(cmd, &f, args, a.verify)
		},
	}
	f.register(cmd)
	a.JSONFlag(cmd, "one JSON object a line")
	return cmd
}

// verify prints whether a result, and its receipt if the file has one, are good.
func (a *app) verify(r *keyholder.Reader, name string, p keyholder.Proof) error {
	obj, err := r.Verify("", p.Sealed)
	var receipt keyholder.Step
	if err == nil && len(p.Receipt) > 0 {
		receipt, err = r.Receipt(p.Receipt, obj.ID, obj.Meta.Device)
	}
	v := verified{File: name, OK: err == nil}
	if err != nil {
		v.Class, v.Error = keyholder.Class(err), err.Error()
	} else {
		m := obj.Meta
		v.Device, v.Packed = m.Subject, m.Packed
		v.Program, v.Evaluator, v.Epoch, v.BootEpoch, v.Sequence, v.ID = m.Program, m.Device, m.KeyEpoch, m.BootEpoch,
			m.Sequence, fmt.Sprintf("%x", obj.ID)
		v.Receipt = receipt.Fact("given")
	}
	var werr error
	switch {
	case a.JSON:
		werr = cli.JSONLine(a.Std.Out, v)
	case v.OK:
		text := fmt.Sprintf("%s: good: %s by %s, epoch %d, sequence %d.%d", name, v.Program, v.Evaluator, v.Epoch,
			v.BootEpoch, v.Sequence)
		if v.Receipt != "" {
			text += ", receipt of " + v.Receipt
		}
		_, werr = fmt.Fprintln(a.Std.Out, text)
	default:
		_, werr = fmt.Fprintf(a.Std.Out, "%s: refused (%s)\n", name, v.Class)
	}
	return errors.Join(err, werr)
}

// verified is what "results verify --json" prints of one file.
type verified struct {
	File  string `json:"file"`
	OK    bool   `json:"ok"`
	Class string `json:"class,omitempty"` // of the refusal
	Error string `json:"error,omitempty"`

	Program   string `json:"program,omitempty"`
	Device    string `json:"device,omitempty"`
	Evaluator string `json:"evaluator,omitempty"`
	Epoch     uint32 `json:"epoch,omitempty"`
	BootEpoch uint64 `json:"boot_epoch,omitempty"`
	Sequence  uint64 `json:"sequence,omitempty"`
	ID        string `json:"id,omitempty"`
	Packed    uint32 `json:"packed,omitempty"`  // results of a pack
	Receipt   string `json:"receipt,omitempty"` // when the key holder gave it
}

// maxStored is the largest stored object that is read into memory.
const maxStored = transport.DefaultMaxObject

// stored calls do for every file, or for standard input if there are none.
func (a *app) stored(cmd *cobra.Command, f *holderFlags, files []string,
	do func(r *keyholder.Reader, name string, p keyholder.Proof) error) error {
	cfg, err := f.load()
	if err != nil {
		return err
	}
	r, err := f.open(cmd, cfg, keyholder.ReaderOptions{Archive: true})
	if err != nil {
		return err
	}
	defer r.Close()
	if len(files) == 0 {
		files = []string{"-"}
	}
	failed := 0
	for _, name := range files {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		sealed, err := a.readObject(name)
		if err == nil {
			err = do(r, name, keyholder.CutProof(sealed))
		}
		if err != nil {
			failed++
			fmt.Fprintf(a.Std.Err, "hencedge: %s: %v\n", name, err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d results: %w", failed, len(files), cli.ErrQuiet)
	}
	return nil
}

// readObject reads a stored object, or standard input for "-".
func (a *app) readObject(name string) ([]byte, error) {
	b, err := a.ReadAtMost(name, maxStored)
	if errors.Is(err, cli.ErrTooLong) {
		err = fmt.Errorf("%w: more than %d bytes", transport.ErrTooLarge, maxStored)
	}
	return b, err
}
