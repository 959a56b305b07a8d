package secret_test

import (
	"encoding/hex"
	"errors"
	"math"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/vectors"
)

// compactVector is a window of the board whose key has the seed 00 01 ... 1f.
type compactVector struct {
	Params    string    `json:"params"`
	Hash      string    `json:"params_hash"`
	LogN      int       `json:"log_n"`
	Q         uint32    `json:"q"`
	KeySeed   string    `json:"key_seed"`
	First     []int32   `json:"first_coefficients"`
	Seed      string    `json:"seed"`
	Precision int       `json:"precision"`
	Device    string    `json:"device"`
	Stream    string    `json:"stream"`
	KeyID     string    `json:"key_id"`
	KeyEpoch  uint32    `json:"key_epoch"`
	BootEpoch uint64    `json:"boot_epoch"`
	Sequence  uint64    `json:"sequence"`
	Uniform   []uint32  `json:"c1_first_coefficients"`
	Readings  []float64 `json:"readings"`
	Decrypted []float64 `json:"decrypted"`
	Bound     float64   `json:"bound"`
	Window    string    `json:"window"`
}

// deviceVector is the key of a board and the keys of its windows for a key set whose secret key has the seed
// 00 01 ... 1f.
type deviceVector struct {
	Params      string          `json:"params"`
	KeySeed     string          `json:"key_seed"`
	Device      string          `json:"device"`
	Epoch       uint32          `json:"epoch"`
	KeyID       string          `json:"key_id"`
	BoardRoot   string          `json:"board_root"`
	Board       string          `json:"board"`
	BoardSHA256 string          `json:"board_key_sha256"`
	Small       switchingVector `json:"switching"`
	DeviceKey   fileVector      `json:"device_key"`
	JoinKey     fileVector      `json:"join_key"`
}

// switchingVector are the parameters of compact.Switching.
type switchingVector struct {
	LogN     int      `json:"log_n"`
	LogScale int      `json:"log_scale"`
	Q        []uint32 `json:"q"`
	P        []uint32 `json:"p"`
	Hash     string   `json:"params_hash"`
}

// fileVector is a file by its first bytes and its digest.
type fileVector struct {
	Bytes  int    `json:"bytes"`
	Begins string `json:"begins"`
	SHA256 string `json:"sha256"`
}

func toFile(b []byte) fileVector { return fileVector{len(b), hex.EncodeToString(b[:128]), hexSum(b)} }

// makeDevice makes the keys of a device.
func makeDevice(t *testing.T) deviceVector {
	t.Helper()
	big, set := context(t, "boot15", 1), must(compact.Named("compact12"))(t)
	small := must(henc.NewContext(must(compact.Switching(set, big.Parameters()))(t), henc.WithN2(4)))(t)
	key := must(secret.Generate(big, (*henc.Seed)(vectors.Seed())))(t)
	board := must(key.CompactBoard(must(henc.NewContext(set))(t), "pump-7"))(t)
	board.SetEpoch(2)
	file, p := must(board.Marshal())(t), small.Parameters()
	common, hash := must(key.CompactSecret(small))(t), p.Hash()
	id, boardID := [16]byte(vectors.Seed()[:16]), must(board.PublicKey())(t).KeyID
	return deviceVector{"boot15", hex.EncodeToString(vectors.Seed()[:]), "pump-7", 2, hex.EncodeToString(id[:]),
		hex.EncodeToString(file[40:72]), hex.EncodeToString(boardID[:]), hexSum(file),
		switchingVector{p.LogN(), int(math.Log2(p.ScaleAt(0))), p.Q(), p.P(), hex.EncodeToString(hash[:])},
		toFile(must(small.MarshalSwitchingKey(must(common.CompactKey(board))(t), id, 2))(t)),
		toFile(must(big.MarshalSwitchingKey(must(key.CompactKey(common))(t), id, 2))(t))}
}

// TestCompactVectors compares windows, what they decrypt to, what is refused and the keys of a device with
// docs/vectors/compact.json.
func TestCompactVectors(t *testing.T) {
	file := struct {
		Windows []compactVector `json:"windows"`
		Refused []refusedVector `json:"refused"`
		Devices []deviceVector  `json:"devices"`
	}{}
	key := boardKeyFrom(t, "compact12", 1, (*henc.Seed)(vectors.Seed()))
	s, e := must(key.Coefficients())(t), must(secret.NewCompactEncryptor(key))(t)
	readings := []float64{1, -1, 0, 0.5, -0.25, 0.97, 0.97, 0.97, 0.123456, -0.999, 0.000244140625}
	for i, n := range []int{1, 11, 5} {
		o, precision := origin, compact.Precision(12+4*(i%2))
		o.Sequence += uint64(i)
		w := must(e.Encrypt(readings[:n], precision, o, (*henc.Seed)(vectors.Seed())))(t)
		hash, c1, open := w.Params.Hash(), must(w.Uniform(o))(t), openCompact(t, w, o, s)
		for j := range open {
			if d := math.Abs(open[j] - readings[j]); d > precision.Bound() {
				t.Errorf("window %d, reading %d is off by %g", i, j, d)
			}
			open[j] = math.Round(open[j]*0x1p40) / 0x1p40
		}
		file.Windows = append(file.Windows, compactVector{w.Params.Name(), hex.EncodeToString(hash[:]), w.Params.LogN(),
			w.Params.Q()[0], hex.EncodeToString(vectors.Seed()[:]), s[:16], hex.EncodeToString(vectors.Seed()[:]),
			int(precision), o.Device, o.Stream, hex.EncodeToString(o.KeyID[:]), o.KeyEpoch, o.BootEpoch, o.Sequence,
			c1[:8], readings[:n], open, precision.Bound(), hex.EncodeToString(must(w.Marshal())(t))})
	}
	size := compact.Bytes(5, compact.Bits12)
	file.Refused = []refusedVector{
		{"cut", "compact", 2, []vectorEdit{{size - 1, 1, ""}}, "ErrTruncated"},
		{"cut in the head", "compact", 2, []vectorEdit{{13, size - 13, ""}}, "ErrTruncated"},
		{"longer", "compact", 2, []vectorEdit{{size, 0, "00"}}, "ErrMalformed"},
		{"another object", "compact", 2, []vectorEdit{{0, 1, "89"}}, "ErrKind"},
		{"another version", "compact", 2, []vectorEdit{{1, 1, "02"}}, "ErrVersion"},
		{"another set", "compact", 2, []vectorEdit{{2, 1, "02"}}, "ErrParams"},
		{"another precision", "compact", 2, []vectorEdit{{3, 1, "0d"}}, "ErrMalformed"},
		{"no readings", "compact", 2, []vectorEdit{{4, 1, "00"}}, "ErrLength"},
		{"too many readings", "compact", 2, []vectorEdit{{4, 2, "0110"}}, "ErrLength"},
		{"a bit after the last value", "compact", 2, []vectorEdit{{size - 1, 1, "ff"}}, "ErrMalformed"},
	}
	p := key.Context().Parameters()
	for _, r := range file.Refused {
		b := must(hex.DecodeString(file.Windows[r.Of].Window))(t)
		if _, err := compact.Unmarshal(p, r.apply(b)); !errors.Is(err, sentinels[r.Error]) {
			t.Errorf("%s: %v, want %s", r.Name, err, r.Error)
		}
	}
	file.Devices = []deviceVector{makeDevice(t)}
	vectors.Check(t, "compact.json", file)
}
