package keyset

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

const (
	// SignedManifestFile is the manifest of an export, sealed by the holder's key.
	SignedManifestFile = "keyset.cose"
	// HolderName is the sender of everything that a key holder signs.
	HolderName = "keyholder"
	// MaxFile bounds a public file of a key set. The evaluation keys of the largest
	// set with all rotations are the largest.
	MaxFile = 16 << 30
)

// Export is an export whose manifest is signed by a trusted holder.
type Export struct {
	Dir      string
	Manifest *Manifest
	Params   henc.Parameters
	Holder   ed25519.PublicKey // who signed
}

// ReadManifest reads the manifest of a key set or of an export. It checks neither who
// signed it nor the files that it lists.
func ReadManifest(dir string) (*Manifest, error) {
	raw, err := readFile(filepath.Join(dir, ManifestFile), MaxManifest)
	if err != nil {
		return nil, err
	}
	m, err := ParseManifest(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ManifestFile), err)
	}
	return m, nil
}

// OpenExport reads the manifest of the export in dir and verifies its signature. It
// fails with ErrSecret when dir is a key set with its secret keys, with ErrHolder when somebody signed who is not
// trusted, with ErrCorrupt when manifest and signature do not belong together or make no sense, and with the error
// of a file that cannot be read. Files are verified as they are read.
func OpenExport(dir string, trust Trust) (*Export, error) {
	if err := notKeySet(dir); err != nil {
		return nil, err
	}
	raw, err := readFile(filepath.Join(dir, ManifestFile), MaxManifest)
	if err != nil {
		return nil, err
	}
	m, err := ParseManifest(raw)
	if err != nil {
		return nil, err
	}
	holder, err := transport.ParsePublicKey(m.Signer)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: signer: %w", ErrCorrupt, ManifestFile, err)
	}
	if err := trust.Check(holder); err != nil {
		return nil, err
	}
	params, err := m.Parameters()
	if err != nil {
		return nil, err
	}
	sealed, err := readFile(filepath.Join(dir, SignedManifestFile), 2*MaxManifest)
	if err != nil {
		return nil, err
	}
	if err := checkSeal(sealed, raw, holder, params); err != nil {
		return nil, err
	}
	return &Export{Dir: dir, Manifest: m, Params: params, Holder: holder}, nil
}

// Seal returns SignedManifestFile for the bytes of a manifest.
func Seal(manifest []byte, p henc.Parameters, holder *transport.SigningKey) ([]byte, error) {
	return transport.Seal(transport.Meta{Kind: transport.KindStatus, Device: HolderName, Params: p.Hash()},
		manifest, holder)
}

// checkSeal verifies that holder signed the manifest.
func checkSeal(sealed, manifest []byte, holder ed25519.PublicKey, p henc.Parameters) error {
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{HolderName: holder})
	if err != nil {
		return err
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds: []transport.Kind{transport.KindStatus}, AnyKey: true, AnyParams: true})
	if err != nil {
		return err
	}
	obj, err := transport.Open(sealed, v)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, SignedManifestFile, err)
	}
	if string(obj.Body) != string(manifest) || obj.Meta.Params != p.Hash() {
		return fmt.Errorf("%w: %s is not what %s signs", ErrCorrupt, ManifestFile, SignedManifestFile)
	}
	return nil
}

// Path is where the file called name of an epoch lies.
func (x *Export) Path(e Epoch, name string) string {
	if name == PublicFile {
		return filepath.Join(x.Dir, name)
	}
	return filepath.Join(x.Dir, e.Dir(), name)
}

// Stream gives a public file of an epoch to read, which must read all of it. The file may be larger than the
// memory: it is read twice, first to verify it. Stream fails with ErrCorrupt when it is not the file that was signed or
// changed in between, and with what read returns.
func (x *Export) Stream(e Epoch, name string, read func(io.Reader) error) error {
	path := x.Path(e, name)
	f, _, err := open(path, MaxFile)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if e.Files[name] != hex.EncodeToString(sum.Sum(nil)) {
		return notSigned(path)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	sum.Reset()
	err = read(io.TeeReader(f, sum))
	if err == nil && e.Files[name] != hex.EncodeToString(sum.Sum(nil)) {
		return notSigned(path)
	}
	return err
}

// Lists finds the epoch whose file called name has the given content. It fails with
// ErrCorrupt when there is none: the file is not one that was signed.
func (x *Export) Lists(name string, content []byte) (Epoch, error) {
	sum := sha256.Sum256(content)
	for _, e := range x.Manifest.Epochs {
		if e.Files[name] == hex.EncodeToString(sum[:]) {
			return e, nil
		}
	}
	return Epoch{}, notSigned(filepath.Join(x.Dir, name))
}

// Verify compares every file that the manifest lists with its digest.
func (x *Export) Verify() error {
	return x.VerifyTelling(func(int64, int64) error { return nil })
}

// VerifyTelling is Verify with progress, which is told how many bytes of all files were read, and
// ends the work if it fails: VerifyTelling then returns its error.
func (x *Export) VerifyTelling(progress func(done, total int64) error) error {
	files, err := x.files()
	if err != nil {
		return err
	}
	var done, total int64
	for _, f := range files {
		if info, err := os.Stat(f.path); err == nil { // others are found when they are read
			total += info.Size()
		}
	}
	for _, f := range files {
		err := f.verify(func(n int) error { done += int64(n); return progress(done, max(done, total)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// listed is a file of a manifest.
type listed struct{ path, digest string }

// files returns what the manifest lists.
func (x *Export) files() (out []listed, err error) {
	for _, e := range x.Manifest.Epochs {
		for name, want := range e.Files {
			if filepath.Base(name) != name {
				return nil, fmt.Errorf("%w: the manifest lists a file %q", ErrCorrupt, name)
			}
			out = append(out, listed{x.Path(e, name), want})
		}
		if e.Compact == nil {
			continue
		}
		for _, d := range e.Compact.Devices {
			if d.SHA256 != "" {
				out = append(out, listed{x.Path(e, CompactFile(d.Name)), d.SHA256})
			}
		}
	}
	return out, nil
}

// verify compares a file with its digest. It tells read of every piece, and fails if that fails.
func (l listed) verify(read func(n int) error) error {
	f, _, err := open(l.path, MaxFile)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	for piece := make([]byte, 1<<20); err == nil; {
		var n int
		n, err = f.Read(piece)
		sum.Write(piece[:n])
		if stop := read(n); stop != nil {
			return stop
		}
	}
	if err != io.EOF {
		return fmt.Errorf("read %s: %w", l.path, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != l.digest {
		return notSigned(l.path)
	}
	return nil
}

func notSigned(path string) error {
	return fmt.Errorf("%w: %s is not the file that was signed", ErrCorrupt, path)
}

// open opens a regular file of at most limit bytes.
func open(path string, limit int64) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%w: %s is not a regular file", ErrCorrupt, path)
	case info.Size() > limit:
		err = fmt.Errorf("%w: %s has %d bytes, at most %d are expected", ErrCorrupt, path, info.Size(), limit)
	default:
		return f, info.Size(), nil
	}
	f.Close()
	return nil, 0, err
}

// readFile reads a regular file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, size, err := open(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}
