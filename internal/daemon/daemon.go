// Package daemon holds what the long-running roles share: how a configuration
// says to reach the broker, and the metrics page. It imports config and
// transport only.
package daemon

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

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// BrokerOptions are the connection options that b describes; the caller adds its
// birth message, last will and callbacks. Messages are taken up to one chunk of
// b's size with its header. It fails when a certificate or key cannot be read.
func BrokerOptions(b config.Broker, log *slog.Logger) (transport.Options, error) {
	tls, err := tlsutil.Files{CA: b.CA, Cert: b.Cert, Key: b.Key, ServerName: b.ServerName}.Config()
	if err != nil {
		return transport.Options{}, err
	}
	o := transport.Options{
		URL: b.URL, Insecure: b.Insecure, ClientID: b.ClientID, Username: b.Username, TLS: tls, KeepAlive: b.KeepAlive,
		MaxInbound: max(transport.DefaultMaxInbound, int(b.ChunkSize)+4096), Logger: log,
	}
	if b.Password != "" {
		o.Password = func() (string, error) {
			secret, err := b.Password.Resolve()
			return string(secret), err
		}
	}
	return o, nil
}

// ServeMetrics answers GET /metrics on listen (host:port) with what c collects,
// until stop is called. An empty listen serves nothing.
func ServeMetrics(listen string, c prometheus.Collector, log *slog.Logger) (stop func(), err error) {
	if listen == "" {
		return func() {}, nil
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
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
