package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testenv/chromium"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/alert"
)

// live says that the page of a browser gets updates.
const live = "document.querySelector('.live')?.textContent === 'live'"

// window is a result of a device of a class, whose window ends at a minute.
func window(device string, minute int) *keyholder.Result {
	end := noon.Add(time.Duration(minute) * time.Minute)
	return &keyholder.Result{Program: "load", Device: device, Evaluator: worker, Unit: "1",
		Start: end.Add(-time.Minute), End: end, Samples: 1, Values: []float64{1}, Bound: 0.1}
}

// value says that a card shows a value, which has an error.
func value(v int) string {
	return fmt.Sprintf("Math.round(parseFloat(document.querySelector('.value')?.textContent)) === %d", v)
}

// focused is what the element that has the focus is called.
func focused(p *chromium.Page) string {
	return p.Do("document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent")
}

// While results come, a holder chooses how long an alarm is silent, with mouse or keyboard: nothing that they have
// in hand is taken from them.
func TestAlarmsInHand(t *testing.T) {
	browser := chromium.Start(t)
	g := newRig(t, withAlarm)
	al, err := alert.Open(alert.Options{Config: g.cfg.Alerts, Holder: "home", State: g.cfg.State,
		Logger: testrig.Quiet()})
	must(t, err)
	t.Cleanup(func() { al.Close() })
	observe := func(value float64) {
		r := g.compute(value)
		must(t, al.Observe(t.Context(), &alert.Result{Program: r.Program, Evaluator: r.Evaluator, Start: r.Start,
			End: r.End, Values: r.Values, Bound: r.Bound}))
	}
	g.online()
	observe(55)
	page := browser.Page()
	page.Open(g.link(Holder))
	page.Click("nav a[data-path=alarms]")
	page.Wait("the alarm", "document.querySelector('.state.firing') !== null")
	page.Do(`(() => {
		window.select = document.querySelector('.deeds select');
		window.button = document.querySelector('button[aria-label="Acknowledge hot"]');
		select.value = '10080';
		button.focus();
	})()`)
	const newest = "document.querySelector('tbody td:nth-child(6) time').dateTime"
	for range 3 {
		before := page.Do(newest)
		observe(56)
		page.Wait("a newer window", newest+" > "+before)
	}
	if kept := page.Do("select.isConnected && button.isConnected && select.value"); kept != `"10080"` {
		t.Errorf("the choice: %s", kept)
	}
	if name := focused(page); name != `"Acknowledge hot"` {
		t.Errorf("the focus is on %s", name)
	}
	page.Key("Enter")
	page.Wait("that it was seen", "/seen/.test(document.querySelector('tbody').innerText)")
	if name := focused(page); name != `"Alarms"` {
		t.Errorf("the button is gone, and the focus on %s", name)
	}
	page.Do("document.querySelector('button[aria-label=\"Silence hot\"]').focus()")
	page.Key("Enter")
	page.See("from the page")
	list, err := alert.ReadReport(g.cfg.Alerts, g.cfg.State, g.now())
	must(t, err)
	if len(list.Silences) != 1 || list.Silences[0].To.Sub(list.Silences[0].From) != 7*24*time.Hour {
		t.Errorf("silences %+v", list.Silences)
	}
	page.Do("window.end = document.querySelector('button[aria-label=\"End the silence of hot\"]'); end.focus()")
	before := page.Do(newest)
	observe(57)
	page.Wait("a newer window", newest+" > "+before)
	if name := focused(page); name != `"End the silence of hot"` {
		t.Errorf("the focus is on %s", name)
	}
	if trouble := page.Troubles(); len(trouble) > 0 {
		t.Errorf("troubles: %q", trouble)
	}
}

// While results come, the table of devices keeps the focus, and how far it was scrolled on a phone; and a table of
// results keeps the focus on a result that moves down.
func TestTablesInHand(t *testing.T) {
	browser := chromium.Start(t)
	g := newRig(t, nil)
	g.online()
	for i := range 120 {
		g.Observe(window(fmt.Sprintf("board%03d", i), 0))
	}
	page := browser.Page()
	page.Open(g.link(Viewer))
	page.Wait("updates", live)
	page.Size(390, 844)
	page.Click("nav a[data-path=fleet]")
	page.Wait("rows", "document.querySelectorAll('tbody tr').length === 50")
	page.Do(`[...document.querySelectorAll('.pager button')].find((b) => b.textContent === 'next').focus()`)
	page.Key("Enter")
	page.See("page 2 of 3")
	if text := focused(page); text != `"next"` {
		t.Errorf("the focus is on %s", text)
	}
	page.Do("document.querySelector('.scroll').scrollLeft = 150")
	g.Observe(window("board070", 1))
	const results = `[...document.querySelectorAll('tbody tr')].find((r) =>
		r.innerText.startsWith('board070')).children[5].innerText === '2'`
	page.Wait("a result", strings.Replace(results, "children[5]", "children[4]", 1))
	at := page.Do("document.querySelector('.scroll').scrollLeft")
	if text := focused(page); text != `"next"` || at != "150" {
		t.Errorf("the focus is on %s, the table scrolled by %s", text, at)
	}
	page.Key("Enter")
	page.See("page 3 of 3")
	if there := page.Do("document.activeElement !== document.body"); there != "true" {
		t.Error("on the last page the focus is lost")
	}

	for range 3 {
		g.compute(20)
	}
	page.Click("nav a[data-path='']")
	page.Click("[data-program=mean] summary")
	page.Wait("results", "document.querySelectorAll('[data-program=mean] tbody tr').length === 3")
	page.Do("document.querySelector('[data-program=mean] tbody a').focus()")
	link := page.Do("document.activeElement.href")
	g.compute(21)
	page.Wait("one more", "document.querySelectorAll('[data-program=mean] tbody tr').length === 4")
	const place = "[...document.querySelectorAll('[data-program=mean] tbody a')].indexOf(document.activeElement)"
	if now := page.Do("document.activeElement.href"); now != link || page.Do(place) != "1" {
		t.Errorf("the focus was on %s, and is on %s, link %s of the table", link, now, page.Do(place))
	}
	page.Key("Enter")
	page.See("Proof of a result")
	page.Wait("the focus on the proof", "document.activeElement.id === 'main'")
}

// A browser has six connections to a host. Ten tabs of the page leave room for what each of them asks, and the one
// that somebody looks at has what came while it was out of sight.
func TestManyTabs(t *testing.T) {
	browser := chromium.Start(t)
	g := newRig(t, nil)
	g.online()
	g.compute(20)
	first := browser.Page()
	first.Open(g.link(Viewer))
	first.Wait("updates", live)
	first.Wait("the value", value(20))
	for range 9 {
		tab := first.Another()
		tab.Front()
		tab.Open("http://" + g.Address() + "/#/keys")
		tab.See("Fingerprint of the key holder")
	}
	g.compute(21)
	first.Front()
	first.Wait("what came meanwhile", value(21))
	first.Wait("updates", live)
	g.compute(22)
	first.Wait("what comes", value(22))
}

// Whoever could not be logged out is told so.
func TestLogoutWithoutConnection(t *testing.T) {
	browser := chromium.Start(t)
	g := newRig(t, nil)
	g.online()
	page := browser.Page()
	page.Open(g.link(Viewer))
	page.Wait("updates", live)
	page.Offline(true)
	page.Click("#logout")
	page.See("You are still logged in. The key holder does not answer.")
	page.Offline(false)
	page.Click("#logout")
	page.See("You are logged out.")
}

// A connection that breaks without a sound is noticed: a page that hears nothing does not say that it is live.
func TestDeafPage(t *testing.T) {
	browser := chromium.Start(t)
	g := newRig(t, nil)
	g.quiet = 200 * time.Millisecond
	g.online()
	g.compute(20)
	proxy := testrig.NewProxy(t, g.Address(), nil)
	page := browser.Page()
	_, secret, _ := strings.Cut(g.link(Viewer), "/#")
	page.Open("http://" + proxy.Addr() + "/#" + secret)
	page.Wait("updates", live)
	page.Wait("the value", value(20))
	page.Do("new Promise((done) => setTimeout(done, 1000))")
	if still := page.Do(live); still != "true" {
		t.Error("signs of life are not heard")
	}
	proxy.Set(testrig.Faults{Stall: true})
	g.compute(21)
	page.Wait("that the page knows", "document.querySelector('.live').textContent === 'no connection'")
	proxy.Set(testrig.Faults{})
	page.Wait("updates", live)
	page.Wait("what came meanwhile", value(21))
}

// On a phone one finger moves a chart, and two zoom it; what is below a finger stays there.
func TestFingersOnChart(t *testing.T) {
	browser := chromium.Start(t)
	g := newRig(t, nil)
	g.online()
	for i := range 30 {
		g.compute(20 + float64(i))
	}
	page := browser.Page()
	page.Size(390, 844)
	page.Open(g.link(Viewer))
	page.Wait("a chart", "document.querySelector('[data-program=mean] .u-over')?.clientWidth > 200")
	page.Click("[data-program=mean] .ranges button:nth-child(5)")
	page.Do("new Promise((done) => setTimeout(done, 300))")
	var at struct{ X, Y, Width, Height float64 }
	must(t, json.Unmarshal([]byte(page.Do(
		"document.querySelector('.u-over').getBoundingClientRect().toJSON()")), &at))
	asked := func() (from, to float64) {
		text := page.Do(`(() => {
			const list = performance.getEntriesByType('resource').filter((e) => e.name.includes('api/series'));
			const q = new URL(list[list.length - 1].name).searchParams;
			return [Number(q.get('from') ?? 0), Number(q.get('to') ?? 0)];
		})()`)
		var got [2]float64
		must(t, json.Unmarshal([]byte(text), &got))
		return got[0], got[1]
	}
	x := func(share float64) chromium.Finger {
		return chromium.Finger{X: at.X + share*at.Width, Y: at.Y + at.Height/2}
	}
	const away = "!document.querySelector('[data-program=mean] .ranges button:last-child').hidden"
	count := func() string {
		return page.Do("performance.getEntriesByType('resource').filter((e) => e.name.includes('api/series')).length")
	}
	settle := func(before string) {
		page.Wait("points of the new range", "performance.getEntriesByType('resource').filter((e) => "+
			"e.name.includes('api/series')).length > "+before)
	}

	// A tap is no move.
	page.Touch("touchStart", x(0.5))
	page.Touch("touchMove", x(0.51))
	page.Touch("touchEnd")
	if got := page.Do(away); got != "false" {
		t.Error("a tap moves the chart")
	}

	before := count()
	page.Touch("touchStart", x(0.2), x(0.8))
	page.Touch("touchMove", x(0.1), x(0.9))
	page.Touch("touchEnd")
	settle(before)
	page.Wait("a way back", away)
	page.Do("new Promise((done) => setTimeout(done, 300))")
	from, to := asked()
	whole := 29 * 60_000.0 // 30 windows of a minute
	if length := to - from; length < 0.7*whole || length > 0.8*whole {
		t.Errorf("two fingers: %v of %v", length, whole)
	}

	before = count()
	page.Touch("touchStart", x(0.3))
	page.Touch("touchMove", x(0.8))
	page.Touch("touchEnd")
	settle(before)
	page.Do("new Promise((done) => setTimeout(done, 300))")
	from2, to2 := asked()
	if moved := (from - from2) / (to - from); moved < 0.45 || moved > 0.55 || to2-from2 < 0.99*(to-from) ||
		to2-from2 > 1.01*(to-from) {
		t.Errorf("one finger: from %v to %v, then from %v to %v", from, to, from2, to2)
	}
	page.Click("[data-program=mean] .ranges button:last-child")
	page.Wait("now", "!("+away+")")
}
