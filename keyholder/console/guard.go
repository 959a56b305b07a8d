package console

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// policy is what the page may load: its own files, nothing inline, nothing from elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// csrfHeader carries the session's token with each deed.
const csrfHeader = "X-Hencedge-Token"

// guard is what every request passes first: headers of the response, the host that was asked
// for, the limit of requests, and where a deed comes from.
func (c *Console) guard(next http.Handler) http.Handler {
	same := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-store")
		if c.cert != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !c.knowsHost(r.Host) {
			// A page from elsewhere whose name leads to this address must not reach it.
			refuse(w, http.StatusMisdirectedRequest, "this page has another name: use the link of \"console open\"")
			return
		}
		if !c.limits.allow(client(r), c.now(), requestRate, requestBurst) {
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, "too many requests; wait a moment")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if !strings.HasSuffix(r.URL.Path, "/live") {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Second))
		}
		same.ServeHTTP(w, r)
	})
}

// maxBody bounds the body of a request in bytes.
const maxBody = 16 << 10

// knowsHost reports whether a request's host is one of the page's own names.
func (c *Console) knowsHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if c.cert != nil {
		return c.cert.Leaf.VerifyHostname(name) == nil
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// member lets requests of a session through, if its role is one of roles.
func (c *Console) member(next func(http.ResponseWriter, *http.Request), roles ...Role) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := c.sessionOf(r)
		if s == nil {
			refuse(w, http.StatusUnauthorized, "not logged in, or the session has ended: run \"hencedge console open\"")
			return
		}
		allowed := false
		for _, role := range roles {
			allowed = allowed || s.role == role
		}
		if !allowed {
			refuse(w, http.StatusForbidden, "a viewer may not do this: open the page as holder")
			return
		}
		if r.Method != http.MethodGet && subtle.ConstantTimeCompare([]byte(r.Header.Get(csrfHeader)),
			[]byte(s.csrf)) != 1 {
			refuse(w, http.StatusForbidden, "this request does not come from the page: load it again")
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), sessionKey{}, s)))
	}
}

type sessionKey struct{}

// current returns the session of a request that member let through.
func current(r *http.Request) *session { return r.Context().Value(sessionKey{}).(*session) }

// sessionOf returns the session of a request, or nil.
func (c *Console) sessionOf(r *http.Request) *session {
	cookie, err := r.Cookie(c.name)
	if err != nil {
		return nil
	}
	s := c.sessions.find(cookie.Value, c.now())
	if s != nil && s.passkey != "" && !c.passkeys.there(s.passkey) {
		c.sessions.endOf(s.passkey) // it was revoked on the command line
		return nil
	}
	return s
}

// refuse answers with a message for people.
func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message})
}

// Limits of requests of one address: tokens a second, and how many can be saved up.
const (
	requestRate, requestBurst = 50, 300
	loginRate, loginBurst     = 1.0 / 6, 10
)

// maxClients bounds the addresses that are remembered.
const maxClients = 4096

// limits are token buckets by client.
type limits struct {
	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

// allow takes a token of a client, if it has one.
func (l *limits) allow(who string, now time.Time, rate, burst float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buckets == nil {
		l.buckets = map[string]*bucket{}
	}
	b := l.buckets[who]
	if b == nil {
		for other := range l.buckets {
			if len(l.buckets) < maxClients {
				break
			}
			delete(l.buckets, other)
		}
		b = &bucket{burst, now}
		l.buckets[who] = b
	}
	b.tokens = min(burst, b.tokens+rate*max(now.Sub(b.at).Seconds(), 0))
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// client returns whom a request counts for: an address, of IPv6 the network of 64 bits that one
// machine may have whole, and apart from it other pages that its browser shows.
func client(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap().WithZone("")
		if host = a.String(); a.Is6() {
			if network, err := a.Prefix(64); err == nil {
				host = network.String()
			}
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		host = "elsewhere " + host
	}
	return host
}

// read reads the JSON of a request.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "want application/json")
		return false
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		status := http.StatusBadRequest
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			status = http.StatusRequestEntityTooLarge
		}
		refuse(w, status, "the request cannot be read")
		return false
	}
	return true
}

// nextPEM returns the bytes of the next certificate of a PEM file, nil after the last.
func nextPEM(b []byte) (certificate, rest []byte) {
	for {
		block, rest := pem.Decode(b)
		if block == nil || block.Type == "CERTIFICATE" {
			if block == nil {
				return nil, nil
			}
			return block.Bytes, rest
		}
		b = rest
	}
}
