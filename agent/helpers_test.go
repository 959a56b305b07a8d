package agent

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// fakeClient keeps what is published. fail, when set, decides about each
// message.
type fakeClient struct {
	mu       sync.Mutex
	messages []transport.Message
	fail     func(topic string) error
	block    bool // until ctx ends
}

func (c *fakeClient) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	c.mu.Lock()
	fail, block := c.fail, c.block
	c.mu.Unlock()
	if block {
		<-ctx.Done()
		return ctx.Err()
	}
	if fail != nil {
		if err := fail(topic); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages,
		transport.Message{Topic: topic, Payload: append([]byte(nil), payload...), Retain: retain})
	return nil
}

func (c *fakeClient) Subscribe(context.Context, string, func(transport.Delivery)) error { return nil }
func (c *fakeClient) Connected() bool                                                   { return true }
func (c *fakeClient) Close(context.Context) error                                       { return nil }

// noon is when windows of tests begin.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// keyring is a key set for tests, made once: it takes a moment.
var keyring = sync.OnceValues(func() (*testKeys, error) {
	params, err := henc.Named("edge12-d1")
	if err != nil {
		return nil, err
	}
	ctx, err := henc.NewContext(params)
	if err != nil {
		return nil, err
	}
	sk, err := secret.Generate(ctx, &henc.Seed{1})
	if err != nil {
		return nil, err
	}
	sk.SetEpoch(7)
	pk, err := sk.PublicKey()
	if err != nil {
		return nil, err
	}
	signing, err := transport.NewSigningKey()
	return &testKeys{ctx, sk, pk, signing}, err
})

type testKeys struct {
	ctx     *henc.Context
	secret  *secret.Key
	public  *henc.PublicKey
	signing *transport.SigningKey
}

func keysFor(t testing.TB) *testKeys {
	t.Helper()
	k, err := keyring()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// opened are the objects that a client received, verified, in order.
func opened(t testing.TB, k *testKeys, device string, messages []transport.Message) (readings,
	status []*transport.Object) {
	t.Helper()
	trust := transport.NewTrustStore()
	if err := trust.AddDevice(device, k.signing.Public()); err != nil {
		t.Fatal(err)
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust, AnyParams: true, AnyKey: true})
	if err != nil {
		t.Fatal(err)
	}
	r := transport.NewReceiver(transport.Limits{}, func(s transport.Staged) error {
		defer s.Done()
		topic, sealed := s.Topic, s.Sealed
		o, err := v.OpenFrom(topic, sealed)
		if err != nil {
			t.Errorf("object on %s: %v", topic, err)
			return err
		}
		if o.Meta.Kind == transport.KindStatus {
			status = append(status, o)
		} else {
			readings = append(readings, o)
		}
		return nil
	})
	for _, m := range distinct(messages) {
		if err := r.Feed(m.Topic, m.Payload); err != nil {
			t.Fatalf("chunk on %s: %v", m.Topic, err)
		}
	}
	return readings, status
}

// distinct leaves out repeated status messages. The same bytes can come twice:
// live and as the retained message of a new subscription, or again where the
// connection cut off the acknowledgement. Readings are not filtered.
func distinct(messages []transport.Message) (out []transport.Message) {
	seen := map[string]bool{}
	for _, m := range messages {
		if strings.Contains(m.Topic, "/st/") {
			if seen[string(m.Payload)] {
				continue
			}
			seen[string(m.Payload)] = true
		}
		out = append(out, m)
	}
	return out
}

// decrypted are the values of a reading in physical units, by channel.
func decrypted(t testing.TB, k *testKeys, s config.Stream, o *transport.Object) [][]float64 {
	t.Helper()
	ct, err := k.ctx.UnmarshalCiphertext(o.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Meta.CheckBody(k.ctx.Parameters().Hash(), ct.Level, ct.Scale); err != nil {
		t.Fatal(err)
	}
	u, err := secret.NewDecryptor(k.ctx, k.secret).DecryptReal(ct)
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]float64, len(s.Channels))
	for c, ch := range s.Channels {
		mid, half := ch.Affine()
		for i := range int(o.Meta.Samples) {
			out[c] = append(out[c], mid+half*u[c*s.Stride()+i])
		}
	}
	return out
}

// testConfig is inputtest.Config.
func testConfig(t testing.TB) *config.Agent { return inputtest.Config(t) }

// testDeps run an agent without files, network or waiting.
func testDeps(t testing.TB, client transport.Client) (Deps, *testKeys) {
	t.Helper()
	k := keysFor(t)
	return Deps{Client: client, Context: k.ctx, PublicKey: k.public, SigningKey: k.signing, Clock: testrig.NewClock(),
		Root: "testdata/board", Logger: testrig.Quiet()}, k
}

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
