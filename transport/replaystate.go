package transport

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/hencedge/hencedge/internal/durable"
)

const (
	replayStateVersion = 1
	maxReplayState     = 64 << 20
)

var replayDec = must(cbor.DecOptions{
	IndefLength:      cbor.IndefLengthForbidden,
	TagsMd:           cbor.TagsForbidden,
	UTF8:             cbor.UTF8RejectInvalid,
	MaxNestedLevels:  8,
	MaxArrayElements: maxReplayStreams,
	MaxMapPairs:      16,
}.DecMode())

func compareKeys(a, b replayKey) int {
	return cmp.Or(bytes.Compare(a.signer[:], b.signer[:]), strings.Compare(a.device, b.device),
		strings.Compare(a.stream, b.stream), strings.Compare(a.program, b.program), cmp.Compare(a.kind, b.kind))
}

// MarshalBinary returns the state of the guard; equal states give equal bytes.
func (g *ReplayGuard) MarshalBinary() ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := wireReplay{Version: replayStateVersion, Window: g.window}
	keys := make([]replayKey, 0, len(g.streams))
	for k := range g.streams {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	for _, k := range keys {
		s := g.streams[k]
		ws := wireStream{Signer: k.signer[:], Device: k.device, Stream: k.stream, Program: k.program,
			Kind: uint8(k.kind), Floor: s.floor}
		for _, e := range s.epochs {
			ws.Epochs = append(ws.Epochs, wireEpoch{Boot: e.boot, High: e.high, Seen: e.seen})
		}
		w.Streams = append(w.Streams, ws)
	}
	b, err := wireEnc.Marshal(&w)
	if err != nil {
		return nil, fmt.Errorf("encode replay state: %w", err)
	}
	return b, nil
}

// UnmarshalBinary replaces the state of the guard. State of another window size
// is taken with that window. On an error the guard is unchanged.
func (g *ReplayGuard) UnmarshalBinary(b []byte) error {
	if len(b) > maxReplayState {
		return fmt.Errorf("%w: replay state of %d bytes", ErrTooLarge, len(b))
	}
	var w wireReplay
	if err := replayDec.Unmarshal(b, &w); err != nil {
		return decodeError("replay state", err)
	}
	if w.Version != replayStateVersion {
		return fmt.Errorf("%w: replay state of version %d, want %d", ErrUnsupportedVersion, w.Version,
			replayStateVersion)
	}
	if w.Window < 64 || w.Window > 1<<16 || w.Window%64 != 0 {
		return fmt.Errorf("%w: replay state with a window of %d", ErrMalformed, w.Window)
	}
	streams := make(map[replayKey]*replayStream, len(w.Streams))
	signers := make(map[[32]byte]int)
	for _, ws := range w.Streams {
		if len(ws.Signer) != 32 || len(ws.Epochs) > replayEpochs {
			return fmt.Errorf("%w: replay state of %q", ErrMalformed, ws.Device)
		}
		k := replayKey{[32]byte(ws.Signer), ws.Device, ws.Stream, ws.Program, Kind(ws.Kind)}
		if streams[k] != nil {
			return fmt.Errorf("%w: replay state names %q twice", ErrMalformed, ws.Device)
		}
		s := &replayStream{floor: ws.Floor}
		for i, e := range ws.Epochs {
			if uint64(len(e.Seen)) != w.Window/64 || e.Boot < ws.Floor || (i > 0 && e.Boot >= ws.Epochs[i-1].Boot) {
				return fmt.Errorf("%w: replay state of %q", ErrMalformed, ws.Device)
			}
			s.epochs = append(s.epochs, replayEpoch{boot: e.Boot, high: e.High, seen: e.Seen})
		}
		streams[k] = s
		signers[k.signer]++
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.window, g.streams, g.signers = w.Window, streams, signers
	return nil
}

type wireReplay struct {
	_       struct{} `cbor:",toarray"`
	Version uint64
	Window  uint64
	Streams []wireStream
}

type wireStream struct {
	_       struct{} `cbor:",toarray"`
	Signer  []byte
	Device  string
	Stream  string
	Program string
	Kind    uint8
	Floor   uint64
	Epochs  []wireEpoch
}

type wireEpoch struct {
	_    struct{} `cbor:",toarray"`
	Boot uint64
	High uint64
	Seen []uint64
}

// Empty reports whether the guard has seen nothing.
func (g *ReplayGuard) Empty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.streams) == 0
}

// LoadReplay fills g from store; a store without state leaves g empty.
func LoadReplay(g *ReplayGuard, store ReplayStore) error {
	b, err := store.Load()
	if err != nil {
		return fmt.Errorf("load replay state: %w", err)
	}
	if b == nil {
		return nil
	}
	if err := g.UnmarshalBinary(b); err != nil {
		return fmt.Errorf("load replay state: %w", err)
	}
	return nil
}

// SaveReplay writes the state of g to store. Objects accepted between the last
// save and a crash can be replayed once; a service saves every few seconds and
// when it stops.
func SaveReplay(g *ReplayGuard, store ReplayStore) error {
	b, err := g.MarshalBinary()
	if err == nil {
		err = store.Save(b)
	}
	if err != nil {
		return fmt.Errorf("save replay state: %w", err)
	}
	return nil
}

// ReplayStore keeps the state of a ReplayGuard between runs. Load returns nil
// when there is no state yet.
type ReplayStore interface {
	Load() ([]byte, error)
	Save(state []byte) error
}

// FileReplayStore keeps the state in a file that is replaced atomically.
type FileReplayStore string

// Load reads the file; a file that is not there is no state.
func (path FileReplayStore) Load() ([]byte, error) {
	f, err := os.Open(string(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxReplayState+1))
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Save replaces the file, mode 0600, and flushes it to disk.
func (path FileReplayStore) Save(state []byte) error {
	return durable.WriteState(string(path), state)
}
