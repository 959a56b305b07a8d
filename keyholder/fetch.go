package keyholder

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// Offer is a program that a trusted evaluator runs, for approval.
type Offer struct {
	Approval
	Circuit *program.Circuit
}

// NewOffer compiles a program of an evaluator.
func NewOffer(evaluator string, p program.Published) (Offer, error) {
	a, c, err := NewApproval(evaluator, p, time.Now())
	return Offer{a, c}, err
}

// Fetch waits fetchPatience for the first program, since an evaluator may be starting.
// After fetchQuiet without another one the broker has sent all that it retains.
const (
	fetchPatience = 10 * time.Second
	fetchQuiet    = time.Second
)

// Fetch returns the programs that the trusted evaluators have published on the broker. If
// some are refused, it returns an error too.
func Fetch(ctx context.Context, b config.Broker, signers map[string][]ed25519.PublicKey,
	log *slog.Logger) ([]Offer, error) {
	o, err := daemon.BrokerOptions(b, log)
	if err != nil {
		return nil, fmt.Errorf("fetch programs: %w", err)
	}
	o.ClientID += "-approve" // results watch may be connected under the plain one
	o.Live = true
	client, err := mqtt.Dial(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("fetch programs: connect to %s: %w", o.URL, err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = client.Close(bye)
	}()
	return fetch(ctx, client, b.TopicPrefix, signers, fetchPatience, fetchQuiet)
}

func fetch(ctx context.Context, client transport.Client, prefix string, signers map[string][]ed25519.PublicKey,
	patience, quiet time.Duration) ([]Offer, error) {
	v, err := programVerifier(prefix, signers)
	if err != nil {
		return nil, fmt.Errorf("fetch programs: %w", err)
	}
	var mu sync.Mutex
	found := map[string]Offer{}
	refused := map[string]string{} // by topic
	came := make(chan struct{}, 1)
	handle := func(d transport.Delivery) {
		defer d.Ack()
		offer, err := openProgram(v, d.Topic, d.Payload)
		mu.Lock()
		defer mu.Unlock()
		_, known := found[d.Topic]
		switch {
		case err != nil && len(refused) < maxRefused:
			refused[d.Topic] = fmt.Sprintf("%s: %v", d.Topic, err)
		case err == nil:
			found[d.Topic] = offer
		}
		if err != nil || known { // these must not prolong the wait
			return
		}
		select {
		case came <- struct{}{}:
		default:
		}
	}
	for name := range signers {
		filter := transport.ProgramTopic(prefix, name, "+")
		if err := client.Subscribe(ctx, filter, handle); err != nil {
			return nil, fmt.Errorf("fetch programs: subscribe %s: %w", filter, err)
		}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
wait:
	for {
		select {
		case <-came:
			timer.Reset(quiet)
		case <-timer.C:
			break wait
		case <-ctx.Done():
			return nil, fmt.Errorf("fetch programs: %w", ctx.Err())
		}
	}
	mu.Lock()
	defer mu.Unlock()
	out := make([]Offer, 0, len(found))
	for _, offer := range found {
		out = append(out, offer)
	}
	slices.SortFunc(out, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.Evaluator, b.Evaluator), cmp.Compare(a.Program.Name, b.Program.Name))
	})
	if len(refused) > 0 {
		bad := slices.Sorted(maps.Values(refused))
		return out, fmt.Errorf("programs that cannot be approved:\n%s", strings.Join(bad, "\n"))
	}
	return out, nil
}

// programVerifier returns a verifier of published programs, each from its own evaluator.
func programVerifier(prefix string, signers map[string][]ed25519.PublicKey) (*transport.Verifier, error) {
	trust := transport.NewTrustStore()
	for name, keys := range signers {
		for _, pub := range keys {
			if err := trust.AddDevice(name, pub); err != nil {
				return nil, err
			}
		}
	}
	return transport.NewVerifier(transport.VerifierOptions{Trust: trust, Kinds: []transport.Kind{transport.KindProgram},
		NoReplay:  true,
		MaxObject: 2 * program.MaxPublished, TopicPrefix: prefix})
}

// openProgram verifies and compiles a published program.
func openProgram(v *transport.Verifier, topic string, payload []byte) (Offer, error) {
	sealed, err := transport.ReadWhole(payload, 2*program.MaxPublished)
	if err != nil {
		return Offer{}, err
	}
	obj, err := v.OpenFrom(topic, sealed)
	if err != nil {
		return Offer{}, err
	}
	p, err := program.UnmarshalPublished(obj.Body)
	if err != nil {
		return Offer{}, err
	}
	if p.Name != obj.Meta.Program {
		return Offer{}, fmt.Errorf("%w: the header names program %q, the description %q", transport.ErrBodyMismatch,
			obj.Meta.Program, p.Name)
	}
	offer, err := NewOffer(obj.Meta.Device, *p)
	if err == nil && offer.Circuit.Hash() != obj.Meta.Layout {
		err = fmt.Errorf("%w: the header says %s, the program hashes to %s", transport.ErrBodyMismatch,
			hashText(obj.Meta.Layout), offer.Hash)
	}
	return offer, err
}
