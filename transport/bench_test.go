package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
)

// Sizes of sealed ciphertexts: edge12-d1 seeded, edge13-d3, std14-d5 seeded, deep16-d23.
var benchSizes = []int{28 << 10, 307 << 10, 650 << 10, 10752 << 10}

func BenchmarkSeal(b *testing.B) {
	key := testKey(b, "board-7")
	for _, n := range benchSizes {
		body := testrig.Pattern(n)
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Seal(testReading(1), body, key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, n := range benchSizes {
		v := testVerifier(b, testOptions(b))
		sealed := mustSeal(b, testReading(1), testrig.Pattern(n), testKey(b, "board-7"))
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				obj, err := Open(sealed, v)
				if err != nil {
					b.Fatal(err)
				}
				v.Forget(obj)
			}
		})
	}
}

func BenchmarkReassemble(b *testing.B) {
	for _, n := range benchSizes {
		chunks := chunksOf(b, testrig.Pattern(n), DefaultChunkSize)
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				r := newReceiver(Limits{}, func(string, []byte) error { return nil })
				for _, c := range chunks {
					if err := r.Feed("t", c); err != nil {
						b.Fatal(err)
					}
				}
				if r.Counters().accepted.Load() != 1 {
					b.Fatal("not reassembled")
				}
			}
		})
	}
}

// BenchmarkWindow times what an evaluator does with the chunks of a window of edge13-d3 up
// to the verified object.
func BenchmarkWindow(b *testing.B) {
	for name, apart := range map[string]bool{"whole": false, "apart": true} {
		b.Run(name, func(b *testing.B) {
			v := testVerifier(b, testOptions(b))
			sealed := mustSeal(b, testReading(1), testrig.Pattern(307<<10), testKey(b, "board-7"))
			topic, chunks := ReadingTopic(DefaultPrefix, "board-7", "vibration"), chunksOf(b, sealed, DefaultChunkSize)
			b.SetBytes(int64(len(sealed)))
			b.ReportAllocs()
			for b.Loop() {
				r := NewReceiver(Limits{}, func(s Staged) error {
					defer s.Done()
					obj, err := v.OpenStaged(s)
					if err == nil {
						v.Forget(obj)
					}
					return err
				})
				if apart {
					r.Apart()
				}
				for _, c := range chunks {
					if err := r.Feed(topic, c); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkManyTopics times the chunks of an object where many devices send.
func BenchmarkManyTopics(b *testing.B) {
	sealed := testrig.Pattern(4 << 10)
	for _, topics := range []int{64, 10_000} {
		b.Run(fmt.Sprint(topics), func(b *testing.B) {
			r := newReceiver(Limits{MaxBytes: 1 << 30, MaxObjects: 1 << 20}, func(string, []byte) error { return nil })
			names := make([]string, topics)
			for i := range names {
				names[i] = fmt.Sprint("up/", i)
			}
			n := uint64(0)
			for b.Loop() {
				binary.BigEndian.PutUint64(sealed, n)
				pieces, err := Split(sealed, 2<<10)
				if err != nil {
					b.Fatal(err)
				}
				for i := range pieces {
					payload, err := pieces[i].Marshal()
					if err == nil {
						err = r.Feed(names[n%uint64(topics)], payload)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				n++
			}
		})
	}
}

// BenchmarkHostile times objects that are refused before their signature holds, or with
// it.
func BenchmarkHostile(b *testing.B) {
	v := testVerifier(b, testOptions(b))
	for name, sealed := range hostileEnvelopes(b, 30<<20) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(sealed)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Open(sealed, v); err == nil {
					b.Fatal("opened")
				}
			}
		})
	}
}

// BenchmarkLastChunk times a window of edge13-d3 from its last chunk on, when its other two came a while before it.
func BenchmarkLastChunk(b *testing.B) {
	for name, apart := range map[string]bool{"whole": false, "apart": true} {
		b.Run(name, func(b *testing.B) {
			r := NewReceiver(Limits{}, func(o Staged) error { o.Done(); return nil })
			if apart {
				r.Apart()
			}
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				object := testrig.Pattern(307_000)
				object[0], object[1] = byte(i), byte(i>>8)
				pieces, err := Split(object, 0)
				if err != nil {
					b.Fatal(err)
				}
				for k, p := range pieces {
					payload, err := p.Payload()
					if err != nil {
						b.Fatal(err)
					}
					if k == len(pieces)-1 {
						time.Sleep(time.Millisecond)
						b.StartTimer()
					}
					if err := r.Feed("up", payload); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkSend times what an evaluator does with a result of edge13-d3 from the ciphertext to
// the client.
func BenchmarkSend(b *testing.B) {
	key, size := testKey(b, "cloud-1"), 123<<10
	s, err := NewSender(idleClient{}, 0)
	if err != nil {
		b.Fatal(err)
	}
	room := append(make([]byte, SealRoom, SealRoom+size+SealTail), testrig.Pattern(size)...)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		o, err := SealToSend(testResult(1), room, SealRoom, key)
		if err == nil {
			err = s.SendSealed(b.Context(), "down/result", o)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// idleClient acknowledges everything at once.
type idleClient struct{ Client }

func (idleClient) Publish(context.Context, string, []byte, bool) error { return nil }
