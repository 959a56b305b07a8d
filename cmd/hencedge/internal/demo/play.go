package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

// announcer tells when its client's first subscription was granted, so that
// nothing is published before the evaluator listens to its one stream.
type announcer struct {
	transport.Client
	once  sync.Once
	ready chan struct{}
}

// Subscribe subscribes as the client does.
func (a *announcer) Subscribe(ctx context.Context, filter string, h func(transport.Delivery)) error {
	err := a.Client.Subscribe(ctx, filter, h)
	if err == nil {
		a.once.Do(func() { close(a.ready) })
	}
	return err
}

// play runs the roles until every window is shown, ctx ends, or one fails.
func (s *stage) play(ctx context.Context, show func(Row) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var roles sync.WaitGroup
	defer roles.Wait()
	defer stop() // before the wait above

	m := newMatcher(s)
	ended := make(chan error, 3)
	role := func(name string, run func() error) {
		roles.Go(func() {
			if err := run(); err != nil {
				ended <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	listening := make(chan struct{})
	holder, err := s.startHolder(ctx, m, role, func() { close(listening) })
	if err != nil {
		return err
	}
	defer hangUp(holder)
	if s.page != nil {
		defer s.page.close()
		if s.o.OnPage != nil {
			if err := s.o.OnPage(s.page.link); err != nil {
				return err
			}
		}
	}
	cloud, err := s.startEvaluator(ctx, m, role)
	if err != nil {
		return err
	}
	defer hangUp(cloud)
	for _, ready := range []chan struct{}{listening, cloud.ready} {
		select {
		case <-ready:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		case <-time.After(s.o.wait()):
			return errors.New("the broker did not take the subscriptions in time")
		}
	}
	// The agent stops when there are enough windows, so that the others have
	// no more to do than what is shown.
	sampling, enough := context.WithCancel(ctx)
	defer enough()
	m.enough = enough
	if err := s.startAgent(sampling, m, role); err != nil {
		return err
	}
	err = m.run(ctx, ended, show)
	// The roles stop before their clients hang up.
	stop()
	roles.Wait()
	return err
}

func hangUp(c transport.Client) {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	c.Close(ctx)
}

func (s *stage) startHolder(ctx context.Context, m *matcher, role func(string, func() error),
	ready func()) (transport.Client, error) {
	signers, err := keyholder.Signers(s.holder.Evaluators)
	if err != nil {
		return nil, err
	}
	r, err := keyholder.NewReader(s.set, keyholder.ReaderOptions{Signers: signers,
		TopicPrefix: s.holder.Broker.TopicPrefix, Context: s.context()})
	if err != nil {
		return nil, err
	}
	client, err := keyholder.Dial(ctx, s.holder.Broker, s.o.Logger)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if s.o.Web {
		if s.page, err = openPage(ctx, s, r, client); err != nil {
			hangUp(client)
			return nil, errors.Join(err, r.Close())
		}
	}
	role("key holder", func() error {
		err := keyholder.Watch(ctx, r, keyholder.WatchOptions{
			Client: client, TopicPrefix: s.holder.Broker.TopicPrefix, OnReady: ready,
			OnResult: func(res *keyholder.Result) error {
				now := time.Now()
				if err := s.page.keep(ctx, res); err != nil {
					return err
				}
				m.send(ctx, arrival{res, now})
				return nil
			},
			OnRefused: func(_ string, err error) {
				m.send(ctx, fmt.Errorf("the key holder refused a result: %w", err))
			},
		})
		return errors.Join(err, s.page.close(), r.Close())
	})
	return client, nil
}

func (s *stage) startEvaluator(ctx context.Context, m *matcher, role func(string, func() error)) (*announcer, error) {
	client, err := keyholder.Dial(ctx, s.evaluator.Broker, s.o.Logger)
	if err != nil {
		return nil, err
	}
	a := &announcer{Client: client, ready: make(chan struct{})}
	service, err := evaluator.New(s.evaluator, evaluator.Deps{
		Client: a, Context: s.fastContext, Logger: s.o.Logger,
		OnResult: func(e evaluator.Event) {
			s.page.evaluated(e)
			m.send(ctx, e)
		},
		OnRefused: func(reason string, err error) {
			m.send(ctx, fmt.Errorf("the evaluator refused a window (%s): %w", reason, err))
		},
	})
	if err != nil {
		hangUp(client)
		return nil, err
	}
	role("evaluator", func() error { return service.Run(ctx) })
	return a, nil
}

func (s *stage) startAgent(ctx context.Context, m *matcher, role func(string, func() error)) error {
	deps := agent.Deps{Root: s.o.Root, Version: s.o.Version, Logger: s.o.Logger, Observer: func(o agent.Observation) {
		s.page.encrypted(o)
		m.send(ctx, o)
	}}
	if !s.o.Compact {
		c, err := henc.NewContext(s.params, s.context()...)
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(s.agent.Keys.PublicKey)
		if err != nil {
			return err
		}
		if deps.PublicKey, err = c.UnmarshalPublicKey(raw); err != nil {
			return err
		}
		deps.Context = c
	}
	a, err := agent.New(s.agent, deps)
	if err != nil {
		return err
	}
	role("agent", func() error { return a.Run(ctx) })
	return nil
}
