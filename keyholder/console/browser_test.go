package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv/chromium"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// online serves the page until the test ends.
func (g *rig) online() {
	g.t.Helper()
	ctx, stop := context.WithCancel(testrig.Context(g.t))
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	g.t.Cleanup(func() {
		stop()
		must(g.t, <-ended)
	})
}

// link returns a new link to the page.
func (g *rig) link(role Role) string {
	g.t.Helper()
	return "http://" + g.Address() + "/#login=" + g.secret(role)
}

// A session ends for all tabs when its time is over, and not before. A link that is too old opens
// nothing. The clock is the test's.
func TestExpiryInBrowser(t *testing.T) {
	browser := chromium.Start(t)
	g := newRig(t, nil)
	g.online()
	g.compute(20)
	page := browser.Page()
	late := g.link(Holder)
	g.pass(LinkLife)
	page.Open(late)
	page.See("This link was used before, is older than ten minutes")

	page.Open("about:blank")
	page.Open(g.link(Holder))
	page.Wait("updates", live)
	other := page.Another()
	other.Open("http://" + g.Address() + "/#/fleet")
	other.Wait("updates", live)
	other.See("1 device")

	g.pass(config.DefaultSession - time.Second)
	page.Click("nav a[data-path=keys]")
	page.See("Fingerprint of the key holder")
	other.Wait("updates", live)

	g.pass(time.Second)
	page.Click("nav a[data-path=alarms]")
	page.See("The session has ended.")
	other.See("The session has ended.")
	other.Wait("that it asks to log in", `document.title.startsWith('Log in') &&
		document.querySelector('main h1').textContent === 'Log in'`)
	if left := other.Do("document.querySelectorAll('main table, main canvas, nav').length"); left != "0" {
		t.Errorf("%s parts of the page are left", left)
	}

	// The cookie opens nothing any more; another link does, in both tabs.
	page.Open("about:blank")
	page.Open("http://" + g.Address() + "/")
	page.See("Log in")
	page.Open("about:blank")
	page.Open(g.link(Viewer))
	page.Wait("updates", live)
	other.Open("about:blank")
	other.Open("http://" + g.Address() + "/")
	other.Wait("updates", live)
	if role := other.Do("document.querySelector('.role').textContent"); role != `"viewer"` {
		t.Errorf("the other tab is that of a %s", role)
	}
	if trouble := append(page.Troubles(), other.Troubles()...); len(trouble) > 0 {
		t.Errorf("troubles: %q", trouble)
	}
}

// The table warns of a certificate that ends within 30 days, and of one that has ended, in words.
func TestCertificatesInBrowser(t *testing.T) {
	browser := chromium.Start(t)
	r, keys := &roll{}, map[string]*transport.SigningKey{}
	left := map[string]time.Duration{"over": -time.Hour, "soon": 29 * 24 * time.Hour, "well": 31 * 24 * time.Hour}
	for name := range left {
		keys[name] = newKey(t)
		r.add(name, keys[name])
	}
	g, s := listening(t, r)
	g.online()
	for name, d := range left {
		s.say(t, name, name, 1, 1, transport.Status{Online: true, Version: "1.4.0",
			CertificateEnd: noon.Add(d).UnixNano()}, keys[name])
	}
	page := browser.Page()
	page.Open(g.link(Viewer))
	page.Click("nav a[data-path=fleet]")
	page.Click("button[data-sort=certificate]")
	page.Wait("warnings", `(() => {
		const cell = (i) => document.querySelectorAll('tbody tr')[i]?.children[3];
		return /^ended .*2026/.test(cell(0)?.innerText) && cell(0).querySelector('.warn.over') !== null &&
			/2026 in 29 days$/.test(cell(1)?.innerText) && cell(1).querySelector('.warn') !== null &&
			/2026$/.test(cell(2)?.innerText) && cell(2).querySelector('.warn') === null;
	})()`)
	if trouble := page.Troubles(); len(trouble) > 0 {
		t.Errorf("troubles: %q", trouble)
	}
}

// The number of boards that ask is that of the newest answer, whichever comes first, and stays after one that failed.
func TestAnswersOvertakeInBrowser(t *testing.T) {
	browser := chromium.Start(t)
	g := newRig(t, nil)
	d := &fakeDesk{changed: make(chan struct{}), answers: make(chan (<-chan deskAnswer), 10)}
	g.o.Desk = d
	g.online()
	testrig.Eventually(t, "somebody who waits for changes", d.isWatched)
	boards := func(n int) chan deskAnswer {
		c := make(chan deskAnswer, 1)
		c <- deskAnswer{list: slices.Repeat([]Request{{State: "asks"}}, n)}
		return c
	}
	const badge = `document.querySelector("nav a[data-path=boards] .badge").textContent`
	answers := func(n int) string {
		return fmt.Sprintf(`performance.getEntriesByType('resource').filter((e) =>
			e.name.endsWith('api/boards') && e.responseEnd > 0).length >= %d`, n)
	}
	page := browser.Page()
	slow := make(chan deskAnswer, 1)
	d.answers <- slow
	page.Open(g.link(Viewer))
	testrig.Eventually(t, "the first question", func() bool { return len(d.answers) == 0 })
	d.answers <- boards(2)
	d.change()
	page.Wait("the second answer", badge+" === '2'")
	slow <- deskAnswer{}
	page.Wait("the first answer", answers(2))
	page.Do("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
	if n := page.Do(badge); n != `"2"` {
		t.Errorf("after an answer that was overtaken: %s", n)
	}

	failed := make(chan deskAnswer, 1)
	failed <- deskAnswer{err: errors.New("a test")}
	d.answers <- failed
	d.change()
	page.Wait("the third answer", answers(3))
	page.Do("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
	if n := page.Do(badge); n != `"2"` {
		t.Errorf("after an answer that failed: %s", n)
	}
	d.answers <- boards(1) // of another try: nothing has changed
	page.Wait("the fourth answer", badge+" === '1'")
}
