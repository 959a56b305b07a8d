package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// stage is everything that is set up before the roles begin.
type stage struct {
	o      Options
	params henc.Parameters
	dir    string // private, removed at the end
	broker server
	ca     *tlsutil.DevCA
	cast   Cast

	plan      *evaluator.Plan
	agent     *config.Agent
	evaluator *config.Evaluator
	holder    *config.KeyHolder
	set       *keyholder.Set
	page      *page // nil: none
}

func newStage(o Options, params henc.Parameters) (*stage, error) {
	s := &stage{o: o, params: params}
	if err := s.build(); err != nil {
		s.clear()
		return nil, err
	}
	return s, nil
}

func (s *stage) build() (err error) {
	// Directories below are 0700: MkdirTemp's default.
	if s.dir, err = os.MkdirTemp("", "hencedge-demo-"); err != nil {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	stream, err := s.stream()
	if err != nil {
		return err
	}
	if err := s.startBroker(); err != nil {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	if err := s.configure(stream); err != nil {
		return err
	}
	if err := s.makeKeys(); err != nil {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	return nil
}

// clear stops the broker and removes every file, secrets included.
func (s *stage) clear() {
	if s.broker != nil {
		s.broker.Close()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// stream describes the window over this machine's sensors.
func (s *stage) stream() (config.Stream, error) {
	found := choose(sensor.Machine{Root: s.o.Root}.Discover())
	if len(found) == 0 {
		return config.Stream{}, fmt.Errorf("%w: this machine has no readable sensor under /sys or /proc", ErrSetup)
	}
	st := config.Stream{Name: streamName, Interval: s.o.Interval, Window: config.Window{Samples: s.o.Samples},
		Params: s.params.Name()}
	if s.o.Compact {
		st.Mode = config.ModeCompact
	}
	for _, f := range found {
		st.Channels = append(st.Channels, f.Channel())
	}
	st.SetDefaults()
	if st.Slots() > s.params.Slots() {
		return st, fmt.Errorf("%w: %d channels of %d samples take %d slots, %s has %d", ErrSetup, len(st.Channels),
			s.o.Samples, st.Slots(), s.params.Name(), s.params.Slots())
	}
	return st, nil
}

// startBroker runs a broker that takes only clients with a certificate.
func (s *stage) startBroker() error {
	ca, err := tlsutil.NewDevCA("hencedge demo")
	if err != nil {
		return err
	}
	conf, err := ca.ServerConfig(true)
	if err != nil {
		return err
	}
	s.ca = ca
	if err := os.WriteFile(s.path("ca.pem"), ca.PEM(), 0o600); err != nil {
		return err
	}
	s.broker, err = startServer(conf)
	return err
}

func (s *stage) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// connection returns the broker section of a role, with a certificate of its own.
func (s *stage) connection(role string) (config.Broker, error) {
	cert, err := s.ca.Client(role)
	if err != nil {
		return config.Broker{}, err
	}
	certPEM, keyPEM, err := tlsutil.PEM(cert)
	if err != nil {
		return config.Broker{}, err
	}
	b := config.Broker{URL: s.broker.URL(), CA: s.path("ca.pem"), Cert: s.path(role + ".pem"),
		Key: s.path(role + ".tls.key")}
	return b, errors.Join(os.WriteFile(b.Cert, certPEM, 0o600), os.WriteFile(b.Key, keyPEM, 0o600))
}

// identity makes the signing key of a role and returns its file and public text.
func (s *stage) identity(role string) (file, public string, err error) {
	k, err := transport.NewSigningKey()
	if err != nil {
		return "", "", err
	}
	defer k.Wipe()
	file = s.path(role + ".signing.key")
	return file, k.PublicText(), k.Save(file)
}

// configure writes the three configurations and compiles the programs.
func (s *stage) configure(stream config.Stream) error {
	keep, left := fitting(candidates(stream.Channels), stream, s.params)
	if len(keep) == 0 {
		return fmt.Errorf("%w: no program fits %s: %v", ErrSetup, s.params.Name(), left)
	}
	agentKey, agentPublic, err := s.identity("agent")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	cloudKey, cloudPublic, err := s.identity("evaluator")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	var conn [3]config.Broker
	for i, role := range []string{"agent", "evaluator", "holder"} {
		if conn[i], err = s.connection(role); err != nil {
			return fmt.Errorf("%w: %w", ErrSetup, err)
		}
	}
	s.agent = &config.Agent{
		Device: deviceName, Broker: conn[0],
		Keys:       s.agentKeys(),
		SigningKey: agentKey, State: s.path("agent.state"), Streams: []config.Stream{stream},
		StopTimeout: 5 * time.Second,
	}
	cloud := stream
	cloud.Channels = nil
	for _, c := range stream.Channels {
		c.Source = nil // where a value comes from is the agent's affair
		cloud.Channels = append(cloud.Channels, c)
	}
	s.evaluator = &config.Evaluator{
		Name: evaluatorName, Broker: conn[1], KeySets: []string{s.path("for-evaluator")}, SigningKey: cloudKey,
		State:   s.path("evaluator.state"),
		Devices: []config.Device{{Name: deviceName, PublicKey: agentPublic}},
		Streams: []config.DeviceStream{{Device: deviceName, Stream: cloud}}, Programs: keep, StopTimeout: time.Second,
	}
	s.holder = &config.KeyHolder{
		Name: "holder", Broker: conn[2], KeySet: s.path("holder"),
		Evaluators: []config.Signer{{Name: evaluatorName, PublicKey: cloudPublic}},
	}
	if s.o.Web {
		s.holder.State, s.holder.Console = s.path("holder.state"), &config.Console{Listen: s.o.Listen}
	}
	s.agent.SetDefaults()
	s.evaluator.SetDefaults()
	s.holder.SetDefaults()
	if err := errors.Join(s.agent.Check(), s.evaluator.Check(), s.holder.Check()); err != nil {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	if s.plan, err = evaluator.Check(s.evaluator); err != nil {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	s.announce(stream, left)
	return nil
}

// agentKeys says which key the agent encrypts with.
func (s *stage) agentKeys() config.AgentKeys {
	if s.o.Compact {
		return config.AgentKeys{BoardKey: s.path("for-agent", keyset.BoardFile)}
	}
	return config.AgentKeys{PublicKey: s.path("for-agent", keyholder.PublicFile)}
}

// announce fills in the cast.
func (s *stage) announce(stream config.Stream, left []string) {
	s.cast = Cast{
		Params: s.params.Name(), LogN: s.params.LogN(), Broker: s.broker.URL(), Samples: s.o.Samples,
		Interval: s.o.Interval.Seconds(), Left: left,
	}
	if ctx, err := s.fastContext(s.params); err == nil {
		b := ctx.Ring().Backend()
		s.cast.Backend, s.cast.Device = b.Name(), b.Device()
	}
	for _, c := range stream.Channels {
		s.cast.Channels = append(s.cast.Channels, Channel{c.Name, c.Unit, c.Range})
	}
	for i, p := range s.plan.Programs {
		cfg := s.evaluator.Programs[i]
		s.cast.Programs = append(s.cast.Programs, Program{
			Name: p.Name, Channel: channelsOf(cfg, stream), Expr: cfg.Expr, Unit: cfg.Unit, Depth: p.Circuit.Depth(),
			Bound: p.Circuit.Output().Bound,
		})
	}
}

// makeKeys makes the key set with what the programs need and hands it out.
func (s *stage) makeKeys() (err error) {
	needs := keyholder.Needs{Rotations: []int{}, NoRelinearise: true}
	for _, n := range s.plan.Needs() {
		needs.Rotations = append(needs.Rotations, n.Rotations...)
		needs.NoRelinearise = needs.NoRelinearise && !n.Relinearise
		if n.Bootstrap {
			needs.Bootstrap = keyset.BootstrapFast
		}
	}
	if s.o.Compact {
		needs.Bootstrap = keyset.BootstrapSmall // quicker to make, and half the memory
	}
	if s.set, err = keyholder.Create(s.holder.KeySet, keyholder.CreateOptions{Params: s.params, Needs: needs,
		Context: s.context()}); err != nil {
		return err
	}
	for i := range s.plan.Programs {
		a, _, err := keyholder.NewApproval(s.evaluator.Name, s.plan.Programs[i].Published(), time.Now())
		if err == nil {
			err = s.set.Approve(a)
		}
		if err != nil {
			return err
		}
	}
	m := s.set.Manifest()
	s.agent.Keys.Holder, s.evaluator.Keys.Holder = m.Fingerprint(), []string{m.Fingerprint()}
	var forAgent keyholder.ExportOptions
	if s.o.Compact {
		forAgent.Device = deviceName
		if _, err := s.set.AddDevice(deviceName, keyholder.DeviceOptions{Context: s.context()}); err != nil {
			return err
		}
	}
	if _, err = s.set.Export(keyholder.RoleAgent, s.path("for-agent"), forAgent); err != nil {
		return err
	}
	_, err = s.set.Export(keyholder.RoleEvaluator, s.path("for-evaluator"), keyholder.ExportOptions{})
	return err
}

// context returns the options of every henc context of the demo.
func (s *stage) context() []henc.Option {
	if s.o.Backend == nil {
		return nil
	}
	return []henc.Option{henc.WithBackend(s.o.Backend)}
}

// fastContext makes the context of the evaluator.
func (s *stage) fastContext(p henc.Parameters) (*henc.Context, error) {
	return henc.NewContext(p, append(s.context(), henc.WithFastestN2())...)
}
