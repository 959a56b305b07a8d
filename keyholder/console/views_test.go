package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/alert"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

func query(r *keyholder.Result) string {
	start := fmt.Sprint(r.Start.UnixNano())
	return url.Values{"program": {r.Program}, "device": {r.Device}, "start_ns": {start}}.Encode()
}

// withAlarm adds an alarm on values above 50.
func withAlarm(k *config.KeyHolder) {
	k.Alerts = &config.Alerts{Rules: []config.AlertRule{{Name: "hot", Program: "mean", When: "value > 50"}},
		Receivers: []config.Receiver{{Name: "nobody", Command: []string{"/bin/true"}}}}
}

func TestCardsAndSeries(t *testing.T) {
	g := newRig(t, nil)
	b := g.letIn(Viewer)
	var cards struct{ Programs []programCard }
	if b.get("/api/programs", &cards); len(cards.Programs) != 0 {
		t.Errorf("programs %+v", cards)
	}
	var empty lines
	if b.get("/api/series?program=mean&device=", &empty); len(empty.T) != 0 || empty.First != 0 {
		t.Errorf("an empty series %+v", empty)
	}
	var values []float64
	for i := range 5 {
		r := g.compute(20 + float64(i))
		values = append(values, r.Values[0])
	}
	for range 2 { // a process that starts anew shows the same
		b.get("/api/programs", &cards)
		if len(cards.Programs) != 1 || cards.Programs[0].Program != "mean" || cards.Programs[0].Unit != "K" ||
			math.Abs(*cards.Programs[0].Newest.Value-24) > *cards.Programs[0].Newest.Bound {
			t.Fatalf("programs %+v", cards)
		}
		var all lines
		b.get("/api/series?program=mean&device=", &all)
		if len(all.T) != 5 || all.Results != 5 || all.T[0] != all.First || all.T[4] != all.Last {
			t.Fatalf("series %+v", all)
		}
		for i, v := range all.Mid {
			if *v != values[i] || *all.Low[i] != *v || *all.High[i] != *v || *all.Bound[i] <= 0 {
				t.Errorf("point %d: %g", i, *v)
			}
		}
		g.start()
		b = g.letIn(Viewer)
	}
	var part lines
	b.get(fmt.Sprintf("/api/series?program=mean&device=&from=%d&to=%d", noon.Add(-98*time.Minute).UnixMilli(),
		noon.Add(-96*time.Minute).UnixMilli()), &part)
	if len(part.T) != 2 || *part.Mid[0] != values[1] {
		t.Errorf("a part of the series %+v", part)
	}
	for _, bad := range []string{"from=x", "points=0", "points=1000000", "from=5&to=5", "from=5&to=4",
		"to=99999999999999999"} {
		if w := b.do("GET", "/api/series?program=mean&device=&"+bad, nil); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
	var list struct{ Results []liveResult }
	b.get("/api/results?program=mean&device=&limit=2", &list)
	if len(list.Results) != 2 || *list.Results[1].Value != values[4] {
		t.Errorf("results %+v", list)
	}
	for _, bad := range []string{"limit=0", "limit=501", "before_ns=x"} {
		if w := b.do("GET", "/api/results?"+bad, nil); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
}

// The table sorts, searches and pages on the server, and counts what is missing.
func TestFleet(t *testing.T) {
	g := newRig(t, nil)
	g.compute(20)
	result := func(device string, minute int) {
		start := noon.Add(time.Duration(minute) * time.Minute)
		r := &keyholder.Result{Program: "load", Device: device, Evaluator: worker, Start: start,
			End: start.Add(time.Minute), Values: []float64{1}, Samples: 1}
		g.tally.Result(r)
		g.fleet.note(r, r.End.Add(2*time.Second))
	}
	const n = 10_000
	for i := range n {
		result(fmt.Sprintf("board%05d", i), -10-i%5)
	}
	for _, minute := range []int{-2, -1, 0, 7} {
		result("board00042", minute)
	}
	b := g.letIn(Viewer)
	var page struct {
		Total int
		Rows  []device
	}
	b.get("/api/fleet?q=042&sort=gaps&way=down&limit=3", &page)
	first := page.Rows[0]
	if page.Total != 120 || len(page.Rows) != 3 || first.Name != "board00042" || first.Gaps != 1 ||
		first.Results != 5 ||
		first.Missing != 6*60_000 ||
		*first.Delay != 2000 || !slices.Equal(first.Programs, []string{"load"}) {
		t.Errorf("%d devices, %+v", page.Total, page.Rows)
	}
	b.get("/api/fleet?offset=10000&limit=10", &page)
	if page.Total != n+1 || len(page.Rows) != 1 || page.Rows[0].Name != "board09999" {
		t.Errorf("the last page: %d, %+v", page.Total, page.Rows)
	}
	b.get("/api/fleet?sort=last&way=down&limit=1", &page)
	if page.Rows[0].Name != "board00042" {
		t.Errorf("the newest: %+v", page.Rows)
	}
	b.get("/api/fleet?q=MEAN", &page)
	if page.Total != 1 || page.Rows[0].Name != "board" {
		t.Errorf("the device of a program without a class: %+v", page.Rows)
	}
	for key := range orders {
		if w := b.do("GET", "/api/fleet?sort="+key, nil); w.Code != http.StatusOK {
			t.Errorf("sorted by %s: %d", key, w.Code)
		}
	}
	for _, bad := range []string{"sort=color", "offset=-1", "limit=501"} {
		if w := b.do("GET", "/api/fleet?"+bad, nil); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
	var cards struct{ Programs []programCard }
	b.get("/api/programs", &cards)
	if len(cards.Programs) != 2 || cards.Programs[0].Devices != n || cards.Programs[0].Device != "board00000" {
		t.Errorf("programs %+v", cards)
	}
	var found struct{ Devices []liveResult }
	b.get("/api/devices?program=load&q=BOARD0004", &found)
	if len(found.Devices) != 10 || found.Devices[2].Device != "board00042" {
		t.Errorf("devices %+v", found)
	}
}

func TestAlarms(t *testing.T) {
	g := newRig(t, withAlarm)
	al, err := alert.Open(alert.Options{Config: g.cfg.Alerts, Holder: "home", State: g.cfg.State,
		Logger: testrig.Quiet()})
	must(t, err)
	t.Cleanup(func() { al.Close() })
	r := g.compute(55)
	must(t, al.Observe(t.Context(), &alert.Result{Program: r.Program, Evaluator: r.Evaluator, Start: r.Start,
		End: r.End, Values: r.Values, Bound: r.Bound}))
	b := g.letIn(Holder)
	var got struct {
		On       bool
		Alarms   []alarmRow
		Silences []alert.Silence
	}
	read := func() alarmRow {
		t.Helper()
		got.Alarms, got.Silences = nil, nil
		if b.get("/api/alarms", &got); !got.On || len(got.Alarms) != 1 {
			t.Fatalf("alarms %+v", got)
		}
		return got.Alarms[0]
	}
	a := read()
	if a.State != alert.StateFiring || a.Rule != "value > 50" || a.Seen != nil || a.Incident == "" {
		t.Fatalf("alarm %+v", a)
	}
	post := func(path string, body any, want int) {
		t.Helper()
		if w := b.do("POST", path, body); w.Code != want {
			t.Errorf("%s %v: %d %s", path, body, w.Code, w.Body)
		}
	}
	post("/api/alarms/seen", map[string]string{"incident": a.Incident, "comment": "known"}, http.StatusOK)
	post("/api/alarms/seen", map[string]string{"incident": "other"}, http.StatusConflict)
	post("/api/alarms/seen", map[string]string{"incident": a.Incident, "comment": strings.Repeat("x", 300)},
		http.StatusBadRequest)
	g.start() // it is remembered
	b = g.letIn(Holder)
	if a = read(); a.Seen == nil || a.Comment != "known" {
		t.Errorf("alarm %+v", a)
	}
	post("/api/silences", map[string]any{"rule": "hot", "minutes": 60, "comment": "filter"}, http.StatusOK)
	if a = read(); a.Silenced == nil || len(got.Silences) != 1 || got.Silences[0].Comment != "filter" {
		t.Errorf("alarm %+v, silences %+v", a, got.Silences)
	}
	post("/api/silences", map[string]any{"rule": "cold", "minutes": 60}, http.StatusBadRequest)
	post("/api/silences", map[string]any{"rule": "hot", "minutes": 0}, http.StatusBadRequest)
	post("/api/silences", map[string]any{"rule": "hot", "minutes": maxSilence + 1}, http.StatusBadRequest)
	post("/api/silences", map[string]any{"rule": "hot", "other": 1}, http.StatusBadRequest)
	post("/api/silences/end", map[string]any{"rule": "hot"}, http.StatusOK)
	if a = read(); a.Silenced != nil || len(got.Silences) != 0 {
		t.Errorf("alarm %+v, silences %+v", a, got.Silences)
	}
}

func TestNoAlarms(t *testing.T) {
	g := newRig(t, nil)
	b := g.letIn(Holder)
	var got struct{ On bool }
	if b.get("/api/alarms", &got); got.On {
		t.Error("there are alarms")
	}
	for _, path := range deeds {
		if w := b.do("POST", path, map[string]string{}); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestKeys(t *testing.T) {
	g := newRig(t, nil)
	g.compute(20)
	var got struct {
		Params, Fingerprint string
		Epochs              []epochRow
		Programs            []programRow
		Read                map[string]int
	}
	g.letIn(Viewer).get("/api/keys", &got)
	if got.Params != "edge12-add" || got.Fingerprint == "" || len(got.Epochs) != 1 || !got.Epochs[0].Current ||
		len(got.Programs) != 1 || got.Programs[0].Expr != "x" || got.Read["mean"] != 1 {
		t.Errorf("keys %+v", got)
	}
}

func TestProof(t *testing.T) {
	g := newRig(t, nil)
	r := g.compute(20)
	b := g.letIn(Holder)
	type answer struct {
		Kept, OK bool
		Steps    []keyholder.Step
	}
	ask := func() (a answer) {
		t.Helper()
		b.get("/api/proof?"+query(r), &a)
		return a
	}
	a := ask()
	var names []string
	for _, s := range a.Steps {
		if names = append(names, s.Name); !s.OK || s.Error != "" || len(s.Facts) == 0 {
			t.Errorf("step %+v", s)
		}
	}
	if !a.OK || !slices.Equal(names, []string{"object", "signature", "key", "program", "windows", "value",
		"database"}) {
		t.Errorf("steps %v, %t", names, a.OK)
	}
	want := [2]string{"board/s", fmt.Sprintf("%x", r.Inputs[0])}
	if !slices.Contains(a.Steps[4].Facts, want) {
		t.Errorf("windows %v", a.Steps[4].Facts)
	}
	w := b.do("GET", "/api/proof/file?"+query(r), nil)
	if w.Code != http.StatusOK || !slices.Equal(w.Body.Bytes(), r.Sealed) ||
		!strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment;") {
		t.Errorf("file: %d, %v", w.Code, w.Header())
	}

	// A byte of the object that flips, and what follows from it.
	file := filepath.Join(g.cfg.State+sealedSuffix, fmt.Sprintf("%x.cose", r.ID))
	wrong := slices.Clone(r.Sealed)
	wrong[len(wrong)/2] ^= 1
	must(t, os.WriteFile(file, wrong, 0o600))
	if a = ask(); a.OK || a.Steps[0].OK || a.Steps[0].Error == "" || a.Steps[1].OK || a.Steps[1].Error != "" {
		t.Errorf("a flipped bit: %+v", a)
	}
	must(t, os.Remove(file))
	if a = ask(); a.OK || a.Kept || len(a.Steps) != 0 {
		t.Errorf("an object that is gone: %+v", a)
	}
	for path, want := range map[string]int{"/api/proof/file?" + query(r): http.StatusNotFound,
		"/api/proof?program=mean&device=&start_ns=1": http.StatusNotFound,
		"/api/proof?program=mean":                    http.StatusBadRequest} {
		if w := b.do("GET", path, nil); w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// receipt is what the key holder gives an evaluator for a result, as a sealed object.
func (g *rig) receipt(to string, key *transport.SigningKey, items ...transport.ReceiptItem) []byte {
	g.t.Helper()
	payload, err := transport.SealReceipt(transport.Receipt{To: to, Items: items}, keyset.HolderName, key, g.now(),
		func() (boot, sequence uint64) { return 7, 1 })
	must(g.t, err)
	sealed, err := transport.ReadWhole(payload, 0)
	must(g.t, err)
	return sealed
}

// The receipt of a result is a step of its proof, whichever of them is kept first, and goes with the
// file.
func TestReceiptInProof(t *testing.T) {
	g := newRig(t, nil)
	key, err := transport.LoadSigningKey(filepath.Join(g.cfg.KeySet, keyset.HolderFile))
	must(t, err)
	other, err := transport.NewSigningKey()
	must(t, err)
	keep := func(id [32]byte, receipt []byte) {
		t.Helper()
		g.Receipt([][32]byte{id}, receipt)
		over, stop := context.WithCancel(t.Context())
		stop()
		g.keepReceipts(over)
	}
	ask := func(r *keyholder.Result) (ok bool, step keyholder.Step) {
		t.Helper()
		var a struct {
			OK    bool
			Steps []keyholder.Step
		}
		g.letIn(Holder).get("/api/proof?"+query(r), &a)
		return a.OK, a.Steps[len(a.Steps)-2]
	}
	r := g.compute(20)
	taken := transport.ReceiptItem{Object: r.ID, Outcome: transport.Taken}
	good := g.receipt(worker, key, taken)
	keep(r.ID, good)
	ok, step := ask(r)
	if !ok || step.Name != "receipt" || !step.OK || step.Fact("to") != worker ||
		step.Fact("given") != "2026-11-23T12:00:00Z" || step.Fact("number") != "1 of boot epoch 7" {
		t.Errorf("right: %t, %+v", ok, step)
	}
	w := g.letIn(Holder).do("GET", "/api/proof/file?"+query(r), nil)
	if p := keyholder.CutProof(w.Body.Bytes()); !slices.Equal(p.Sealed, r.Sealed) || !slices.Equal(p.Receipt, good) {
		t.Errorf("the file has %d and %d bytes", len(p.Sealed), len(p.Receipt))
	}
	keep(r.ID, []byte("a later one"))
	if ok, _ = ask(r); !ok {
		t.Error("a later receipt took the place of the first")
	}
	about := func(id [32]byte, o transport.Outcome, why string) transport.ReceiptItem {
		return transport.ReceiptItem{Object: id, Outcome: o, Reason: why}
	}
	wrong := map[string][]byte{
		"of another key":    g.receipt(worker, other, taken),
		"to somebody else":  g.receipt("other", key, taken),
		"for another":       g.receipt(worker, key, about([32]byte{1}, transport.Taken, "")),
		"of a refusal":      g.receipt(worker, key, about(r.ID, transport.Refused, "x")),
		"no receipt at all": r.Sealed,
		"torn":              good[:len(good)-1],
	}
	for name, receipt := range wrong {
		must(t, os.WriteFile(g.sealed.path(r.ID, receiptEnding), receipt, 0o600))
		if ok, step = ask(r); ok || step.OK || step.Error == "" {
			t.Errorf("%s: %t, %+v", name, ok, step)
		}
	}

	// A receipt may come before its result is in the database.
	early := [32]byte{2}
	keep(early, good)
	must(t, g.sealed.keep(early, r.Sealed))
	if p, err := g.sealed.read(early); err != nil || !slices.Equal(p.Receipt, good) {
		t.Errorf("an early receipt: %d bytes, %v", len(p.Receipt), err)
	}
}

// Every step can fail by itself.
func TestProofOfWrongResults(t *testing.T) {
	g := newRig(t, nil)
	r := g.compute(20)
	steps, again := g.reader.Trace(r.ID, r.Sealed, "other", "", r.Start)
	if again != nil || steps[2].Error != "" || steps[3].OK || steps[3].Error == "" {
		t.Errorf("another program: %+v", steps)
	}
	steps, again = g.reader.Trace(r.ID, r.Sealed, r.Program, r.Device, r.Start.Add(1))
	if again != nil || steps[3].Error == "" {
		t.Errorf("another window: %+v", steps)
	}
	set, err := keyholder.Open(g.cfg.KeySet)
	must(t, err, set.Revoke(func(keyholder.Approval) bool { return true }))
	steps, again = g.reader.Trace(r.ID, r.Sealed, r.Program, r.Device, r.Start)
	if again != nil || !steps[2].OK || !strings.Contains(steps[3].Error, "approve") {
		t.Errorf("a revoked program: %+v", steps)
	}
	if steps, again = g.reader.Trace(r.ID, r.Sealed[:100], r.Program, "", r.Start); again != nil || steps[0].OK {
		t.Errorf("a torn object: %+v", steps)
	}
}

// The newest objects stay within their bytes, also over a restart.
func TestSealedObjectsAreBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sealed")
	s, err := openSealed(dir, 1000)
	must(t, err)
	id := func(i int) (id [32]byte) { id[0] = byte(i); return id }
	for i := range 10 {
		must(t, s.keep(id(i), make([]byte, 300)))
	}
	must(t, s.keep(id(50), make([]byte, 2000)), os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600))
	for range 2 {
		for i := range 10 {
			_, err := s.read(id(i))
			if there := err == nil; there != (i >= 7) {
				t.Errorf("object %d is there: %t", i, there)
			}
		}
		s, err = openSealed(dir, 1000)
		must(t, err)
	}
	must(t, s.receipt(id(9), make([]byte, 90)), s.receipt(id(1), make([]byte, 90)))
	if s, err = openSealed(dir, 1000); err != nil || s.sum != 990 || len(s.order) != 3 {
		t.Errorf("with a receipt %d bytes of %d, %v", s.sum, len(s.order), err)
	}
	must(t, s.receipt(id(8), make([]byte, 90))) // object 7 makes room
	if s, err = openSealed(dir, 400); err != nil || s.sum != 390 {
		t.Errorf("%d bytes in a smaller store, %v", s.sum, err)
	}
	must(t, s.receipt(id(9), make([]byte, 90)), s.keep(id(20), make([]byte, 350)))
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 || s.sum != 350 || len(s.size) != 1 {
		t.Errorf("%d files of %d bytes, want one object and the notes; %v", len(list), s.sum, err)
	}
	must(t, s.receipt(id(20), make([]byte, 90))) // there is no room for both
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || s.sum != 0 || len(s.size) != 0 {
		t.Errorf("%d files of %d bytes, %v", len(list), s.sum, err)
	}
}

// What a kill or a power cut leaves of files that were being written goes at the next start, and is neither counted
// nor taken for a result that somebody has altered.
func TestHalvesOfSealedObjects(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sealed")
	s, err := openSealed(dir, 1000)
	must(t, err)
	id := [32]byte{1}
	must(t, s.keep(id, make([]byte, 300)))
	half, empty := s.path([32]byte{2}, objectEnding)+halfEnding, s.path([32]byte{3}, objectEnding)
	must(t, os.WriteFile(half, make([]byte, 200), 0o600), os.WriteFile(empty, nil, 0o600),
		os.WriteFile(s.path(id, receiptEnding), nil, 0o600))
	s, err = openSealed(dir, 1000)
	must(t, err)
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || s.sum != 300 || len(s.order) != 1 {
		t.Errorf("%d files, %d bytes of %d results, %v", len(list), s.sum, len(s.order), err)
	}
	if _, err := s.read([32]byte{3}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file: %v", err)
	}
}

// Updates reach a browser, and end with its session.
func TestLive(t *testing.T) {
	g := newRig(t, withAlarm)
	ctx, stop := context.WithCancel(testrig.Context(t))
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	defer func() {
		stop()
		must(t, <-ended)
	}()
	b := g.letIn(Holder)
	r := b.request("GET", "/api/live", nil).WithContext(ctx)
	r.URL.Host, r.RequestURI = g.Address(), ""
	resp, err := http.DefaultTransport.RoundTrip(r)
	must(t, err)
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	next := func(want string, into any) {
		t.Helper()
		for in.Scan() {
			if name, ok := strings.CutPrefix(in.Text(), "event: "); ok {
				if name == "alive" && want != "alive" {
					continue
				}
				if name != want || !in.Scan() {
					t.Fatalf("event %s, want %s", name, want)
				}
				must(t, json.Unmarshal([]byte(strings.TrimPrefix(in.Text(), "data: ")), into))
				return
			}
		}
		t.Fatalf("no %s: %v", want, in.Err())
	}
	var got struct {
		Results []liveResult
		Skipped int
	}
	if next("hello", &got); resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v", resp.Header)
	}
	made := g.compute(20)
	if next("results", &got); len(got.Results) != 1 || *got.Results[0].Value != made.Values[0] || got.Skipped != 0 {
		t.Errorf("results %+v", got)
	}
	if w := b.do("POST", "/api/silences", map[string]any{"rule": "hot", "minutes": 5}); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	next("alarms", &got)
	if w := b.do("POST", "/api/logout", nil); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for ended := false; !ended; {
		for in.Scan() && !strings.HasPrefix(in.Text(), "event: ") {
		}
		switch in.Text() {
		case "event: ended":
			ended = true
		case "event: alarms", "event: alive":
		default:
			t.Fatalf("%q instead of the end, %v", in.Text(), in.Err())
		}
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream goes on: %v", err)
	}
}

// A browser that does not keep up loses updates and is told how many.
func TestSlowBrowser(t *testing.T) {
	var h hub
	s := h.open()
	for i := range maxPending + 7 {
		h.send(liveResult{Samples: uint32(i)})
	}
	u := s.take()
	if len(u.results) != maxPending || u.skipped != 7 || u.results[0].Samples != 7 {
		t.Errorf("%d results, %d skipped, from %d on", len(u.results), u.skipped, u.results[0].Samples)
	}
	for range maxStreams - 1 {
		h.open()
	}
	if h.open() != nil {
		t.Error("a stream too many")
	}
	h.close(s)
	if h.open() == nil {
		t.Error("no room after one has left")
	}
}
