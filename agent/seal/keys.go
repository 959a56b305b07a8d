package seal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// ErrKey: a key file cannot be used.
var ErrKey = errors.New("key file")

var errDirectory = errors.New("it is a directory")

// Keys are what windows are encrypted and signed with.
type Keys struct {
	// Context of the streams' parameters; where all streams are compact, of the boards' ring.
	Context   *henc.Context
	encryptor henc.RealEncryptor // nil where all streams are compact
	board     *board             // nil where none is
	whole     *whole             // of parameters that hold whole numbers; nil for others
	ID        [16]byte
	Epoch     uint32
	Seeded    bool
	Signing   *transport.SigningKey
	Missing   bool // there is no signing key yet

	own     []func()                                  // wipes what was loaded here
	newSeed func(hedge ...[]byte) (*henc.Seed, error) // nil: henc.NewSeed
}

// WipeLater has wipe called with the others.
func (k *Keys) WipeLater(wipe func()) { k.own = append(k.own, wipe) }

// Adopt takes over what has to be wiped of keys that these replace.
func (k *Keys) Adopt(old Keys) { k.own = append(k.own, old.own...) }

// Wipe wipes what was loaded here.
func (k *Keys) Wipe() {
	for _, f := range k.own {
		f()
	}
	k.own = nil
}

// UsePublic makes the encryptor of public-key mode.
func (k *Keys) UsePublic(pk *henc.PublicKey) error {
	if k.Context.Parameters().Integers() {
		return k.useWhole(pk)
	}
	e, err := henc.NewEncryptor(k.Context, pk)
	if err != nil {
		return err
	}
	k.encryptor, k.ID, k.Epoch = e, pk.KeyID, pk.Epoch
	return nil
}

// useSecret makes the encryptor of symmetric mode.
func (k *Keys) useSecret(sk *secret.Key) error {
	if p := k.Context.Parameters(); p.Integers() {
		return fmt.Errorf("%w: rows under %s are encrypted with the public key: leave out mode: symmetric", ErrKey,
			p.Name())
	}
	pk, err := sk.PublicKey()
	if err != nil {
		return err
	}
	k.encryptor, k.ID, k.Epoch, k.Seeded = secret.NewSeededEncryptor(k.Context, sk), pk.KeyID, pk.Epoch, true
	return nil
}

// Load takes the given keys or reads the files.
func (k *Keys) Load(cfg *config.Agent, given Given, fail func(path string, err error)) {
	switch {
	case cfg.AllCompact():
	case k.Context == nil: // the parameters are not known; the file can still be looked at
		path, file, mask := "keys.public_key", cfg.Keys.PublicKey, os.FileMode(0o022)
		if cfg.Keys.Mode == config.KeyModeSymmetric {
			path, file, mask = "keys.secret_key", cfg.Keys.SecretKey, 0o077
		}
		b, err := readKey(file, mask)
		if err != nil && given.Public == nil && given.Secret == nil {
			fail(path, err)
		}
		clear(b)
	case given.Public != nil:
		if err := k.UsePublic(given.Public); err != nil {
			fail("keys.public_key", err)
		}
	case given.Secret != nil:
		if err := k.useSecret(given.Secret); err != nil {
			fail("keys.secret_key", err)
		}
	default:
		k.loadFile(cfg.Keys, fail)
	}
	if slices.ContainsFunc(cfg.Streams, func(s config.Stream) bool { return s.Compact() > 0 }) {
		k.loadBoard(cfg, given, fail)
	}
	k.Signing = given.Signing
	if k.Signing != nil {
		return
	}
	key, err := transport.LoadSigningKey(cfg.SigningKey)
	switch {
	case err == nil:
		k.Signing = key
		k.WipeLater(key.Wipe)
	case errors.Is(err, fs.ErrNotExist) && FirstStart(cfg):
		k.Missing = true
	default:
		fail("signing_key", NoSigningKey(cfg, err))
	}
}

// Given take the place of the keys that a configuration names.
type Given struct {
	Public  *henc.PublicKey
	Secret  *secret.Key
	Board   *GivenBoard
	Signing *transport.SigningKey
}

// errKeyLost: the device has a state and no signing key.
var errKeyLost = errors.New("this device had a key")

// NoSigningKey explains err, with which the signing key of cfg could not be loaded: its
// directory is not there, or the device must have had a key. Other errors stay as they are.
func NoSigningKey(cfg *config.Agent, err error) error {
	if !errors.Is(err, fs.ErrNotExist) || FirstStart(cfg) {
		return err
	}
	dir := filepath.Dir(cfg.SigningKey)
	if info, derr := os.Stat(dir); errors.Is(derr, fs.ErrNotExist) || derr == nil && !info.IsDir() {
		return fmt.Errorf("signing key %s: %w; make it for the user that the agent runs as, for example: install -d "+
			"-m 700 -o USER %s", cfg.SigningKey, NoDirectory(dir), dir)
	}
	return fmt.Errorf("%w; %w, since its state %s exists: restore the key, or remove the state to enrol again", err,
		errKeyLost, cfg.State)
}

// loadFile reads the key that encrypts, and verifies the export that it lies in.
func (k *Keys) loadFile(cfg config.AgentKeys, fail func(path string, err error)) {
	path, file, barred, use := "keys.public_key", cfg.PublicKey, fs.FileMode(0o022), k.readPublic
	if cfg.Mode == config.KeyModeSymmetric {
		path, file, barred, use = "keys.secret_key", cfg.SecretKey, 0o077, k.readSecret
	}
	trust, err := keyset.Trusted(cfg.Holder)
	if err != nil {
		fail("keys.holder", err)
		trust = keyset.Anyone() // so that all mistakes are found at once
	}
	b, err := readKey(file, barred)
	if err != nil {
		fail(path, err)
		return
	}
	export, err := keyset.OpenExport(filepath.Dir(file), trust)
	switch {
	case errors.Is(err, keyset.ErrHolder):
		clear(b)
		fail("keys.holder", err)
		return
	case cfg.Holder == config.HolderNone && errors.Is(err, fs.ErrNotExist): // a key alone, of which nothing is asked
	case err != nil:
		clear(b)
		fail(path, fmt.Errorf("%w %s: its export: %w", ErrKey, file, err))
		return
	}
	if err := use(file, b, export); err != nil { // b is not needed after it
		fail(path, err)
	}
}

// FirstStart reports whether an agent of this configuration would make its
// Signing key: there is neither a key nor a state, so nobody can know this device
// by another key yet.
func FirstStart(cfg *config.Agent) bool {
	_, keyErr := os.Lstat(cfg.SigningKey)
	_, stateErr := os.Lstat(cfg.State)
	dir, dirErr := os.Stat(filepath.Dir(cfg.SigningKey))
	return errors.Is(keyErr, fs.ErrNotExist) && errors.Is(stateErr, fs.ErrNotExist) && dirErr == nil && dir.IsDir()
}

// MakeSigning makes the signing key of a first start; it is on disk when first returns.
func (k *Keys) MakeSigning(path string) error {
	key, err := transport.NewSigningKey()
	if err != nil {
		return err
	}
	if err := key.Save(path); err != nil {
		return err
	}
	k.Signing, k.Missing = key, false
	k.WipeLater(key.Wipe)
	return nil
}

// maxKeyFile bounds a key file, in bytes: the public key of the largest named
// set has 14 MiB.
const maxKeyFile = 64 << 20

// readPublic takes the public key b of the file path. export, unless nil, must list it.
func (k *Keys) readPublic(path string, b []byte, export *keyset.Export) error {
	if export != nil {
		if _, err := export.Lists(keyset.PublicFile, b); err != nil {
			return fmt.Errorf("%w: %w", ErrKey, err)
		}
	}
	pk, err := k.Context.UnmarshalPublicKey(b)
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrKey, path, err)
	}
	size := len(b)
	reclaim(size) // nobody holds b any more
	err = k.UsePublic(pk)
	k.Context.Ring().Free(pk.Value) // the encryptor has its own form of it
	reclaim(size)
	return err
}

// readSecret takes the secret key b of the file path, and clears it. export, unless nil,
// must list its public key.
func (k *Keys) readSecret(path string, b []byte, export *keyset.Export) error {
	defer clear(b)
	sk, err := secret.Unmarshal(k.Context, b)
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrKey, path, err)
	}
	k.WipeLater(func() { _ = sk.Wipe() })
	if err := k.useSecret(sk); err != nil || export == nil {
		return err
	}
	if _, listed := export.Manifest.ByID(k.ID); !listed {
		return fmt.Errorf("%w: %w: %s belongs to key set %x, which is not the signed one", ErrKey,
			keyset.ErrCorrupt, path, k.ID)
	}
	return nil
}

// readKey reads a key file; none of the permission bits in barred may be set.
func readKey(path string, barred fs.FileMode) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	case info.IsDir():
		return nil, fmt.Errorf("%w %s: %w", ErrKey, path, errDirectory)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w %s: not a regular file", ErrKey, path)
	case info.Mode().Perm()&barred&^0o022 != 0:
		return nil, fmt.Errorf("%w %s: users other than its owner can read it (mode %04o); run: chmod go-rwx %s",
			ErrKey, path, info.Mode().Perm(), path)
	case info.Mode().Perm()&barred != 0:
		return nil, fmt.Errorf("%w %s: users other than its owner can change it (mode %04o); run: chmod go-w %s",
			ErrKey, path, info.Mode().Perm(), path)
	case info.Size() > maxKeyFile:
		return nil, fmt.Errorf("%w %s: %d bytes, too large for a key", ErrKey, path, info.Size())
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrKey, path, err)
	}
	return b, nil
}

// NoDirectory says that a directory is absent.
type NoDirectory string

func (d NoDirectory) Error() string { return fmt.Sprintf("the directory %s does not exist", string(d)) }
func (NoDirectory) Unwrap() error   { return fs.ErrNotExist }

// Remedy says what to do about a key that cannot be used.
func Remedy(path string, err error) string {
	remedy := "export the key again with `hencedge keys export --role agent`"
	if path == "keys.board_key" {
		remedy += " and --device"
	}
	if known := keyset.Remedy(err, "holder:"); known != "" {
		return known
	}
	switch {
	case errors.Is(err, keyset.ErrCorrupt):
		return "copy the whole export there: keyset.json and keyset.cose beside the key, nothing from another export"
	case errors.Is(err, fs.ErrNotExist) &&
		(strings.Contains(err.Error(), keyset.ManifestFile) ||
			strings.Contains(err.Error(), keyset.SignedManifestFile)):
		return "leave keyset.json and keyset.cose of the export beside the key: they show who made it"
	case errors.Is(err, errOtherDevice):
		return "copy what `hencedge keys device` wrote for this device, or write the device's name"
	case strings.Contains(err.Error(), "chmod"):
		return "do as the message says, as root or the file's owner"
	case path == "signing_key" && errors.Is(err, fs.ErrPermission):
		return "give the file to the user that the agent runs as: chown, chmod 600"
	case path == "signing_key" && errors.As(err, new(NoDirectory)), errors.Is(err, errKeyLost):
		return "do as the message says"
	case path == "signing_key":
		return "make one with `hencedge keys identity FILE`, or correct the path"
	case errors.Is(err, henc.ErrParams):
		return "write the key's parameters into the streams, or " + remedy + " from a key set for these"
	case errors.Is(err, errDirectory):
		return "name the file in it: public.key, secret.key with mode symmetric, or board.key"
	case errors.Is(err, fs.ErrPermission):
		return "let the user that the agent runs as read the file"
	case errors.Is(err, fs.ErrNotExist):
		return "correct the path, or " + remedy
	}
	return remedy
}

// largeBody is the size, in bytes, from which dead memory is collected at once
// instead of when the heap has grown by a share: with objects of 20 MiB that
// share is most of what a board has.
const largeBody = 4 << 20

// reclaim collects dead memory after something of size bytes has been freed.
func reclaim(size int) {
	if size >= largeBody {
		runtime.GC()
	}
}
