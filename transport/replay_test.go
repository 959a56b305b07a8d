package transport

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

func guardKey(device string) replayKey {
	return replayKey{device: device, stream: "s", kind: KindReading}
}

func TestReplayWindow(t *testing.T) {
	g := NewReplayGuard(64)
	k := guardKey("a")
	for _, step := range []struct {
		boot, seq uint64
		ok        bool
	}{
		{1, 0, true}, {1, 0, false}, {1, 1, true}, {1, 5, true}, {1, 3, true}, {1, 3, false}, {1, 4, true},
		{1, 100, true}, {1, 37, true}, {1, 37, false}, {1, 36, false}, // 36 is behind the window of 64
		{1, 99, true}, {1, 163, true}, {1, 100, false}, {1, 164, true}, {1, 228, true}, {1, 165, true}, {1, 164, false},
		{2, 0, true}, {2, 0, false}, {1, 229, true}, // an earlier boot epoch is still open
		{1, math.MaxUint64, true}, {1, math.MaxUint64, false}, {1, math.MaxUint64 - 1, true}, {1, 230, false},
		{3, 7, true}, {4, 7, true}, {4, 7, false}, {1, math.MaxUint64 - 2, true},
		{5, 1, true}, {1, math.MaxUint64 - 3, false}, // four are open: 1 is closed
		{2, 1, true}, {0, 9, false}, {10, 1, true}, {2, 2, false}, {3, 8, true}, {7, 0, true}, {3, 9, false},
	} {
		err := g.accept(k, step.boot, step.seq)
		if (err == nil) != step.ok || (err != nil && !errors.Is(err, ErrReplayed)) {
			t.Fatalf("boot %d sequence %d: %v, want ok=%v", step.boot, step.seq, err, step.ok)
		}
	}
}

func TestReplayKeysAreIndependent(t *testing.T) {
	g := NewReplayGuard(0)
	for _, k := range []replayKey{
		guardKey("a"), guardKey("b"), {device: "a", stream: "t", kind: KindReading},
		{device: "a", stream: "s", kind: KindStatus},
		{device: "a", program: "s", kind: KindResult}, {signer: [32]byte{1}, device: "a", stream: "s",
			kind: KindReading},
	} {
		if err := g.accept(k, 1, 1); err != nil {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

// TestReplayOnce: whatever the order and the number of deliveries, a number is
// accepted at most once, and an in-window number that was never accepted is.
func TestReplayOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewReplayGuard(64)
		k := guardKey("a")
		seen := map[[2]uint64]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			boot, seq := rapid.Uint64Range(1, 6).Draw(t, "boot"), rapid.Uint64Range(0, 300).Draw(t, "seq")
			if rapid.IntRange(0, 9).Draw(t, "reload") == 0 {
				b, err := g.MarshalBinary()
				if err != nil {
					t.Fatal(err)
				}
				g = NewReplayGuard(64)
				if err := g.UnmarshalBinary(b); err != nil {
					t.Fatal(err)
				}
			}
			var high uint64
			open := 0
			for id := range seen {
				if id[0] == boot {
					high = max(high, id[1])
				}
			}
			for b := uint64(1); b <= 6; b++ {
				for id := range seen {
					if id[0] == b && b > boot {
						open++
						break
					}
				}
			}
			id := [2]uint64{boot, seq}
			ok := g.accept(k, boot, seq) == nil
			switch {
			case ok && seen[id]:
				t.Fatalf("%v accepted twice", id)
			case !ok && !seen[id] && open < replayEpochs && seq+64 > high && len(g.streams[k].epochs) < replayEpochs:
				t.Fatalf("%v refused, it was never seen (highest %d)", id, high)
			}
			if ok {
				seen[id] = true
			}
		}
	})
}

func TestReplayForget(t *testing.T) {
	g := NewReplayGuard(64)
	k := guardKey("a")
	g.forget(k, 1, 1)
	if err := g.accept(k, 1, 1); err != nil {
		t.Fatal(err)
	}
	g.forget(k, 1, 1)
	if err := g.accept(k, 1, 1); err != nil {
		t.Errorf("after forget: %v", err)
	}
	g.forget(k, 2, 1)
	g.forget(k, 1, 99)
	if err := g.accept(k, 1, 1); err == nil {
		t.Error("forgot another number")
	}
}

func TestReplayStreamsAreBounded(t *testing.T) {
	g := NewReplayGuard(64)
	for i := range maxDeviceStreams {
		if err := g.accept(replayKey{device: "a", stream: string(rune(i + 40)), kind: KindReading}, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.accept(replayKey{device: "a", stream: "one more", kind: KindReading}, 1, 1); !errors.Is(err, ErrLimit) {
		t.Errorf("one stream too many: %v", err)
	}
	if err := g.accept(replayKey{signer: [32]byte{1}, device: "b", kind: KindReading}, 1, 1); err != nil {
		t.Errorf("another signer: %v", err)
	}
}

func TestReplayState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "replay.state")
	store := FileReplayStore(path)
	v := testVerifier(t, testOptions(t))
	if err := LoadReplay(v.opts.Replay, store); err != nil {
		t.Fatalf("no state yet: %v", err)
	}
	sealed := mustSeal(t, testReading(9), nil, testKey(t, "board-7"))
	if _, err := Open(sealed, v); err != nil {
		t.Fatal(err)
	}
	if err := SaveReplay(v.opts.Replay, store); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	restarted := testVerifier(t, testOptions(t))
	if err := LoadReplay(restarted.opts.Replay, store); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(sealed, restarted); !errors.Is(err, ErrReplayed) {
		t.Errorf("replayed across a restart: %v", err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g := restarted.opts.Replay
	for n := range good {
		if err := g.UnmarshalBinary(good[:n]); !errors.Is(err, ErrTruncated) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for _, bad := range [][]byte{{0x83, 2, 64, 0x80}, {0x83, 1, 0, 0x80}, {0x83, 1, 0x18, 65, 0x80}, append(good, 0)} {
		if err := g.UnmarshalBinary(bad); err == nil {
			t.Errorf("accepted %x", bad)
		}
	}
	if _, err := Open(sealed, restarted); !errors.Is(err, ErrReplayed) {
		t.Errorf("bad state changed the guard: %v", err)
	}
}
