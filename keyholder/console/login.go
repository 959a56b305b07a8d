package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
)

// Role says what a session may do.
type Role string

// The roles.
const (
	Viewer Role = "viewer" // reads
	Holder Role = "holder" // also silences alarms, takes sealed results away, and answers boards that ask
)

// LinkLife is how long a link of Invite works.
const LinkLife = 10 * time.Minute

// Suffixes of what lies beside the key holder's state.
const (
	loginsSuffix = ".logins" // a file for each link that was not used yet
	sealedSuffix = ".sealed"
	seenSuffix   = ".seen-alarms"
)

// maxLogin bounds the file of a link in bytes.
const maxLogin = 4096

// login is the file of a link. Its name is the SHA-256 of the link's secret, so that the
// file opens nothing.
type login struct {
	Role    Role      `json:"role"`
	Expires time.Time `json:"expires"`
	Passkey bool      `json:"passkey,omitempty"` // its session may add one
}

// ErrLink: the link was used before, is too old, or was never made.
var ErrLink = errors.New("this link was used before, is older than ten minutes, or belongs to another key holder")

// Invite makes a link that opens the page of a configuration once. With passkey the session that it
// begins may add one passkey of its role. Links that are too old are removed.
// It fails if this user cannot write beside the state. The process that serves the
// page need not run yet.
func Invite(k *config.KeyHolder, role Role, passkey bool, now time.Time) (link string, err error) {
	if role != Viewer && role != Holder {
		return "", fmt.Errorf("role %q: use %s or %s", role, Viewer, Holder)
	}
	base, err := pageURL(k.Console)
	if err != nil {
		return "", err
	}
	if passkey {
		if _, _, err := relyingParty(base, "9470"); err != nil {
			return "", err
		}
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	text := base64.RawURLEncoding.EncodeToString(secret)
	if err := keepLogin(k.State, text, login{role, now.Add(LinkLife), passkey}, now); err != nil {
		return "", fmt.Errorf("console: %w", err)
	}
	// What follows # stays in the browser: it is in no request, no log, and nothing that
	// fetches links ahead of their reader uses it up.
	return base + "/#login=" + text, nil
}

// pageURL returns the address of the page, without a path.
func pageURL(page *config.Console) (string, error) {
	host, port, err := net.SplitHostPort(page.Listen)
	if err != nil {
		return "", fmt.Errorf("console.listen: %w", err)
	}
	scheme := "http"
	if page.Cert != "" {
		scheme = "https"
		b, err := os.ReadFile(page.Cert)
		if err != nil {
			return "", fmt.Errorf("console.cert: %w", err)
		}
		names, err := certificateNames(b)
		if err != nil {
			return "", fmt.Errorf("console.cert: %s: %w", page.Cert, err)
		}
		host = linkHost(names, host)
	}
	return (&url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}).String(), nil
}

// linkHost returns which of a certificate's names a link has: the first that is no pattern, or else the one to
// listen on where a pattern covers it.
func linkHost(names []string, listen string) string {
	if i := slices.IndexFunc(names, func(n string) bool { return !strings.Contains(n, "*") }); i >= 0 {
		return names[i]
	}
	_, domain, found := strings.Cut(listen, ".")
	if found && slices.Contains(names, "*."+domain) {
		return listen
	}
	return names[0]
}

// certificateNames returns the hosts that a certificate is for, at least one.
func certificateNames(certPEM []byte) ([]string, error) {
	leaf, err := leafOf(certPEM)
	if err != nil {
		return nil, err
	}
	names := leaf.DNSNames
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return nil, errors.New("it names no host")
	}
	return names, nil
}

// keepLogin writes the file of a link beside the state, and removes old ones. Root may do so in the
// folder of another user, who could have put a link to somewhere else there: nothing outside the
// folder is touched.
func keepLogin(state, secret string, l login, now time.Time) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(state))
	if err != nil {
		return err
	}
	defer root.Close()
	dir := filepath.Base(state) + loginsSuffix
	if err := root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	sweepLogins(root, dir, now)
	file := loginFile(dir, secret)
	if err := root.WriteFile(file, b, 0o600); err != nil {
		return err
	}
	return giveToOwner(root, dir, file)
}

// giveToOwner gives files that root makes to the owner of their folder, whose process reads them.
func giveToOwner(root *os.Root, paths ...string) error {
	info, err := root.Stat(".")
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	for _, p := range paths {
		err = errors.Join(err, root.Lchown(p, int(s.Uid), int(s.Gid)))
	}
	return err
}

func loginFile(dir, secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return filepath.Join(dir, hex.EncodeToString(sum[:]))
}

// sweepLogins removes links that are too old.
func sweepLogins(root *os.Root, dir string, now time.Time) {
	list, _ := fs.ReadDir(root.FS(), dir)
	for _, e := range list {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > 2*LinkLife {
			_ = root.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// redeem uses a link up and returns what it is for. It fails with ErrLink.
func redeem(dir, secret string, now time.Time) (l login, err error) {
	path := loginFile(dir, secret)
	b, err := durable.ReadFile(path, maxLogin)
	if errors.Is(err, fs.ErrNotExist) {
		return l, ErrLink
	}
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	// Of two that come at the same time one removes the file.
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return l, ErrLink
	} else if err != nil {
		return l, err
	}
	if !now.Before(l.Expires) || l.Role != Viewer && l.Role != Holder {
		return l, ErrLink
	}
	return l, nil
}

// maxSessions bounds the sessions; the one that ends first makes room.
const maxSessions = 256

// session is a browser that was let in.
type session struct {
	role    Role
	passkey string // that began it; empty: a link
	csrf    string // what each of its deeds has to show
	expires time.Time
	ended   chan struct{} // closed by logout
	live    int           // open streams of updates; guarded by sessions.mu
	add     bool          // it may add a passkey; guarded by sessions.mu
}

// sessions are those that were let in, by the SHA-256 of what their cookie holds.
type sessions struct {
	mu  sync.Mutex
	all map[[32]byte]*session
}

// open starts a session with the role and the passkey of one, and returns it with the value of its
// cookie.
func (s *sessions) open(like session, now time.Time, life time.Duration) (cookie string, opened *session) {
	secret := make([]byte, 64)
	rand.Read(secret)
	cookie = base64.RawURLEncoding.EncodeToString(secret[:32])
	opened = &session{role: like.role, passkey: like.passkey, add: like.add, expires: now.Add(life),
		csrf: base64.RawURLEncoding.EncodeToString(secret[32:]), ended: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[[32]byte]*session{}
	}
	for len(s.all) >= maxSessions {
		var first [32]byte
		var oldest *session
		for id, one := range s.all {
			if oldest == nil || one.expires.Before(oldest.expires) {
				first, oldest = id, one
			}
		}
		close(oldest.ended)
		delete(s.all, first)
	}
	s.all[sha256.Sum256([]byte(cookie))] = opened
	return cookie, opened
}

// find returns the session of a cookie, or nil if there is none or it has ended.
func (s *sessions) find(cookie string, now time.Time) *session {
	id := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[id]
	if one != nil && !now.Before(one.expires) {
		close(one.ended)
		delete(s.all, id)
		return nil
	}
	return one
}

// end ends the session of a cookie.
func (s *sessions) end(cookie string) {
	id := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[id]; one != nil {
		close(one.ended)
		delete(s.all, id)
	}
}

// endOf ends the sessions that a passkey began.
func (s *sessions) endOf(passkey string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, one := range s.all {
		if one.passkey == passkey {
			close(one.ended)
			delete(s.all, id)
		}
	}
}

// mayAdd reports whether a session may add a passkey. With use it may not do so again.
func (s *sessions) mayAdd(one *session, use bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	may := one.add
	one.add = may && !use
	return may
}

// allowAdd takes the use of mayAdd back.
func (s *sessions) allowAdd(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.add = true
}

// cookieName returns the name of the session's cookie. Browsers send cookies to every port of
// a host, so the name has the port.
func cookieName(secure bool, port string) string {
	if secure {
		return "__Host-hencedge-" + port
	}
	return "hencedge-" + port
}

// leafOf returns the first certificate of a PEM file.
func leafOf(certPEM []byte) (*x509.Certificate, error) {
	var c tls.Certificate
	for block, rest := nextPEM(certPEM); block != nil; block, rest = nextPEM(rest) {
		c.Certificate = append(c.Certificate, block)
	}
	if len(c.Certificate) == 0 {
		return nil, errors.New("it holds no certificate")
	}
	return x509.ParseCertificate(c.Certificate[0])
}
