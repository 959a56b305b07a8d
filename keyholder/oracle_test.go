package keyholder

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
)

// listener gives the items of the receipts for the evaluator "cloud".
func listener(t *testing.T, s *Set, client transport.Client) <-chan transport.ReceiptItem {
	t.Helper()
	holder, err := transport.ParsePublicKey(s.manifest.Signer)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := transport.TrustKeys(map[string]ed25519.PublicKey{holderDevice: holder})
	if err != nil {
		t.Fatal(err)
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trusted,
		Kinds: []transport.Kind{transport.KindReceipt}, NoReplay: true})
	if err != nil {
		t.Fatal(err)
	}
	items := make(chan transport.ReceiptItem, 256)
	err = client.Subscribe(t.Context(), transport.ReceiptTopic(transport.DefaultPrefix, "cloud"),
		func(d transport.Delivery) {
			defer d.Ack()
			sealed, err := transport.ReadWhole(d.Payload, 0)
			if err != nil {
				t.Error(err)
				return
			}
			obj, err := transport.Open(sealed, v)
			if err != nil {
				t.Error(err)
				return
			}
			r, err := transport.UnmarshalReceipt(obj.Body)
			if err != nil || r.To != "cloud" {
				t.Errorf("%+v, %v", r, err)
				return
			}
			for _, it := range r.Items {
				items <- it
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// answers sends results to a key holder that signs receipts, and gives what it answers to
// each.
func answers(t *testing.T, s *Set, key *transport.SigningKey, results [][]byte) (out []string) {
	t.Helper()
	b := testrig.Broker(t, broker.Options{})
	client := dial(t, b, "cloud")
	items := listener(t, s, client)
	rc, err := NewReceipts(s, ReceiptOptions{Client: dial(t, b, "holder"), Evaluators: trust(key),
		Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rc.Close)
	r := reader(t, s, ReaderOptions{Signers: trust(key), Replay: rc.Guard()})
	defer watching(t, r, WatchOptions{Client: rc.client, Receipts: rc})()
	sender, err := transport.NewSender(client, 0)
	if err != nil {
		t.Fatal(err)
	}
	by := map[[32]byte]string{}
	for _, sealed := range results {
		if err := sender.Send(t.Context(), "hencedge/v1/res/mean", sealed); err != nil {
			t.Fatal(err)
		}
	}
	for len(by) < len(results) {
		it := testrig.Receive(t, fmt.Sprintf("an answer to result %d", len(by)), items)
		by[it.Object] = fmt.Sprint(it.Outcome, " ", it.Reason)
	}
	for _, sealed := range results {
		out = append(out, by[transport.ObjectID(sealed)])
	}
	return out
}

// TestReceiptsTellNoReading: with A near the largest float64, A*slot + B is finite or not
// by whether the reading is below a threshold, which B chooses. The answers must not tell.
func TestReceiptsTellNoReading(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	const reading = 0.3
	var results [][]byte
	for i := range 33 {
		results = append(results, c.result([]float64{reading}, func(m *transport.Meta) {
			threshold := float64(i) / 32
			m.Post.A, m.Post.B = math.MaxFloat64, math.MaxFloat64*(1-threshold)
		}))
	}
	got := answers(t, s, key, results)
	for i, a := range got {
		if a != got[0] {
			t.Fatalf("the answer is %q below %.3f and %q from there on: the reading is %g", got[0],
				float64(i)/32, a, reading)
		}
	}
}

// TestReceiptsTellNoKey: the ciphertext (0, 1) decrypts to the secret key. The answers must
// not tell its slots, whether the header is the program's or not.
func TestReceiptsTellNoKey(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	ct, err := c.enc.EncryptReal([]float64{0}, 0, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	residues := make([]uint32, 2*c.ctx.Parameters().LimbsAt(0)*c.ctx.Parameters().N())
	for i := range residues[len(residues)/2:] {
		residues[len(residues)/2+i] = 1
	}
	if err := c.ctx.Ring().Upload(ct.Value, residues); err != nil {
		t.Fatal(err)
	}
	body, err := c.ctx.MarshalCiphertext(ct)
	if err != nil {
		t.Fatal(err)
	}
	var results [][]byte
	for slot := range 32 {
		honest, err := transport.PeekMeta(c.result([]float64{0}, nil))
		if err != nil {
			t.Fatal(err)
		}
		honest.Scale, honest.Post.A, honest.Post.B, honest.Post.Slot = ct.Scale, math.MaxFloat64/30, 0, slot
		sealed, err := transport.Seal(*honest, body, c.key)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, sealed)
	}
	got := answers(t, s, key, results)
	if same := slices.Compact(slices.Clone(got)); len(same) != 1 {
		t.Fatalf("the answers tell 32 slots of the secret key apart: %q", got)
	}
}

// mute is a client that hashes what is published, in its order.
type mute struct {
	h     hash.Hash
	count int
}

func (m *mute) Publish(_ context.Context, topic string, payload []byte, retain bool) error {
	fmt.Fprintf(m.h, "%d %s %t %d ", m.count, topic, retain, len(payload))
	m.h.Write(payload)
	m.count++
	return nil
}
func (m *mute) Subscribe(context.Context, string, func(transport.Delivery)) error { return nil }
func (m *mute) Connected() bool                                                   { return true }
func (m *mute) Close(context.Context) error                                       { return nil }

// crafter makes results as a malicious evaluator would, over a small ring.
type crafter struct {
	t       *testing.T
	ctx     *henc.Context
	enc     *henc.Encryptor
	keyID   [16]byte
	circuit *program.Circuit
	source  program.Source
	signer  *transport.SigningKey
	primes  []uint32
}

// tinyParams is a ring of degree 2^10, of which no key is ever written.
func tinyParams(t *testing.T) henc.Parameters {
	t.Helper()
	var q []uint32
	below := func(top uint32, count int) {
		for c := top - 2047; count > 0; c -= 2048 {
			if new(big.Int).SetUint64(uint64(c)).ProbablyPrime(20) {
				q, count = append(q, c), count-1
			}
		}
	}
	below(1<<30, 2)
	below(1<<29, 4)
	p, err := henc.NewParameters(henc.ParametersLiteral{Name: "tiny", LogN: 10, LogScale: 29, Mode: henc.ModeSingle,
		Depth: 4, Q: q, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newCrafter(t *testing.T, s *Set, ctx *henc.Context, key *secret.Key, signer *transport.SigningKey) *crafter {
	t.Helper()
	pub, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	enc, err := henc.NewEncryptor(ctx, pub)
	if err != nil {
		t.Fatal(err)
	}
	p := testProgram("", 2)
	src := program.Source{Name: p.Name, Expr: p.Expr, Vars: map[string]program.Var{}}
	named := testProgram("edge12-d1", 2)
	full, _, err := named.Source()
	if err != nil {
		t.Fatal(err)
	}
	v := full.Vars["x"]
	v.Stream.Params = ""
	src.Vars["x"] = v
	circuit, err := program.Compile(src, s.params)
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.manifest.Current().ID()
	if err != nil {
		t.Fatal(err)
	}
	var primes []uint32
	for _, q := range ctx.Ring().Moduli() {
		primes = append(primes, q.Q)
	}
	return &crafter{t: t, ctx: ctx, enc: enc, keyID: id, circuit: circuit, source: src, signer: signer, primes: primes}
}

// body is a ciphertext of any kind.
func (c *crafter) body(rng *rand.Rand, level int, scale float64) []byte {
	constant := rng.Uint32()
	return c.bodyOf(rng.IntN(6), constant, rng, level, scale)
}

// bodyOf is a ciphertext of a kind.
func (c *crafter) bodyOf(kind int, constant uint32, rng *rand.Rand, level int, scale float64) []byte {
	ring, limbs := c.ctx.Ring(), c.ctx.Parameters().LimbsAt(level)
	n := c.ctx.Parameters().N()
	fill := func(f func(poly int, q uint32) uint32) []byte {
		residues := make([]uint32, 0, 2*limbs*n)
		for poly := range 2 {
			for l := range limbs {
				for range n {
					residues = append(residues, f(poly, c.primes[l]))
				}
			}
		}
		b, err := cutrantt.NewResult(ring, 2, c.ctx.Parameters().QLimbs(level), c.ctx.Domain())
		if err == nil {
			err = ring.Upload(b, residues)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		defer ring.Free(b)
		out, err := c.ctx.MarshalCiphertext(&henc.Ciphertext{Value: b, Level: level, Scale: scale})
		if err != nil {
			c.t.Fatal(err)
		}
		return out
	}
	switch kind {
	case 0: // as the key decrypts it, small
		ct, err := c.enc.EncryptReal([]float64{2*rng.Float64() - 1, rng.Float64()}, level, scale, nil)
		if err != nil {
			return fill(func(int, uint32) uint32 { return 1 })
		}
		defer ring.Free(ct.Value)
		out, err := c.ctx.MarshalCiphertext(ct)
		if err != nil {
			c.t.Fatal(err)
		}
		return out
	case 1:
		return fill(func(_ int, q uint32) uint32 { return rng.Uint32N(q) })
	case 2: // the secret key itself
		return fill(func(poly int, _ uint32) uint32 { return uint32(poly) })
	case 3:
		return fill(func(_ int, q uint32) uint32 { return q - 1 })
	case 4: // a multiple of the secret key
		return fill(func(poly int, q uint32) uint32 { return uint32(poly) * max(constant%q, 1) })
	default: // no ciphertext at all
		out := fill(func(int, uint32) uint32 { return 1 })
		for range 1 + rng.IntN(8) {
			out[len(out)-1-rng.IntN(len(out)/2)] = 0xff
		}
		if rng.IntN(2) == 0 {
			out = out[:len(out)-rng.IntN(64)]
		}
		return out
	}
}

// honest is the header of a result of the approved program.
func (c *crafter) honest(number uint64) transport.Meta {
	out := c.circuit.Output()
	input := [32]byte{0xff}
	binary.BigEndian.PutUint64(input[1:], number)
	return transport.Meta{Kind: transport.KindResult, Device: "cloud", Program: "mean", KeyID: c.keyID, KeyEpoch: 1,
		BootEpoch: 1, Sequence: number,
		Params: c.ctx.Parameters().Hash(), Layout: c.circuit.Hash(), Level: c.circuit.Level(), Scale: c.circuit.Scale(),
		Start: day0.UnixNano(), End: day0.UnixNano() + 1, Samples: 2, Inputs: [][32]byte{input},
		Post: &transport.Post{A: out.A, B: out.B, Slot: out.Slot, Count: out.Count, Bound: out.Bound}}
}

// crafted is result i: the header is the program's, or has one thing changed.
func (c *crafter) crafted(i uint64) transport.Staged {
	rng := rand.New(rand.NewPCG(11, i))
	m := c.honest(i + 1)
	anything := func() float64 { return math.Ldexp(2*rng.Float64()-1, rng.IntN(2046)-1022) }
	topic := "hencedge/v1/res/mean"
	switch rng.IntN(24) {
	case 0:
		m.Post.A = anything()
	case 1:
		m.Post.A = math.MaxFloat64
	case 2:
		m.Post.A, m.Post.B = math.MaxFloat64, math.MaxFloat64*(2*rng.Float64()-1)
	case 3:
		m.Post.B = anything()
	case 4:
		m.Scale = math.Ldexp(1+rng.Float64(), rng.IntN(57))
	case 5:
		m.Level = rng.IntN(5)
	case 6:
		m.Post.Sqrt = true
	case 7:
		m.Post.Slot, m.Post.Count = rng.IntN(600), 1+rng.IntN(600)
	case 8:
		m.Layout[rng.IntN(32)] ^= 1
	case 9:
		m.Sequence -= rng.Uint64N(min(m.Sequence, 100))
	case 10:
		m.Inputs = [][32]byte{{byte(rng.IntN(4))}}
	case 11:
		m.Present = []uint32{1 + rng.Uint32N(3)}
	case 12:
		m.KeyEpoch = rng.Uint32N(3)
	case 13:
		topic = "hencedge/v1/res/other"
	case 14:
		m.Post.Bound *= 2
	}
	if m.Post.A == 0 {
		m.Post.A = 1
	}
	sealed, err := transport.Seal(m, c.body(rng, m.Level, m.Scale), c.signer)
	if err != nil {
		c.t.Fatal(err)
	}
	return transport.Staged{Topic: topic, Sealed: sealed}
}

// ask asks about an object.
func (c *crafter) ask(i uint64, o transport.Staged) transport.Delivery {
	body, err := transport.MarshalAsk(transport.Ask{Items: []transport.AskItem{{Object: transport.ObjectID(o.Sealed),
		Topic: o.Topic, Total: 1, Size: len(o.Sealed)}}})
	if err != nil {
		c.t.Fatal(err)
	}
	sealed, err := transport.Seal(transport.Meta{Kind: transport.KindAsk, Device: "cloud", BootEpoch: 1, Sequence: i},
		body, c.signer)
	if err == nil {
		sealed, err = transport.Whole(sealed, 0)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return transport.Delivery{Topic: transport.AskTopic(transport.DefaultPrefix, "cloud"), Payload: sealed}
}

// side is a key holder with one secret key; all else is the same on both sides.
type side struct {
	w    *watch
	rc   *Receipts
	out  *mute
	odd  Tally
	read hash.Hash // of what was decrypted
	n    int
}

func newSide(t *testing.T, s *Set, key *secret.Key, c *crafter) *side {
	t.Helper()
	x := &side{out: &mute{h: sha256.New()}, read: sha256.New()}
	rc, err := NewReceipts(s, ReceiptOptions{Client: x.out, Evaluators: trust(c.signer), Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rc.Close)
	rc.boot, rc.now = 1, at(day0)
	r := craftedReader(t, s, key, c, rc)
	x.rc = rc
	x.w, err = newWatch(r, WatchOptions{Client: x.out, Receipts: rc,
		OnResult:  func(res *Result) error { x.n++; return binary.Write(x.read, binary.BigEndian, res.Values) },
		OnUnread:  func(_ string, err error) { x.odd.Refuse(err) },
		OnRefused: func(_ string, err error) { x.odd.Refuse(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.w.inbox.close)
	x.w.receiver = transport.NewReceiver(transport.Limits{},
		func(o transport.Staged) error { return x.w.take(t.Context(), o) })
	return x
}

// craftedReader reads with key what c makes, which is approved.
func craftedReader(t *testing.T, s *Set, key *secret.Key, c *crafter, rc *Receipts) *Reader {
	t.Helper()
	r := reader(t, s, ReaderOptions{Signers: trust(c.signer), Replay: rc.Guard()})
	r.ctx, r.keys[c.keyID] = c.ctx, key
	r.approved.read = true
	r.approved.list = []*approved{{Approval: Approval{Evaluator: "cloud", Program: program.Published{Name: "mean"}},
		hash: c.circuit.Hash(), full: c.circuit}}
	for n := range 2 {
		src := c.source
		src.Present = map[program.Input]int{c.circuit.Inputs()[0]: n + 1}
		_, err := r.approved.list[0].variants.Circuit(src.Present,
			func(map[program.Input]int) (*program.Circuit, error) {
				return program.Compile(src, s.params)
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// step gives one object to a side. The second half runs every so many objects, receipts
// leave every so many.
func (x *side) step(t *testing.T, c *crafter, i uint64, o transport.Staged) {
	ctx := t.Context()
	payload, err := transport.Whole(o.Sealed, transport.MaxChunkSize)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.w.receiver.Feed(o.Topic, payload); err != nil {
		t.Fatal(err)
	}
	if i%16 == 7 {
		_ = x.rc.ask(c.ask(i, o), x.w, x.w.receiver)
	}
	if i%50 == 49 {
		x.rc.flush(ctx)
	}
	if i%64 == 63 {
		for more, _ := x.w.inbox.spool.Waiting(); more; more, _ = x.w.inbox.spool.Waiting() {
			if _, err := x.w.read(ctx, x.w.inbox.next(ctx), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestNothingFollowsDecryption gives the same crafted results to two key holders with
// different secret keys: every byte that leaves them, and its order, is the same, although
// what they decrypt is not. HENCEDGE_CRAFTED is the number of results.
func TestNothingFollowsDecryption(t *testing.T) {
	count := uint64(2000)
	if text := os.Getenv("HENCEDGE_CRAFTED"); text != "" {
		var err error
		if count, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	s, signer := newSet(t), signingKey(t)
	if err := os.Remove(s.dir + "/" + approvalsFile); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	s.params = tinyParams(t)
	ctx, err := henc.NewContext(s.params)
	if err != nil {
		t.Fatal(err)
	}
	var keys [2]*secret.Key
	for i := range keys {
		if keys[i], err = secret.Generate(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	c := newCrafter(t, s, ctx, keys[0], signer)
	a, b := newSide(t, s, keys[0], c), newSide(t, s, keys[1], c)
	for i := range count {
		o := c.crafted(i)
		a.step(t, c, i, o)
		b.step(t, c, i, o)
		if i%1000 == 999 && (a.out.count != b.out.count || string(a.out.h.Sum(nil)) != string(b.out.h.Sum(nil))) {
			t.Fatalf("up to result %d the two key holders publish different bytes", i)
		}
	}
	if a.out.count == 0 || a.n < int(count)/8 || a.n != b.n {
		t.Errorf("%d messages, %d and %d results were decrypted", a.out.count, a.n, b.n)
	}
	if string(a.read.Sum(nil)) == string(b.read.Sum(nil)) {
		t.Error("both keys decrypt to the same: the test shows nothing")
	}
	_, odd := a.odd.Counts()
	t.Logf("%v", odd)
	t.Logf("%d results, %d decrypted, %d messages: the same for both keys", count, a.n, a.out.count)
}
