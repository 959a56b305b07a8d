package evaluator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// Connected reports whether there is a connection to the broker now.
func (s *Service) Connected() bool { return s.link.connected() }

// subscribe asks for the readings of every stream that programs use.
func (s *Service) subscribe(ctx context.Context, client transport.Client) error {
	var g errgroup.Group
	g.Go(func() error { return transport.SubscribeAll(ctx, client, s.roster.readings(), s.handle) })
	g.Go(func() error { return s.custody.listen(ctx, client) })
	if err := g.Wait(); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	s.devices.subscribeStatus(ctx, client)
	return nil
}

// filters returns all that the service subscribes to.
func (s *Service) filters() []string {
	own := transport.ReceiptTopic(s.cfg.Broker.TopicPrefix, s.cfg.Name)
	return slices.Concat([]string{own}, s.roster.readings(), s.roster.filters(transport.AskTopic),
		s.roster.filters(transport.StatusTopic))
}

// maxInflightBytes bounds the chunks that intakes have not taken: 1024 of the default size, which
// is as many as a broker sends unacknowledged, in all brokers that we know. Without a store a
// worker waits until the broker has acknowledged its result, and that answer lies behind them.
const maxInflightBytes = 128 << 20

// dial connects to the broker, with a birth message and a last will.
func (s *Service) dial(ctx context.Context) (transport.Client, error) {
	o, err := daemon.BrokerOptions(s.cfg.Broker, s.log)
	if err != nil {
		return nil, fmt.Errorf("%w: broker: %w", ErrConfig, err)
	}
	o.Birth = func() (transport.Message, error) { return s.status(true) }
	o.Will = func() (transport.Message, error) { return s.status(false) }
	o.OnRefused, o.Background, o.Filters = s.refuse, true, s.filters()
	o.MaxInflightBytes = maxInflightBytes
	var c transport.Client
	dialled := make(chan struct{})
	defer close(dialled)
	o.OnConnect = func() {
		s.log.Info("connected to the broker", "url", o.URL)
		if <-dialled; c != nil { // a broker may have forgotten what it retained
			s.announce(ctx, c)
		}
	}
	o.OnLost = func(err error) { s.log.Warn("connection to the broker lost", "error", err) }
	if c, err = mqtt.Dial(ctx, o); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.URL, err)
	}
	return c, nil
}

// status returns a sealed birth or death message.
func (s *Service) status(online bool) (transport.Message, error) {
	body, err := transport.MarshalStatus(transport.Status{Online: online, Version: s.deps.Version,
		Since: s.now().UnixNano()})
	if err != nil {
		return transport.Message{}, err
	}
	now := s.now().UnixNano()
	m := transport.Meta{Kind: transport.KindStatus, Device: s.cfg.Name, Start: now, End: now}
	m.BootEpoch, m.Sequence = s.state.Sequence("status")
	sealed, err := transport.Seal(m, body, s.signer)
	if err != nil {
		return transport.Message{}, err
	}
	pieces, err := transport.Split(sealed, int(s.cfg.Broker.ChunkSize))
	if err != nil || len(pieces) != 1 {
		return transport.Message{}, fmt.Errorf("status of %d bytes in %d messages: %w", len(sealed), len(pieces), err)
	}
	payload, err := pieces[0].Marshal()
	return transport.Message{Topic: m.Topic(s.cfg.Broker.TopicPrefix), Payload: payload, Retain: true}, err
}

// goodbye announces an orderly stop, for which the last will is not sent.
func (s *Service) goodbye(client transport.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	var err error
	if client.Connected() {
		var m transport.Message
		if m, err = s.status(false); err == nil {
			err = client.Publish(ctx, m.Topic, m.Payload, m.Retain)
		}
	} else {
		cancel() // there is nobody to wait for
	}
	// It is closed in any case: one that stays would go on connecting under the name of
	// the next start of this process.
	if cerr := client.Close(ctx); ctx.Err() == nil {
		err = errors.Join(err, cerr)
	}
	if err != nil {
		s.log.Warn("the connection did not close cleanly", "error", err)
	}
}

const goodbyeTimeout = 5 * time.Second
