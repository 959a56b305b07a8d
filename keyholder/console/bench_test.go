package console

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder/store"

	_ "modernc.org/sqlite" // which fills the database
)

// BenchmarkViews measures what the page asks for over 1,000,000 results: half of one series, a
// second apart, and half of 10,000 devices, an hour apart. HENCEDGE_BENCH_DB names a file that is
// kept for the next time.
func BenchmarkViews(b *testing.B) {
	g := newRig(b, func(k *config.KeyHolder) {
		withAlarm(k)
		k.History = &config.History{}
	})
	fill(b, g)
	g.start()
	who := g.letIn(Viewer)
	for _, path := range []string{"/api/programs", "/api/fleet?sort=last&way=down", "/api/fleet?q=board0999",
		"/api/devices?program=load&q=board05", "/api/results?limit=50", "/api/results?program=mean&device=&limit=10",
		"/api/series?program=mean&device=",
		fmt.Sprintf("/api/series?program=mean&device=&from=%d&to=%d", benchEnd.Add(-30*time.Hour).UnixMilli(),
			benchEnd.UnixMilli()),
		fmt.Sprintf("/api/series?program=mean&device=&points=4000&from=%d&to=%d", benchEnd.Add(-time.Hour).UnixMilli(),
			benchEnd.UnixMilli()),
		"/api/series?program=load&device=board00042", "/api/alarms", "/api/keys"} {
		b.Run(path, func(b *testing.B) {
			before := processor(b)
			for b.Loop() {
				g.pass(time.Second)
				if w := who.do("GET", path, nil); w.Code != http.StatusOK {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
			b.ReportMetric(float64((processor(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.Logf("%d MiB in use on the heap, %d MiB from the system", m.HeapAlloc>>20, m.Sys>>20)
}

// processor returns the processor time that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const benchSeries, benchDevices = 500_000, 10_000

var benchEnd = noon

// fill puts the results into the database of the rig.
func fill(b *testing.B, g *rig) {
	b.Helper()
	must(b, g.writing.Close())
	file := g.cfg.Kept().File
	if kept := os.Getenv("HENCEDGE_BENCH_DB"); kept != "" {
		g.cfg.History.File, file = kept, kept
		if _, err := os.Stat(kept); err == nil {
			return
		}
		must(b, os.MkdirAll(filepath.Dir(kept), 0o700))
		s, err := store.Open(b.Context(), store.Options{History: g.cfg.Kept(), Logger: testrig.Quiet()})
		must(b, err, s.Close())
	}
	db, err := sql.Open("sqlite", "file:"+file)
	must(b, err)
	defer db.Close()
	tx, err := db.BeginTx(b.Context(), nil)
	must(b, err)
	insert, err := tx.Prepare(`INSERT INTO results (identity, program, device, evaluator, unit, key_id, epoch,
		boot_epoch, sequence, start_ns, end_ns, samples, value, bound, object, inputs, bytes, packed)
		VALUES (randomblob(16), ?, ?, 'cloud', 'K', zeroblob(16), 1, 1, ?, ?, ?, 16, ?, 0.01, randomblob(32),
		randomblob(32), 1000, 0)`)
	must(b, err)
	add := func(program, device string, n int, end time.Time, length time.Duration) {
		_, err := insert.Exec(program, device, n, end.Add(-length).UnixNano(), end.UnixNano(), float64(n%977)/7)
		must(b, err)
	}
	for i := range benchSeries {
		add("mean", "", i, benchEnd.Add(time.Duration(i-benchSeries)*time.Second), time.Second)
	}
	for i := range 1_000_000 - benchSeries {
		end := benchEnd.Add(time.Duration(i/benchDevices-50) * time.Hour)
		add("load", fmt.Sprintf("board%05d", i%benchDevices), i, end, time.Hour)
	}
	if _, err := tx.Exec(`INSERT OR REPLACE INTO series (program, device, evaluator, unit, start_ns, end_ns,
		samples, value, bound, result) SELECT program, device, evaluator, unit, max(start_ns), end_ns, samples, value,
		bound, id FROM results GROUP BY program, device`); err != nil {
		b.Fatal(err)
	}
	must(b, tx.Commit())
	s, err := store.Open(b.Context(), store.Options{History: g.cfg.Kept(), Logger: testrig.Quiet()})
	must(b, err, s.Tidy(b.Context()), s.Close())
}
