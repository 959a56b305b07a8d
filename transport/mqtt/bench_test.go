package mqtt

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker/mosquitto"
)

// BenchmarkReceive measures one connection: how long it takes to read a chunk of 112 KiB from
// a mosquitto that holds all of them. cpu-us/op is this process's processor time for that,
// broker-us/op the broker's for taking a chunk and sending it. Use a fixed number, such as
// -benchtime 2000x: mosquitto keeps the chunks in memory.
func BenchmarkReceive(b *testing.B) {
	m := mosquitto.Start(b, nil, "allow_anonymous true\nmax_queued_messages 0\n")
	connect := func(id string) transport.Client {
		c, err := Dial(b.Context(), Options{URL: m.URL, ClientID: id, Logger: testrig.Quiet()})
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	session := connect("sub")
	if err := session.Subscribe(b.Context(), "up/+", func(transport.Delivery) {}); err != nil {
		b.Fatal(err)
	}
	if err := session.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	pub := connect("pub")
	payload := []byte(strings.Repeat(".", transport.DefaultChunkSize))
	took := m.ProcessorTime(b)
	next := make(chan int)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for i := range next {
				if err := pub.Publish(b.Context(), fmt.Sprint("up/", i%8), payload, false); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range b.N {
		next <- i
	}
	close(next)
	work.Wait()
	if err := pub.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	all.Add(b.N)
	b.SetBytes(int64(len(payload)))
	b.ResetTimer()
	before := processTime(b)
	session = connect("sub")
	if err := session.Subscribe(b.Context(), "up/+", func(d transport.Delivery) {
		d.Ack()
		all.Done()
	}); err != nil {
		b.Fatal(err)
	}
	all.Wait()
	b.ReportMetric((processTime(b)-before)*1e6/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64((m.ProcessorTime(b)-took).Microseconds())/float64(b.N), "broker-us/op")
	b.StopTimer()
	if err := session.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// processTime returns the processor time of this process in seconds.
func processTime(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
