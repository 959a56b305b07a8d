package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/store"
)

// Options configure a Console. All but Show, Desk, Enrolled and Now are required.
type Options struct {
	Holder *config.KeyHolder // with its defaults, Console and State included
	// Reader reads sealed results again, for the proof view. It stays open longer than the
	// Console.
	Reader *keyholder.Reader
	// History is the database, opened for reading alone so that no result waits for a query.
	History *store.Store
	Tally   *keyholder.Tally
	Logger  *slog.Logger
	Show    *Show // nil: not the demo
	Desk    Desk  // nil: the page does not know of boards that ask
	// Enrolled are boards of which the page shows what they say of themselves; nil: of none. Call ListenBoards.
	Enrolled Enrolled
	Now      func() time.Time // nil: time.Now
}

// Console is the page and what it shows. It is safe for concurrent use.
type Console struct {
	o        Options
	now      func() time.Time
	log      *slog.Logger
	listener net.Listener
	cert     *tls.Certificate // nil: without TLS
	name     string           // of the session's cookie
	quiet    time.Duration    // after which updates have a sign of life

	sessions sessions
	limits   limits
	fleet    fleet
	live     hub
	sealed   *sealed
	receipts chan given
	alarms   alarms
	passkeys *passkeys
	files    map[string]asset

	loading sync.WaitGroup
	stop    context.CancelFunc
}

// New listens where the configuration says, and reads what the database has of each series.
// It fails if the address is taken, or if the certificate cannot be read.
func New(ctx context.Context, o Options) (*Console, error) {
	c := &Console{o: o, now: o.Now, log: o.Logger, files: assets(), receipts: make(chan given, maxGiven),
		quiet: quietTime}
	if c.now == nil {
		c.now = time.Now
	}
	page := o.Holder.Console
	if err := c.loadCertificate(page); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	var err error
	if c.sealed, err = openSealed(o.Holder.State+sealedSuffix, int64(page.KeepSealed)); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.alarms, err = newAlarms(o.Holder); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.listener, err = net.Listen("tcp", page.Listen); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	_, port, _ := net.SplitHostPort(c.listener.Addr().String())
	c.name = cookieName(c.cert != nil, port)
	if c.passkeys, err = newPasskeys(o.Holder, port); err != nil {
		return nil, errors.Join(fmt.Errorf("console: %w", err), c.listener.Close())
	}
	c.fleet.approvals = c.approvals
	c.fleet.tally = o.Tally
	if o.Show != nil {
		o.Show.attach(&c.live)
	}
	ctx, c.stop = context.WithCancel(ctx)
	c.loading.Go(func() {
		all, err := o.History.Series(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("the page lacks what the database has of earlier results", "error", err)
		}
		for i := range all {
			s := &all[i]
			c.fleet.note(&keyholder.Result{Program: s.Program, Device: s.Device, Evaluator: s.Evaluator, Unit: s.Unit,
				Start: s.Start, End: s.End, Samples: s.Samples, Values: []float64{s.Value}, Bound: s.Bound},
				time.Time{})
		}
	})
	return c, nil
}

// loadCertificate reads the page's certificate, where there is one.
func (c *Console) loadCertificate(page *config.Console) error {
	if page.Cert == "" {
		return nil
	}
	if err := keyholder.Private(page.Key); err != nil {
		return fmt.Errorf("console.key: %w", err)
	}
	cert, err := tls.LoadX509KeyPair(page.Cert, page.Key)
	if err != nil {
		return fmt.Errorf("console.cert: %w", err)
	}
	c.cert = &cert
	return nil
}

// Check reads what a configuration names for the page: its certificate and key. It fails if the
// certificate is over, or names no host.
func Check(k *config.KeyHolder, now time.Time) error {
	if k.Console == nil || k.Console.Cert == "" {
		return nil
	}
	c := &Console{}
	if err := c.loadCertificate(k.Console); err != nil {
		return err
	}
	if _, err := pageURL(k.Console); err != nil {
		return err
	}
	if end := c.cert.Leaf.NotAfter; now.After(end) {
		return fmt.Errorf("console.cert: %s ended %s; renew it", k.Console.Cert, end.UTC().Format(time.DateOnly))
	}
	return nil
}

// Address is where the page is served, host:port.
func (c *Console) Address() string { return c.listener.Addr().String() }

// Run serves the page until ctx ends.
func (c *Console) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	srv := &http.Server{Handler: c.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog:    slog.NewLogLogger(c.log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx }}
	l := c.listener
	if c.cert != nil {
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*c.cert},
			NextProtos: []string{"http/1.1"}})
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { c.watchAlarms(ctx) })
	watching.Go(func() { c.watchBoards(ctx) })
	watching.Go(func() { c.keepReceipts(ctx) })
	watching.Go(func() {
		<-ctx.Done()
		last, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer done()
		if srv.Shutdown(last) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(l)
	stop()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("console: %w", err)
}

// Close frees the address. Call it after Run has ended.
func (c *Console) Close() error {
	c.stop()
	c.loading.Wait()
	if err := c.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// given is a receipt, with the objects that it calls taken.
type given struct {
	taken   [][32]byte
	receipt []byte
}

// maxGiven bounds the receipts that wait to be kept.
const maxGiven = 1024

// Receipt keeps a receipt for the proofs of the results that it is about, as keyholder.Receipts
// tells of it. It never waits: under a load that the disk cannot take, proofs lack receipts.
func (c *Console) Receipt(taken [][32]byte, receipt []byte) {
	select {
	case c.receipts <- given{taken, receipt}:
	default:
	}
}

// keepReceipts writes receipts until ctx ends, and then those that wait.
func (c *Console) keepReceipts(ctx context.Context) {
	for {
		select {
		case g := <-c.receipts:
			c.keepReceipt(g)
			continue
		default:
		}
		select {
		case g := <-c.receipts:
			c.keepReceipt(g)
		case <-ctx.Done():
			return
		}
	}
}

func (c *Console) keepReceipt(g given) {
	for _, id := range g.taken {
		if err := c.sealed.receipt(id, g.receipt); err != nil {
			c.sealed.tell(c.log, err)
		}
	}
}

// Observe shows a result that was stored. It never waits for a browser.
func (c *Console) Observe(r *keyholder.Result) {
	if err := c.sealed.keep(r.ID, r.Sealed); err != nil {
		c.sealed.tell(c.log, err)
	}
	c.fleet.note(r, c.now())
	c.live.send(newLive(r))
}
