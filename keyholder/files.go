package keyholder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/keyset"
)

// Names of files that are the same for every role.
const (
	SecretFile     = keyset.SecretFile
	PublicFile     = keyset.PublicFile
	EvaluationFile = keyset.EvaluationFile
	// ManifestFile says what is in a key set, or in an export: then without what the
	// role does not need to know.
	ManifestFile = keyset.ManifestFile
	// SignedManifestFile is the ManifestFile of an export, sealed by the holder's key.
	SignedManifestFile = keyset.SignedManifestFile
	// holderDevice names the holder in everything that it signs.
	holderDevice = keyset.HolderName
)

const signerFile = keyset.HolderFile

// Modes of the files and directories of a key set.
const (
	dirMode    fs.FileMode = 0o700
	openMode   fs.FileMode = 0o755 // of a directory with public keys only
	secretMode fs.FileMode = 0o600
	publicMode fs.FileMode = 0o644
)

// Largest files of a key set, bytes. Evaluation keys with all rotations are the largest;
// a secret key has a few bytes per coefficient.
const (
	maxFile       = 16 << 30
	maxSecretFile = 1 << 24
)

// Private checks that only the owner of path, a file or directory, can access it, and
// that the owner is the current user or root. It fails with ErrPermissions, and names the
// command that repairs it.
func Private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return private(path, info)
}

func private(path string, info fs.FileInfo) error {
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		fix := secretMode
		if info.IsDir() {
			fix = dirMode
		}
		return fmt.Errorf("%w: %s has mode %04o, run: chmod %03o %s", ErrPermissions, path, perm, fix, path)
	}
	return ownedByUs(path, info)
}

// ownedByUs checks that a file belongs to the current user or to root.
func ownedByUs(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return owned(path, int(st.Uid), os.Geteuid())
	}
	return nil
}

// owned refuses a file of another user, who can change it whatever its mode. Root may use
// any file.
func owned(path string, uid, me int) error {
	if uid != me && uid != 0 && me != 0 {
		return fmt.Errorf("%w: %s belongs to user %d, not to this user (%d)", ErrPermissions, path, uid, me)
	}
	return nil
}

// readSecret reads a file of at most limit bytes. It first checks, on the open file, that
// nobody else can read it.
func readSecret(path string, limit int64) ([]byte, error) { return readIf(path, limit, private) }

// readGuarded reads a public file that nobody else may change.
func readGuarded(path string, limit int64) ([]byte, error) {
	return readIf(path, limit, func(path string, info fs.FileInfo) error {
		if perm := info.Mode().Perm(); perm&0o022 != 0 {
			return fmt.Errorf("%w: %s has mode %04o, run: chmod %03o %s", ErrPermissions, path, perm, publicMode, path)
		}
		return ownedByUs(path, info)
	})
}

// readIf reads a file of at most limit bytes whose owner and mode pass check.
func readIf(path string, limit int64, check func(path string, info fs.FileInfo) error) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = check(path, info)
	}
	if err != nil {
		return nil, err
	}
	return readAll(f, limit)
}

func readPublic(path string, limit int64) ([]byte, error) {
	b, err := durable.ReadFile(path, limit)
	return b, corrupt(err)
}

// copyPublic writes the public file path to w and returns its SHA-256 in hexadecimal. It
// holds none of the file in memory.
func copyPublic(w io.Writer, path string) (sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := sizeWithin(f, maxFile)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	switch n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(f, size)); {
	case err != nil:
		return "", fmt.Errorf("copy %s: %w", path, err)
	case n != size:
		return "", fmt.Errorf("copy %s: %w", path, io.ErrUnexpectedEOF)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sizeWithin returns the size of a regular file of at most limit bytes.
func sizeWithin(f *os.File, limit int64) (int64, error) {
	size, err := durable.Size(f, limit)
	return size, corrupt(err)
}

// readAll reads a regular file of at most limit bytes.
func readAll(f *os.File, limit int64) ([]byte, error) {
	b, err := durable.ReadAll(f, limit)
	return b, corrupt(err)
}

// corrupt makes a file that is not what is expected there an error of the key set.
func corrupt(err error) error {
	if errors.Is(err, durable.ErrFile) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// writeFile replaces a file in one step and returns when it is on disk.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	err := durable.WriteFrom(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// writeNew writes a file like writeFile. It fails with ErrExists if path exists.
func writeNew(path string, data []byte, mode fs.FileMode) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%w: %s", ErrExists, path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeFile(path, data, mode)
}

// streamNew makes the file path, which must not exist, of what write gives it, and returns
// its size and SHA-256 in hexadecimal. After an error there is no file.
func streamNew(path string, mode fs.FileMode, write func(io.Writer) error) (size int64, sum string, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, "", fmt.Errorf("%w: %s", ErrExists, path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, "", err
	}
	h, n := sha256.New(), counter(0)
	err = durable.WriteFrom(path, mode, func(w io.Writer) error { return write(io.MultiWriter(w, h, &n)) })
	if err != nil {
		return 0, "", fmt.Errorf("write %s: %w", path, err)
	}
	return int64(n), hex.EncodeToString(h.Sum(nil)), nil
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// temporaryEpoch begins the names of epochs that are being made.
const temporaryEpoch = ".epoch-"

// sweep removes what a process that was killed while it made an epoch has left in dir,
// whose lock is held. Directories with other files stay.
func sweep(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range all {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), temporaryEpoch) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		files := []string{SecretFile, PublicFile, EvaluationFile, keyset.CompactJoinFile, keyset.CompactPackFile}
		if err := sweepFiles(path, func(name string) bool { return slices.Contains(files, name) }); err != nil {
			return err
		}
		inner := filepath.Join(path, keyset.CompactDir)
		isKey := func(name string) bool { return filepath.Ext(name) == ".key" }
		if err := sweepFiles(inner, isKey); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Remove(inner); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return nil
}

// sweepFiles removes the files in dir whose names are ours. One that is being written has its name with a dot
// before and digits after it.
func sweepFiles(dir string, ours func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ours(strings.TrimRight(strings.TrimPrefix(e.Name(), "."), "0123456789")) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeDir makes dir and its parents; dir itself gets mode if it is new. If it is
// not, it is checked: for dirMode that nobody else has access, else that nobody
// else can write.
func makeDir(dir string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	switch err := os.Mkdir(dir, mode); {
	case err == nil:
		return os.Chmod(dir, mode)
	case errors.Is(err, fs.ErrExist) && mode == dirMode:
		return Private(dir)
	case errors.Is(err, fs.ErrExist):
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o022 != 0 {
			err = fmt.Errorf("%w: %s has mode %04o, run: chmod go-w %s", ErrPermissions, dir, info.Mode().Perm(), dir)
		}
		return err
	default:
		return err
	}
}

// emptyDir fails with ErrExists unless dir holds nothing but its lock.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, ManifestFile)); err == nil {
		if _, err := os.Lstat(filepath.Join(dir, signerFile)); err != nil {
			return fmt.Errorf("%w: %s holds an export of a key set; use another directory", ErrExists, dir)
		}
		return fmt.Errorf("%w: %s holds a key set; use another directory, or give it fresh keys with: hencedge keys "+
			"rotate --dir %s", ErrExists, dir, dir)
	}
	for _, e := range entries {
		if e.Name() != ".lock" {
			return fmt.Errorf("%w: %s is not empty (it holds %s)", ErrExists, dir, e.Name())
		}
	}
	return nil
}

// lock takes the exclusive lock of a key set for a change; the returned
// function gives it back.
func lock(dir string) (func(), error) {
	f, err := durable.LockFile(filepath.Join(dir, ".lock"))
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("another process is changing this key set: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

func digest(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}
