// Package postgres runs a real PostgreSQL for tests.
package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// Of the superuser.
const (
	User     = "holder"
	Password = "swordfish"
)

// patience bounds what ends at once when everything works.
const patience = 2 * time.Minute

// Server is a PostgreSQL on a port of this machine, whose data lie in memory where possible.
// It can be killed and started again; the end of the test ends it.
type Server struct {
	Address string // host:port
	CA      string // file of the authority of its certificate for 127.0.0.1
	Dir     string // which belongs to the server's user

	bin, data string
	as        *syscall.Credential
	pid       int           // 0: it does not run
	ended     chan struct{} // closed when it has
	log       *os.File
	made      int // databases
}

// Start makes a server with the given lines of configuration. Without PostgreSQL the test is
// skipped, or fails (package testenv). The server refuses root, so a test of root starts it as
// another user.
func Start(t testing.TB, conf string) *Server {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		testenv.Missing(t, "postgres", "there is no /usr/lib/postgresql/*/bin/postgres")
	}
	return start(t, filepath.Dir(slices.Max(found)), conf)
}

// StartTimescale is Start of a server that has the extension TimescaleDB. HENCEDGE_TEST_TIMESCALE
// names the directory of its programs where those are not Debian's.
func StartTimescale(t testing.TB, conf string) *Server {
	t.Helper()
	dirs := []string{os.Getenv("HENCEDGE_TEST_TIMESCALE")}
	if dirs[0] == "" {
		dirs, _ = filepath.Glob("/usr/lib/postgresql/*/bin")
	}
	for _, bin := range slices.Backward(dirs) {
		share, err := exec.Command(filepath.Join(bin, "pg_config"), "--sharedir").Output()
		if err != nil {
			continue
		}
		control := filepath.Join(strings.TrimSpace(string(share)), "extension", "timescaledb.control")
		if _, err := os.Stat(control); err == nil {
			return start(t, bin, "shared_preload_libraries = 'timescaledb'\ntimescaledb.telemetry_level = off\n"+conf)
		}
	}
	testenv.Missing(t, "timescaledb", fmt.Sprintf("no PostgreSQL of %q has the extension TimescaleDB", dirs))
	return nil
}

func start(t testing.TB, bin, conf string) *Server {
	t.Helper()
	dir := testenv.QuickDir(t)
	s := &Server{Dir: dir, data: filepath.Join(dir, "data"), bin: bin, CA: filepath.Join(dir, "ca.pem")}
	s.Address = testenv.FreeAddress(t)
	s.become(t)
	s.write(t, "password", []byte(Password))
	init := exec.Command(filepath.Join(s.bin, "initdb"), "-D", s.data, "-U", User, "-A", "scram-sha-256", "--pwfile",
		filepath.Join(dir, "password"), "-E", "UTF8", "--locale", "C", "--no-sync")
	s.prepare(init)
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := tlsutil.PEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.Address)
	s.write(t, "ca.pem", ca.PEM())
	s.write(t, "data/server.crt", certPEM)
	s.write(t, "data/server.key", keyPEM)
	s.write(t, "data/postgresql.auto.conf", fmt.Appendf(nil, "listen_addresses = '127.0.0.1'\nport = %s\n"+
		"unix_socket_directories = '%s'\nssl = on\nshared_buffers = 16MB\nmax_connections = 30\n"+
		"dynamic_shared_memory_type = mmap\n%s\n", port, dir, conf)) // mmap: a kill leaves nothing in /dev/shm
	if s.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		s.log.Close()
	})
	s.Start(t)
	return s
}

// become finds the user whom the server runs as.
func (s *Server) become(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			t.Fatal(err)
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		t.Fatal(err)
	}
	s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	s.Give(t, s.Dir)
}

// Give gives a file or a directory to the server's user.
func (s *Server) Give(t testing.TB, path string) {
	t.Helper()
	if s.as != nil {
		if err := os.Chown(path, int(s.as.Uid), int(s.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *Server) write(t testing.TB, name string, data []byte) {
	t.Helper()
	path := filepath.Join(s.Dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Give(t, path)
}

func (s *Server) prepare(cmd *exec.Cmd) {
	cmd.Dir, cmd.Env = s.Dir, []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	if s.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	}
}

// Start starts the server again and waits until it takes statements.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.launch(t)
	db := s.DB(t, "postgres")
	defer db.Close()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := db.Ping()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(s.log.Name())
			t.Fatalf("PostgreSQL does not start: %v\n%s", err, log[max(len(log)-4000, 0):])
		}
		select {
		case <-s.ended: // memory of killed sessions was still in use
			s.launch(t)
		default:
		}
	}
}

func (s *Server) launch(t testing.TB) {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data)
	s.prepare(cmd)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid, s.ended = cmd.Process.Pid, make(chan struct{})
	go func(ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(s.ended)
}

// Kill ends the server and its sessions at once, as a power failure of it alone would.
func (s *Server) Kill() {
	if s.pid == 0 {
		return
	}
	_ = syscall.Kill(s.pid, syscall.SIGSTOP) // it must not start others meanwhile
	for _, child := range children(s.pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	_ = syscall.Kill(s.pid, syscall.SIGKILL)
	<-s.ended
	s.pid = 0
}

// children returns the processes that one has started.
func children(pid int) (out []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// DB returns a connection of the superuser to a database.
func (s *Server) DB(t testing.TB, database string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", User, Password, s.Address,
		database))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// Exec runs statements as the superuser.
func (s *Server) Exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	db := s.DB(t, database)
	defer db.Close()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for _, text := range statements {
		if _, err := db.ExecContext(ctx, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// Database makes an empty database and returns its name.
func (s *Server) Database(t testing.TB, options ...string) string {
	t.Helper()
	s.made++
	name := fmt.Sprintf("test%d", s.made)
	s.Exec(t, "postgres", "CREATE DATABASE "+name+" "+strings.Join(options, " "))
	return name
}

// URL returns the address of a database for the superuser, without the password.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s", User, s.Address, database)
}
