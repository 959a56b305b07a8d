package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// connectTimeout bounds the first connection of Once, goodbyeTimeout the last
// messages of a stop.
const (
	connectTimeout = 30 * time.Second
	goodbyeTimeout = 5 * time.Second
)

// receiveMaximum is how many messages the strictest brokers let be unacknowledged: eight
// chunks, a question and a status fit.
const receiveMaximum = 10

// Bounds on what comes from the broker and is not handled yet: receipts, and the remote
// configuration.
const (
	maxInflight      = 64
	maxInflightBytes = 4 << 20
)

// connect dials the broker, or takes the client that was given. wait makes it
// fail when there is no connection in time; otherwise connecting goes on in the
// background. hangUp ends a connection that was made here.
func (a *Agent) connect(ctx context.Context, wait bool) (client transport.Client, hangUp func(), err error) {
	if c := a.deps.Client; c != nil {
		m, err := a.status(true)
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		if err := c.Publish(ctx, m.Topic, m.Payload, m.Retain); err != nil {
			return nil, nil, fmt.Errorf("publish the birth message: %w", err)
		}
		return c, func() {}, nil
	}
	o, err := a.options(!wait)
	if err != nil {
		return nil, nil, err
	}
	if wait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, connectTimeout)
		defer cancel()
	}
	c, err := mqtt.Dial(ctx, o)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the broker: %w", err)
	}
	return c, func() {
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			a.log.Warn("the connection did not close cleanly", "error", err)
		}
	}, nil
}

// filters returns all that the agent subscribes to.
func (a *Agent) filters() []string {
	prefix, device := a.cfg.Broker.TopicPrefix, a.cfg.Device
	return []string{transport.ReceiptTopic(prefix, device), transport.RemoteTopic(prefix, device),
		transport.StatusTopic(prefix, device)}
}

// options returns how the configuration says to connect.
func (a *Agent) options(background bool) (mqtt.Options, error) {
	o, err := daemon.BrokerOptions(a.cfg.Broker, a.log)
	if err != nil {
		return mqtt.Options{}, err
	}
	if files := o.TLSSource; files != nil {
		o.TLSSource = func() *tls.Config {
			conf := files()
			a.shown.Store(conf)
			return conf
		}
		a.shown.Store(files())
	}
	o.Will = func() (transport.Message, error) { return a.status(false) }
	o.Birth = func() (transport.Message, error) { return a.status(true) }
	o.Background, o.MaxPending, o.Filters = background, receiveMaximum, a.filters()
	o.MaxInflight, o.MaxInflightBytes = maxInflight, maxInflightBytes
	o.OnConnect = func() { a.link.set(true, a.now()) }
	o.OnLost = func(err error) {
		a.link.set(false, a.now())
		a.link.ended(errors.Is(err, mqtt.ErrShort), a.now())
		a.link.failed(err, a.now())
	}
	return o, nil
}

// statusRoom is what header, signature and chunk add to the body of a status.
const statusRoom = 1 << 10

// status makes a signed birth message or last will: one chunk, retained.
func (a *Agent) status(online bool) (transport.Message, error) {
	keys := a.current()
	st := transport.Status{Online: online, Version: a.deps.Version, Streams: a.streamStatus(),
		Since: a.since.wall.UnixNano(), KeyID: keys.ID, KeyEpoch: keys.Epoch,
		CertificateEnd: a.certificateEnd()}
	st.Fit(min(int(a.cfg.Broker.ChunkSize), transport.DefaultChunkSize) - statusRoom)
	body, err := transport.MarshalStatus(st)
	if err != nil {
		return transport.Message{}, err
	}
	sequence, err := a.state.Take("")
	if err != nil {
		return transport.Message{}, err
	}
	now, boot := a.clock.Now().UnixNano(), a.state.Boot()
	meta := transport.Meta{Kind: transport.KindStatus, Device: a.cfg.Device,
		BootEpoch: boot, Sequence: sequence, Start: now, End: now}
	a.duplicates.issued(&meta)
	object, err := transport.Seal(meta, body, keys.Signing)
	if err != nil {
		return transport.Message{}, err
	}
	chunks, err := transport.Split(object, transport.DefaultChunkSize)
	if err != nil {
		return transport.Message{}, err
	}
	payload, err := chunks[0].Marshal()
	if err != nil {
		return transport.Message{}, err
	}
	return transport.Message{Topic: transport.StatusTopic(a.cfg.Broker.TopicPrefix, a.cfg.Device), Payload: payload,
		Retain: true}, nil
}

// certificateEnd returns the end of the client certificate that the broker is shown, as a renewal left it, in
// Unix nanoseconds; 0: it is shown none.
func (a *Agent) certificateEnd() int64 {
	conf := a.shown.Load()
	if conf == nil || conf.GetClientCertificate == nil {
		return 0
	}
	cert, err := conf.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil || cert.Leaf == nil || cert.Leaf.NotAfter.Unix() < 0 || cert.Leaf.NotAfter.Year() > 2261 {
		return 0 // what is wrong with it is told elsewhere
	}
	return cert.Leaf.NotAfter.UnixNano()
}

// renewalEvery is how often an agent looks whether its client certificate was renewed.
const renewalEvery = 30 * time.Second

// announceRenewals publishes a birth message for each renewal of the client certificate, until stop is called. The
// connection goes on meanwhile, so nothing else would tell of it.
func (a *Agent) announceRenewals(ctx context.Context, client transport.Client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(renewalEvery)
		defer tick.Stop()
		a.renewals(ctx, client, tick.C)
	})
	return func() { cancel(); wg.Wait() }
}

// renewals looks at each tick.
func (a *Agent) renewals(ctx context.Context, client transport.Client, look <-chan time.Time) {
	told := a.certificateEnd()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look:
		}
		end := a.certificateEnd()
		if end == told || !client.Connected() {
			continue
		}
		told = end
		a.announce(ctx, client)
	}
}

// announce publishes a birth message beside that of the connection.
func (a *Agent) announce(ctx context.Context, client transport.Client) {
	m, err := a.status(true)
	if err == nil {
		err = client.Publish(ctx, m.Topic, m.Payload, m.Retain)
	}
	if err != nil && ctx.Err() == nil {
		a.log.Warn("birth message not published", "error", err)
	}
}

// streamStatus describes the streams for the status message, as many as it can name.
func (a *Agent) streamStatus() []transport.StreamStatus {
	var list []transport.StreamStatus
	for _, s := range a.streams {
		list = append(list, daemon.DescribeStream(s.Config))
	}
	slices.SortFunc(list, func(a, b transport.StreamStatus) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(len(list), transport.MaxStatusStreams)]
}

// goodbye reports the agent offline; the last will is not sent on an orderly
// stop.
func (a *Agent) goodbye(client transport.Client) {
	if !client.Connected() {
		return
	}
	m, err := a.status(false)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
		defer cancel()
		err = client.Publish(ctx, m.Topic, m.Payload, m.Retain)
	}
	if err != nil {
		a.log.Warn("could not report the stop", "error", err)
	}
}
