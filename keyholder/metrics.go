package keyholder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

var (
	descRead = prometheus.NewDesc("hencedge_keyholder_results_total", "Results that were verified and decrypted.", []string{"program"}, nil)
	descNot  = prometheus.NewDesc("hencedge_keyholder_refused_total", "Objects refused, by class.", []string{"class"}, nil)
)

var _ prometheus.Collector = (*Tally)(nil)

// Describe makes a Tally a prometheus.Collector.
func (t *Tally) Describe(ch chan<- *prometheus.Desc) {
	ch <- descRead
	ch <- descNot
}

// Collect gives the counts as they are now; every class is there from the start.
func (t *Tally) Collect(ch chan<- prometheus.Metric) {
	read, refused := t.Counts()
	for program, n := range read {
		ch <- prometheus.MustNewConstMetric(descRead, prometheus.CounterValue, float64(n), program)
	}
	for _, class := range Classes() {
		ch <- prometheus.MustNewConstMetric(descNot, prometheus.CounterValue, float64(refused[class]), class)
	}
}

// ServeMetrics answers GET /metrics on listen (host:port) until stop is called.
// An empty listen serves nothing.
func ServeMetrics(listen string, t *Tally, log *slog.Logger) (stop func(), err error) {
	if listen == "" {
		return func() {}, nil
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(t); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are not served any more", "error", err)
		}
	}()
	log.Info("metrics are served", "address", l.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		<-ended
	}, nil
}
