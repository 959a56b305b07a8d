package console

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv/chromium"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// BenchmarkBrowser times each view in Chromium, from the click until it is drawn, over the results of
// BenchmarkViews, once each of the 10,000 devices, which are enrolled, has said what it is. The page is that of
// "results serve" of the program that HENCEDGE_BENCH_PROGRAM names, in a process of its own, whose memory it prints
// before the views and after them.
func BenchmarkBrowser(b *testing.B) {
	program := os.Getenv("HENCEDGE_BENCH_PROGRAM")
	if program == "" {
		b.Skip("HENCEDGE_BENCH_PROGRAM names no program")
	}
	g := newRig(b, func(k *config.KeyHolder) { k.History = &config.History{} })
	fill(b, g)
	serving := g.serve(b, program)
	link, err := Invite(g.cfg, Holder, false, time.Now())
	must(b, err)
	page := chromium.Start(b).Page()
	page.Open(link)
	page.Wait("updates", "document.querySelector('.live')?.textContent === 'live'")
	page.Wait("cards", "document.querySelectorAll('.card canvas').length === 2")
	page.Wait("what each board said of itself before",
		fmt.Sprintf("fetch('api/fleet?q=online').then((r) => r.json()).then((f) => f.total === %d)", benchDevices))
	b.Log("memory of the server at first:", memory(b, serving))
	page.Do(helpers)
	for _, v := range []struct{ name, before, deed, drawn string }{
		{"results", "keys", clickOn(""), "asked('api/series') === 2"},
		{"all-500000-of-a-series", "",
			`document.querySelector('[data-program=mean] .ranges button:nth-child(5)').click()`,
			"asked('api/series') === 1"},
		{"table", "", `document.querySelector('[data-program=mean] summary').click()`,
			"document.querySelectorAll('[data-program=mean] tbody tr').length === 10"},
		{"devices", "keys", clickOn("fleet"), drawn["fleet"]},
		{"devices-by-delay", "fleet", `document.querySelector('[data-sort=delay]').click()`,
			"document.querySelector('th[aria-sort]')?.innerText.startsWith('Delay')"},
		{"alarms", "keys", clickOn("alarms"), drawn["alarms"]},
		{"boards", "keys", clickOn("boards"), "document.querySelector('main').innerText.includes('no invitations')"},
		{"keys", "fleet", clickOn("keys"), drawn["keys"]},
		{"proof", "keys", fmt.Sprintf("location.hash = '#/proof?program=mean&device=&start_ns=%d'",
			benchEnd.Add(-2*time.Second).UnixNano()), "document.querySelector('.now .value') !== null"},
	} {
		b.Run(v.name, func(b *testing.B) {
			var all []float64
			for b.Loop() {
				// By way of another view, so that the one before is drawn anew.
				for _, view := range []string{"alarms", v.before} {
					page.Do(clickOn(view))
					page.Wait("the view before", drawn[view])
					page.Do("settled()")
				}
				text := page.Do(fmt.Sprintf("timed(() => { %s; }, () => %s)", v.deed, v.drawn))
				took, err := strconv.ParseFloat(text, 64)
				must(b, err)
				all = append(all, took)
			}
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2], "ms")
			b.ReportMetric(all[len(all)-1], "max-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
	moveChart(b, page)
	b.Log("memory of the server:", memory(b, serving))
}

// BenchmarkLive times the way of a result into an open page: from before it is made and stored until it is drawn.
func BenchmarkLive(b *testing.B) {
	if os.Getenv("HENCEDGE_BENCH_PROGRAM") == "" {
		b.Skip("for \"make bench-console\"")
	}
	g := newRig(b, nil)
	g.online()
	g.compute(20)
	page := chromium.Start(b).Page()
	page.Open(g.link(Viewer))
	page.Wait("updates", live)
	page.Wait("the value", value(20))
	var all []float64
	for b.Loop() {
		page.Do(`window.seen = new Promise((done) => new MutationObserver((_, o) => {
			o.disconnect();
			requestAnimationFrame(() => requestAnimationFrame(() => done(performance.timeOrigin + performance.now())));
		}).observe(document.querySelector('.value'), { childList: true })); 1`)
		begun := float64(time.Now().UnixMicro()) / 1000
		g.compute(20)
		drawn, err := strconv.ParseFloat(page.Do("seen"), 64)
		must(b, err)
		all = append(all, drawn-begun)
	}
	slices.Sort(all)
	b.ReportMetric(all[len(all)/2], "ms")
	b.ReportMetric(all[len(all)-1], "max-ms")
	b.ReportMetric(0, "ns/op")
}

// memory returns what a process has in memory and had at most, in the words of Linux.
func memory(b *testing.B, pid int) []string {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(b, err)
	return regexp.MustCompile(`(?m)^(VmHWM|VmRSS|RssAnon|RssFile):.*kB$`).FindAllString(string(status), -1)
}

// enrol makes the files of an operator who has enrolled each device, and a broker that keeps what each has said of
// itself. At most 8,192 of these messages reach a new listener at once; the page asks for the others.
func enrol(b *testing.B) (evaluator, url string) {
	b.Helper()
	dir, url := b.TempDir(), testrig.Broker(b, broker.Options{}).URL()
	for _, name := range []string{"enrolment", "devices.d"} {
		must(b, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	evaluator = filepath.Join(dir, "evaluator.yaml")
	must(b, os.WriteFile(evaluator, fmt.Appendf(nil, `name: cloud
broker: {url: %q}
key_sets: [keys]
keys: {holder: none}
signing_key: signing.key
state: evaluator.state
enrolled: devices.d
classes:
  - name: pump
    streams:
      - name: system
        window: {samples: 16}
        params: edge12-add
        channels: [{name: memory, unit: "%%", range: [0, 100]}]
programs:
  - {name: load, for: pump, expr: mean(x), inputs: {x: system/memory}}
`, url), 0o600))
	client, err := mqtt.Dial(b.Context(), mqtt.Options{URL: url, ClientID: "boards", Logger: testrig.Quiet()})
	must(b, err)
	for i := range benchDevices {
		name := fmt.Sprintf("board%05d", i)
		key, err := transport.NewSigningKey()
		must(b, err, os.WriteFile(filepath.Join(dir, "devices.d", name+".yaml"), fmt.Appendf(nil,
			"# fingerprint %s\n- name: %s\n  public_key: %s\n  class: pump\n", key.PublicText(), name,
			key.PublicText()), 0o600))
		must(b, client.Publish(b.Context(), transport.StatusTopic(transport.DefaultPrefix, name), birth(b, name, key),
			true))
	}
	must(b, client.Close(b.Context()))
	return evaluator, url
}

// birth returns what a device says of itself when it starts.
func birth(b *testing.B, name string, key *transport.SigningKey) []byte {
	b.Helper()
	body, err := transport.MarshalStatus(transport.Status{Online: true, Version: "1.4.0", Since: noon.UnixNano(),
		CertificateEnd: noon.AddDate(1, 0, 0).UnixNano(), Streams: []transport.StreamStatus{{Name: "system",
			Params: "edge12-add", Packing: "columns", Samples: 16,
			Channels: []transport.ChannelStatus{{Name: "memory", Unit: "%", Max: 100}}}}})
	must(b, err)
	sealed, err := transport.Seal(transport.Meta{Kind: transport.KindStatus, Device: name, BootEpoch: 1, Sequence: 1},
		body, key)
	must(b, err)
	payload, err := transport.Whole(sealed, 0)
	must(b, err)
	return payload
}

// moveChart times all frames while a chart of 60,000 to 121,000 results is moved: for ten frames, after which it is let
// be for fifteen, in which it asks for what it shows now, and so on.
func moveChart(b *testing.B, page *chromium.Page) {
	page.Do(clickOn(""))
	page.Wait("charts", drawn[""])
	page.Do(`document.querySelector('[data-program=mean] .ranges button:nth-child(3)').click()`)
	page.Do("settled()")
	var at struct{ X, Y, Width, Height float64 }
	must(b, json.Unmarshal([]byte(page.Do(
		`document.querySelector('[data-program=mean] .u-over').getBoundingClientRect().toJSON()`)), &at))
	middle := chromium.Pointer{X: at.X + at.Width/2, Y: at.Y + at.Height/2}
	moved := "!document.querySelector('[data-program=mean] .ranges button:last-child').hidden"
	ten := func(each func(i int)) {
		for i := range 10 {
			each(i)
			page.Do("frames(1)")
		}
		page.Do("frames(15)")
		page.Wait("a chart that was moved", moved)
	}
	// back is a double click, after which the chart shows what it did at first.
	back := func() {
		for _, n := range []int{1, 2} {
			for _, event := range []string{"mousePressed", "mouseReleased"} {
				m := middle
				m.Event, m.Clicks, m.Held = event, n, event == "mousePressed"
				page.Mouse(m)
			}
		}
		page.Do("frames(15)")
		page.Wait("a chart that is as it was", "!("+moved+")")
	}
	keys := []string{"ArrowLeft", "-", "ArrowRight", "+"}
	for _, way := range []struct {
		name string
		do   func()
	}{
		{"chart-by-keys", func() {
			page.Do("document.querySelector('[data-program=mean] .chart').focus()")
			for turn := range 2 {
				ten(func(i int) { page.Key(keys[2*turn+i/5]) })
			}
		}},
		{"chart-by-drag", func() {
			m := middle
			m.X, m.Event, m.Clicks, m.Held = at.X+at.Width*0.1, "mousePressed", 1, true
			page.Mouse(m)
			ten(func(i int) {
				m.Event, m.Clicks = "mouseMoved", 0
				m.X += at.Width * 0.07
				page.Mouse(m)
				if i == 9 {
					m.Event, m.Clicks, m.Held = "mouseReleased", 1, false
					page.Mouse(m)
				}
			})
			back()
		}},
		{"chart-by-wheel", func() {
			for _, by := range []chromium.Pointer{{Ctrl: true, Wheel: -100}, {Shift: true, Wheel: 100},
				{Ctrl: true, Wheel: 100}} {
				by.Event, by.X, by.Y = "mouseWheel", middle.X, middle.Y
				ten(func(int) { page.Mouse(by) })
			}
			back()
		}},
	} {
		b.Run(way.name, func(b *testing.B) { timeFrames(b, page, way.do) })
	}
}

// timeFrames reports how long frames take while something is done again and again.
func timeFrames(b *testing.B, page *chromium.Page, do func()) {
	var all []float64
	for b.Loop() {
		page.Do("watchFrames()")
		do()
		for text := range strings.FieldsSeq(strings.Trim(page.Do("watchedFrames()"), `"`)) {
			took, err := strconv.ParseFloat(text, 64)
			must(b, err)
			all = append(all, took)
		}
	}
	slices.Sort(all)
	late, _ := slices.BinarySearch(all, 25)
	b.ReportMetric(float64(len(all)), "frames")
	b.ReportMetric(float64(len(all)-late), "late-frames")
	b.ReportMetric(all[len(all)/2], "ms/frame")
	b.ReportMetric(all[len(all)*95/100], "p95-ms/frame")
	b.ReportMetric(all[len(all)-1], "max-ms/frame")
	b.ReportMetric(0, "ns/op")
}

// drawn says by path when a view is there.
var drawn = map[string]string{
	"":       "document.querySelectorAll('.card .value:not(:empty)').length === 2",
	"fleet":  "document.querySelectorAll('tbody tr').length === 50",
	"alarms": "document.querySelector('.state') !== null",
	"keys":   "document.querySelectorAll('table').length === 3",
}

func clickOn(view string) string {
	return fmt.Sprintf("document.querySelector('nav a[data-path=\"%s\"]').click()", view)
}

// helpers defines timed, which returns the milliseconds from a deed until a condition holds and
// the second frame after that; asked, the answers since then; settled, which waits until
// nothing is asked for; frames, which waits for so many; and watchFrames, from which on watchedFrames returns the
// milliseconds of each frame.
const helpers = `(() => {
	const frame = () => new Promise((done) => requestAnimationFrame(done));
	let since = 0;
	window.asked = (path) => performance.getEntriesByType('resource')
		.filter((e) => e.startTime >= since && e.name.includes(path)).length;
	window.timed = async (deed, drawn) => {
		performance.clearResourceTimings();
		since = performance.now();
		deed();
		while (!drawn()) await frame();
		await frame();
		await frame();
		return performance.now() - since;
	};
	window.frames = async (n) => { for (let i = 0; i < n; i += 1) await frame(); };
	let gaps = [];
	window.watchFrames = () => {
		const mine = gaps = [];
		let last = null;
		const next = (now) => {
			if (gaps !== mine) return;
			if (last !== null) mine.push(now - last);
			last = now;
			requestAnimationFrame(next);
		};
		requestAnimationFrame(next);
	};
	window.watchedFrames = () => {
		const text = gaps.join(' ');
		gaps = [];
		return text;
	};
	window.settled = async () => {
		for (let quiet = 0, n = -1; quiet < 10; quiet += 1) {
			const now = performance.getEntriesByType('resource').length;
			if (now !== n) quiet = 0;
			n = now;
			await frame();
		}
		return true;
	};
})()`

// serve runs a program on the key set and the database of the rig, and returns its process.
func (g *rig) serve(b *testing.B, program string) (pid int) {
	b.Helper()
	g.cfg.Console.Listen = testrig.FreeAddress(b)
	evaluator, url := enrol(b)
	file := filepath.Join(b.TempDir(), "keyholder.yaml")
	must(b, os.WriteFile(file, []byte(fmt.Sprintf(`name: home
broker: {url: %q}
key_set: %q
evaluators: [{name: cloud, public_key: %q}]
receipts: true
state: %q
history: {file: %q}
console: {listen: %q, enrolment: {evaluator: %q}}
alerts:
  rules: [{name: warm, program: mean, when: value > 1}]
  receivers: [{name: nobody, command: [/bin/true]}]
`, url, g.cfg.KeySet, g.key.PublicText(), g.cfg.State, g.cfg.Kept().File,
		g.cfg.Console.Listen, evaluator)), 0o600))
	cmd := exec.Command(program, "results", "serve", "-c", file)
	cmd.Stderr = &g.log
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if b.Failed() {
			b.Log(g.log.String())
		}
	})
	testrig.Eventually(b, "a page", func() bool {
		conn, err := net.Dial("tcp", g.cfg.Console.Listen)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return cmd.Process.Pid
}
