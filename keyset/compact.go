package keyset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/transport"
)

// Names of the files of compact windows.
const (
	// BoardFile is a board's secret, in the export for its agent and nowhere else.
	BoardFile = "board.key"
	// CompactJoinFile is the key from the common secret to that of the results.
	CompactJoinFile = "compact-join.key"
	// CompactPackFile are the Galois keys of the common secret, those of compact.PackElements.
	CompactPackFile = "compact-pack.key"
	// CompactDir is the directory of an epoch with a file NAME.key for each device: the key from the board's secret to
	// the common one.
	CompactDir = "compact"
)

// maxCompactFile bounds a file of compact windows: two digits of three limbs in the largest ring, both halves.
const maxCompactFile = 16 << 20

// ErrNoCompact: a device, or the whole epoch, has no keys of compact windows.
var ErrNoCompact = errors.New("no keys of compact windows")

// Compact says which boards have a secret of their own for compact windows.
type Compact struct {
	Set     string          `json:"set"`     // of the boards' ring, see compact.Names
	Devices []CompactDevice `json:"devices"` // by name, ascending
}

// CompactDevice is a board with a secret of its own.
type CompactDevice struct {
	Name string `json:"name"`
	// Board is the key id of a public key under the board's secret, hexadecimal. That public key is used for nothing
	// else.
	Board string `json:"board"`
	// SHA256 of the device's file for evaluators, hexadecimal; empty in an export without that file.
	SHA256 string `json:"sha256,omitempty"`
}

// CompactFile is the name of a device's file in its epoch's directory.
func CompactFile(device string) string { return filepath.Join(CompactDir, device+".key") }

// Device finds a device. A nil Compact has none.
func (c *Compact) Device(name string) (CompactDevice, bool) {
	if c == nil {
		return CompactDevice{}, false
	}
	i, ok := slices.BinarySearchFunc(c.Devices, name,
		func(d CompactDevice, name string) int { return strings.Compare(d.Name, name) })
	if !ok {
		return CompactDevice{}, false
	}
	return c.Devices[i], true
}

// check fails with ErrCorrupt unless the set is known and the devices are complete and in order.
func (c *Compact) check(epoch uint32) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: compact windows of epoch %d: %w", ErrCorrupt, ManifestFile, epoch,
			fmt.Errorf(format, args...))
	}
	if _, err := compact.Named(c.Set); err != nil {
		return bad("%w", err)
	}
	last := ""
	for _, d := range c.Devices {
		if err := transport.CheckName(d.Name); err != nil {
			return bad("%w", err)
		}
		if d.Name <= last {
			return bad("device %q follows %q", d.Name, last)
		}
		last = d.Name
		if !isHex(d.Board, 16) || d.SHA256 != "" && !isHex(d.SHA256, sha256.Size) {
			return bad("device %q has the board %q and the digest %q", d.Name, d.Board, d.SHA256)
		}
	}
	return nil
}

// isHex reports whether text is size bytes in hexadecimal.
func isHex(text string, size int) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == size
}

// CompactDevices are the names of the devices with keys of compact windows, ascending.
func (e Epoch) CompactDevices() (names []string) {
	if e.Compact != nil {
		for _, d := range e.Compact.Devices {
			names = append(names, d.Name)
		}
	}
	return names
}

// CompactParameters are the parameters of the boards' ring, and of the small ring on the server (compact.Switching),
// for a key set with the parameters p. It fails with ErrNoCompact where no device has keys, and with ErrCorrupt.
func (e Epoch) CompactParameters(p henc.Parameters) (set, small henc.Parameters, err error) {
	if e.Compact == nil {
		return set, small, fmt.Errorf("epoch %d: %w", e.Epoch, ErrNoCompact)
	}
	if set, err = compact.Named(e.Compact.Set); err == nil {
		small, err = compact.Switching(set, p)
	}
	if err != nil {
		return set, small, fmt.Errorf("%w: epoch %d: %w", ErrCorrupt, e.Epoch, err)
	}
	return set, small, nil
}

// CompactCommon reads the keys that all devices of an epoch share: join leads from the common secret to that of the
// results (compact.NewReceiver), pack are Galois keys of the common secret by element (compact.NewPacker). big has the
// parameters of the key set, small those of CompactParameters. The keys lie in the memory of the contexts' rings. It
// fails with ErrNoCompact, and with ErrCorrupt unless the files are those that were signed.
func (x *Export) CompactCommon(
	e Epoch, small, big *henc.Context,
) (join *henc.SwitchingKey, pack map[uint64]*henc.SwitchingKey, err error) {
	b, err := x.compactFile(e, CompactJoinFile, e.Files[CompactJoinFile])
	if err != nil {
		return nil, nil, err
	}
	if join, err = x.switching(e, CompactJoinFile, big, b); err != nil {
		return nil, nil, err
	}
	if b, err = x.compactFile(e, CompactPackFile, e.Files[CompactPackFile]); err == nil {
		var keys *henc.EvaluationKeys
		if keys, err = small.UnmarshalEvaluationKeys(b); err == nil {
			if err = e.owns(henc.KeyHeader{KeyID: keys.KeyID, Epoch: keys.Epoch}); err == nil {
				return join, keys.Galois, nil
			}
			for _, k := range keys.Galois {
				small.Ring().Free(k.Value)
			}
		}
		err = x.unusable(e, CompactPackFile, err)
	}
	big.Ring().Free(join.Value)
	return nil, nil, err
}

// CompactDevice reads the key that leads from a device's secret to the common one (compact.Receiver.Prepare). small has
// the parameters of CompactParameters, and the key lies in its ring's memory. It fails like CompactCommon.
func (x *Export) CompactDevice(e Epoch, device string, small *henc.Context) (*henc.SwitchingKey, error) {
	d, ok := e.Compact.Device(device)
	if !ok {
		return nil, fmt.Errorf("device %s in epoch %d: %w", device, e.Epoch, ErrNoCompact)
	}
	b, err := x.compactFile(e, CompactFile(device), d.SHA256)
	if err != nil {
		return nil, err
	}
	return x.switching(e, CompactFile(device), small, b)
}

// compactFile reads a file of an epoch that has the digest want.
func (x *Export) compactFile(e Epoch, name, want string) ([]byte, error) {
	path := x.Path(e, name)
	if want == "" {
		return nil, fmt.Errorf("%s: %w", path, ErrNoCompact)
	}
	b, err := readFile(path, maxCompactFile)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != want {
		return nil, notSigned(path)
	}
	return b, nil
}

// switching decodes a switching key of an epoch.
func (x *Export) switching(e Epoch, name string, ctx *henc.Context, b []byte) (*henc.SwitchingKey, error) {
	k, h, err := ctx.UnmarshalSwitchingKey(b)
	if err != nil {
		return nil, x.unusable(e, name, err)
	}
	if err := e.owns(h); err != nil {
		ctx.Ring().Free(k.Value)
		return nil, x.unusable(e, name, err)
	}
	return k, nil
}

// owns fails unless a key belongs to the epoch.
func (e Epoch) owns(h henc.KeyHeader) error {
	if id, err := e.ID(); err != nil || h.KeyID != id || h.Epoch != e.Epoch {
		return fmt.Errorf("it is for epoch %d of key set %x, not for epoch %d of %s", h.Epoch, h.KeyID, e.Epoch,
			e.KeyID)
	}
	return nil
}

func (x *Export) unusable(e Epoch, name string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrCorrupt, x.Path(e, name), err)
}
