//go:build !evaluatoronly && !nostore

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testenv/chromium"
	"github.com/hencedge/hencedge/internal/testrig"
)

// TestConsole drives a real browser through the page of a whole chain.
// HENCEDGE_TEST_SCREENSHOTS names a directory for pictures of the views.
func TestConsole(t *testing.T) { browseWith(t, "page") }

// TestConsoleDemo does so with the page of "demo --web".
func TestConsoleDemo(t *testing.T) { browseWith(t, "demo") }

// TestConsoleBoards does so while boards ask to join.
func TestConsoleBoards(t *testing.T) { browseWith(t, "boards") }

// browseWith runs a script of testdata/console with a browser of its own.
func browseWith(t *testing.T, script string) {
	t.Helper()
	b := &browsing{t: t, browser: chromium.Start(t), address: testrig.FreeAddress(t)}
	b.page = b.browser.Page()
	cmds := (&services{all: map[string]*service{}}).commands()
	cmds["browse"] = b.browse
	testscript.Run(t, testscript.Params{Files: []string{"testdata/console/" + script + ".txtar"},
		RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error { e.Setenv("PAGE", b.address); return nil }, Cmds: cmds})
}

// browsing is somebody in front of the page.
type browsing struct {
	t       *testing.T
	browser *chromium.Browser
	page    *chromium.Page
	address string
}

// browse is "browse DEED [FILE]": does something on the page, and checks what it shows.
func (b *browsing) browse(ts *testscript.TestScript, _ bool, args []string) {
	deeds := map[string]func(*testscript.TestScript, []string){
		"wrong": b.wrong, "login": b.login, "used": b.used, "live": b.live, "zoom": b.zoom, "alarm": b.alarm,
		"fleet": b.fleet, "keys": b.keys, "proof": b.proof, "looks": b.looks, "accessible": b.accessible, "axe": b.axe,
		"gone": b.gone, "ended": b.ended,
		"asks": b.asks, "command": b.command, "letin": b.letIn, "refuse": b.refuse, "again": b.again,
		"approved": b.approved, "invited": b.invited, "enrolled": b.enrolled,
		"looker":  b.looker,
		"history": b.history, "viewer": b.viewer, "logout": b.logout, "quiet": b.quiet, "demo": b.demo,
	}
	deed := deeds[args[0]]
	if deed == nil {
		ts.Fatalf("there is no %q", args[0])
	}
	b.browser.FailWith(ts.Fatalf)
	deed(ts, args[1:])
}

func (b *browsing) url(path string) string { return "http://" + b.address + "/" + path }

// shoot keeps a picture, where somebody wants it.
func (b *browsing) shoot(name string) {
	if dir := os.Getenv("HENCEDGE_TEST_SCREENSHOTS"); dir != "" {
		b.page.Screenshot(filepath.Join(dir, name+".png"))
	}
}

// phone looks at what is shown on a phone, where nothing may be wider than the screen.
func (b *browsing) phone(name string) {
	b.page.Size(390, 844)
	b.page.Wait("that "+name+" is as wide as a phone", "document.documentElement.scrollWidth <= innerWidth")
	b.shoot("phone-" + name)
	b.page.Size(1280, 900)
}

// wrong tries a link that was never made, and pastes another one.
func (b *browsing) wrong(*testscript.TestScript, []string) {
	b.page.Open(b.url("#login=" + strings.Repeat("A", 43)))
	b.page.See("This link was used before, is older than ten minutes")
	b.page.Wait("that the link is not in the address", "location.hash === ''")
	b.page.Do(`document.querySelector('#link').value = 'http://localhost/#login=BBBB'; 1`)
	b.page.Click("form button")
	b.page.See("make a new one with")
	b.shoot("login")
	b.phone("login")
}

func (b *browsing) login(ts *testscript.TestScript, args []string) {
	b.page.Open("about:blank") // what was shown before is no answer
	b.page.Open(strings.TrimSpace(readFile(ts, args[0])))
	b.page.See("Results")
	b.page.Wait("updates", "document.querySelector('.live')?.textContent === 'live'")
	b.page.Wait("that the link is not in the address", "location.hash === ''")
	if cookie := b.page.Do("document.cookie"); cookie != `""` {
		ts.Fatalf("scripts see the cookie %s", cookie)
	}
}

// used tries a link again that has let somebody in, in a tab of its own.
func (b *browsing) used(ts *testscript.TestScript, args []string) {
	tab := b.page.Another()
	tab.Open(strings.TrimSpace(readFile(ts, args[0])))
	tab.See("This link was used before")
	tab.Close()
}

// live waits for three results of a card, without a reload.
func (b *browsing) live(*testscript.TestScript, []string) {
	b.page.Do("window.kept = true; 1")
	for _, program := range []string{"mean", "load", "spread"} {
		b.page.Wait("the card of "+program,
			`document.querySelector('[data-program=`+program+`] .value')?.textContent !== ''`)
	}
	b.page.Click("[data-program=mean] summary")
	const newest = `document.querySelector('[data-program=mean] tbody time')?.dateTime`
	for range 3 {
		b.page.Wait("a result", newest+" !== undefined")
		before := b.page.Do(newest)
		b.page.Wait("a newer result", newest+" > "+before)
	}
	b.page.Wait("that it is the same page", "window.kept === true")
	b.page.Wait("value, unit and promised error",
		`/^[0-9.]+ % ± [0-9.e-]+\s.*(ago|just now)$/
			.test(document.querySelector('[data-program=mean] .now').innerText)`)
}

// demo opens the link of the demo, and follows its windows through all roles, into the key holder's
// own views.
func (b *browsing) demo(ts *testscript.TestScript, args []string) {
	page := b.browser.Page()
	b.page = page
	_, rest, found := strings.Cut(readFile(ts, args[0]), `"link":"`)
	link, _, ended := strings.Cut(rest, `"`)
	if !found || !ended {
		ts.Fatalf("%s has no link", args[0])
	}
	page.Open(link)
	page.See("The whole job, on this machine")
	page.Wait("updates", "document.querySelector('.live')?.textContent === 'live'")
	page.Wait("messages of both", "document.querySelectorAll('.wire .board code, .wire .evaluator code').length > 1")
	page.Wait("ciphertext", `[...document.querySelectorAll('.wire code')].every((c) =>
		/^([0-9a-f]{2} )+$/.test(c.textContent))`)
	page.Wait("sensors", `[...document.querySelectorAll('.sensors path')].every((p) =>
		p.getAttribute('d').length > 20)`)
	const count = `Number(document.querySelector('.verdict').dataset.windows)`
	windows := "3"
	if os.Getenv("HENCEDGE_TEST_SCREENSHOTS") != "" {
		windows = "25" // charts with something in them
	}
	page.Wait("windows", count+" >= "+windows)
	page.Wait("a result beside the truth on each card", `[...document.querySelectorAll('.compared .card')].length > 2 &&
		[...document.querySelectorAll('.compared .card')].every((c) =>
			/truth -?[0-9.e-]+/.test(c.innerText) && /error [0-9.e-]+ of [0-9.e-]+ promised/.test(c.innerText))`)
	page.See("every error is within its promise")
	page.Size(1280, 722)
	b.shoot("demo")
	page.Dark(true)
	b.shoot("demo-dark")
	page.Dark(false)
	page.Size(390, 844)
	page.Wait("that it is as wide as a phone", "document.documentElement.scrollWidth <= innerWidth")
	b.shoot("phone-demo")
	page.Size(1280, 900)
	page.Click(".compared .card a")
	page.See("Every step was checked just now, and is right.")
	page.Click("nav a[data-path=results]")
	page.Wait("the cards of the key holder", "document.querySelectorAll('.cards .card canvas').length > 2")
	page.Click("nav a[data-path='']")
	page.Wait("what came before", count+" >= 3")
}

// zoom moves the chart with keys, and comes back.
func (b *browsing) zoom(*testscript.TestScript, []string) {
	b.page.Do("document.querySelector('[data-program=mean] .chart').focus()")
	b.page.Key("+")
	b.page.Key("ArrowLeft")
	const away = "!document.querySelector('[data-program=mean] .ranges button:last-child').hidden"
	b.page.Wait("a way back", away)
	b.page.Key("0")
	b.page.Wait("now", "!("+away+")")
	b.page.Wait("a chart that was drawn", `(() => {
		const c = document.querySelector('[data-program=mean] canvas');
		const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		return d.some((v, i) => i % 4 === 3 && v > 0);
	})()`)
}

func (b *browsing) alarm(*testscript.TestScript, []string) {
	b.page.Wait("the alarm's badge", "document.querySelector('.badge')?.textContent === '1'")
	b.page.Click("nav a[data-path=alarms]")
	b.page.Wait("a row that fires", "document.querySelector('.state.firing')?.textContent === 'fires'")
	b.shoot("alarms")
	b.page.Click("button[aria-label='Acknowledge memory-used']")
	b.page.Wait("that it was seen",
		"document.querySelector('.badge').hidden && /seen/.test(document.querySelector('tbody').innerText)")
	b.page.Click("button[aria-label='Silence memory-used']")
	b.page.See("from the page")
	b.page.Click("button[aria-label='End the silence of memory-used']")
	b.page.See("There are none.")
}

func (b *browsing) fleet(*testscript.TestScript, []string) {
	b.page.Click("nav a[data-path=fleet]")
	b.page.See("2 devices")
	b.page.See("load, mean, spread")
	b.page.Wait("what the boards say of themselves", `(() => {
		const rows = [...document.querySelectorAll('tbody tr')].map((r) => [...r.children].map((c) => c.innerText));
		return rows.length === 2 && rows[0][1] === 'online' && /[0-9a-z]/.test(rows[0][2]) &&
			rows[0][3] === 'not told' &&
			rows[1][0] === 'spare' && rows[1][1] === 'not heard of' && rows[1][3] === '–' && rows[1][5] === '–';
	})()`)
	b.page.Click("button[data-sort=state]")
	b.page.Wait("the order", "document.querySelector('tbody tr').innerText.startsWith('spare')")
	b.page.Click("button[data-sort=delay]")
	b.page.Wait("the order", "document.querySelector('th[aria-sort=ascending]')?.textContent.startsWith('Delay')")
	b.shoot("devices")
	b.page.Do(`(() => {
		const s = document.querySelector('#find');
		s.value = 'nobody';
		s.dispatchEvent(new Event('input'));
	})()`)
	b.page.See("0 devices")
}

func (b *browsing) keys(*testscript.TestScript, []string) {
	b.page.Click("nav a[data-path=keys]")
	b.page.See("1, current")
	b.page.See("mean(x)")
	b.shoot("keys")
}

// proof follows the link of a result, and takes the sealed object into a file.
func (b *browsing) proof(ts *testscript.TestScript, args []string) {
	b.page.Click("nav a[data-path='']")
	b.page.Click("[data-program=mean] summary")
	b.page.Click("[data-program=mean] tbody tr:last-child a") // its receipt has been given
	b.page.See("Every step was checked just now, and is right.")
	b.page.Wait("eight steps, the receipt among them", `document.querySelectorAll('.steps li.good').length === 8 &&
		/to\s+cloud/.test(document.querySelector('[data-step=receipt]').innerText)`)
	b.page.See("board/system")
	b.shoot("proof")
	b.phone("proof")
	text := b.page.Do(`fetch(document.querySelector('a.button').href).then((r) => r.arrayBuffer()).then((a) =>
		btoa(Array.from(new Uint8Array(a), (c) => String.fromCharCode(c)).join('')))`)
	var quoted string
	ts.Check(json.Unmarshal([]byte(text), &quoted))
	object, err := base64.StdEncoding.DecodeString(quoted)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), object, 0o600))
}

// asks is "asks DEVICE FINGERPRINT [DIR]": the request is there. No secret in the operator's directory
// DIR is in what the page gets.
func (b *browsing) asks(ts *testscript.TestScript, args []string) {
	b.page.Wait("the badge", `document.querySelector("nav a[data-path=boards] .badge").textContent === '1'`)
	b.page.Click("nav a[data-path=boards]")
	b.page.Wait("the request of "+args[0], fmt.Sprintf(`[...document.querySelectorAll('tbody tr')].some((r) =>
		[%q, 'asks', 'gauge', %q].every((t) => r.innerText.includes(t)) && /ago/.test(r.innerText))`, args[0], args[1]))
	b.shoot("boards")
	got := b.page.Do("fetch('api/boards').then((r) => r.text())")
	if len(args) < 3 {
		return
	}
	key, err := os.ReadFile(filepath.Join(ts.MkAbs(args[2]), "operator.key"))
	ts.Check(err)
	books, err := filepath.Glob(filepath.Join(ts.MkAbs(args[2]), "invitations", "*.json"))
	ts.Check(err)
	secrets := []string{strings.TrimSpace(string(key))}
	for _, book := range books {
		text, err := os.ReadFile(book)
		ts.Check(err)
		var i struct{ Secret string }
		ts.Check(json.Unmarshal(text, &i))
		secrets = append(secrets, i.Secret)
	}
	for _, secret := range secrets {
		if len(secret) < 20 || strings.Contains(got, secret) || strings.Contains(got, secret[len(secret)-20:]) {
			ts.Fatalf("the page gets a secret, or there is none: %d bytes", len(secret))
		}
	}
}

// command is "command DEVICE FINGERPRINT": without the operator's key the page names the command.
func (b *browsing) command(ts *testscript.TestScript, args []string) {
	b.asks(ts, args[:2])
	b.page.Wait("the command", fmt.Sprintf(`[...document.querySelectorAll('tbody code')].some((c) =>
		/^hencedge enroll approve -c .*evaluator.yaml --dir .*enrolment %s$/.test(c.textContent))`, args[1]))
	b.page.See("The operator's key is not here.")
	if n := b.page.Do("document.querySelectorAll('main button').length"); n != "0" {
		ts.Fatalf("%s buttons", n)
	}
}

// letIn is "letin DEVICE FINGERPRINT": somebody compares, and answers.
func (b *browsing) letIn(ts *testscript.TestScript, args []string) {
	b.page.Click("button[aria-label='let in " + args[0] + "']")
	b.page.See("Let " + args[0] + " into the class gauge?")
	if shown := b.page.Do("document.querySelector('.print').textContent"); shown != strconv.Quote(args[1]) {
		ts.Fatalf("the page asks about %s", shown)
	}
	b.shoot("board-question")
	b.phone("board-question")
	b.axe(ts, nil)
	b.page.Click(".ask button[type=submit]")
	if stays := b.page.Do("document.querySelector('.ask').checkValidity()"); stays != "false" {
		ts.Fatalf("nobody has to compare")
	}
	b.page.Click("#same")
	b.page.Click(".ask button[type=submit]")
	b.page.Wait("that the question is gone", "document.querySelector('.ask') === null")
	b.page.Wait("that the board has joined", rowOf(args[0], "joined"))
	b.page.Wait("no badge", `document.querySelector("nav a[data-path=boards] .badge").hidden`)
}

// rowOf is an expression: a row of the table has the words.
func rowOf(words ...string) string {
	list, _ := json.Marshal(words)
	return fmt.Sprintf(`[...document.querySelectorAll('tbody tr')].some((r) =>
		%s.every((t) => r.innerText.includes(t)))`, list)
}

// approved is "approved DEVICE": its answer waits for a board.
func (b *browsing) approved(_ *testscript.TestScript, args []string) {
	b.page.Wait("an answer that was not fetched", rowOf(args[0], "approved, not fetched yet"))
}

// invited finds an invitation that a command has made beside the page, and that no board has used.
func (b *browsing) invited(*testscript.TestScript, []string) {
	b.page.Wait("an invitation", rowOf("waits for a board"))
}

// again is "again DEVICE FINGERPRINT": a board was interrupted before it had its answer. It can be let
// in once more, and not be refused.
func (b *browsing) again(ts *testscript.TestScript, args []string) {
	b.page.Wait("the badge", `document.querySelector("nav a[data-path=boards] .badge").textContent === '1'`)
	b.page.Wait("a board that asks again", rowOf(args[0], "was interrupted, and asks again", args[1]))
	if n := b.page.Do("document.querySelectorAll('button[aria-label=\"refuse " + args[0] + "\"]').length"); n != "0" {
		ts.Fatalf("a board that is listed can be refused")
	}
	b.shoot("boards-again")
	b.axe(ts, nil)
	b.letIn(ts, args)
}

// refuse is "refuse DEVICE".
func (b *browsing) refuse(_ *testscript.TestScript, args []string) {
	b.page.Click("button[aria-label='refuse " + args[0] + "']")
	b.page.Wait("that nobody asks", `!/asks/.test(document.querySelector('tbody').innerText)`)
}

// enrolled is "enrolled DEVICE": results of the device come.
func (b *browsing) enrolled(_ *testscript.TestScript, args []string) {
	b.page.Click("nav a[data-path=fleet]")
	b.page.Wait("its program", fmt.Sprintf(`[...document.querySelectorAll('tbody tr')].some((r) =>
		r.innerText.startsWith(%q) && /used/.test(r.innerText))`, args[0]))
	b.page.Wait("what the board says of itself", fmt.Sprintf(`[...document.querySelectorAll('tbody tr')].some((r) =>
		r.innerText.startsWith(%q) && /online/.test(r.innerText))`, args[0]))
}

// looks takes pictures: dark, light, and on a phone, where nothing may be wider than the screen.
func (b *browsing) looks(ts *testscript.TestScript, _ []string) {
	b.page.Click("nav a[data-path='']")
	b.page.Wait("cards", "document.querySelectorAll('.card canvas').length === 3")
	light := b.page.Do("getComputedStyle(document.body).backgroundColor")
	b.page.Size(1280, 720)
	b.shoot("results")
	b.page.Dark(true)
	b.page.Wait("dark colours", "getComputedStyle(document.body).backgroundColor !== "+light)
	b.shoot("results-dark")
	b.page.Dark(false)
	b.page.Size(390, 844)
	for _, path := range []string{"", "fleet", "alarms", "boards", "keys"} {
		b.page.Click("nav a[data-path='" + path + "']")
		b.page.Wait("the view "+path, "document.querySelector('h1') !== null")
		b.page.Wait("that "+path+" is as wide as a phone", "document.documentElement.scrollWidth <= innerWidth")
		b.shoot("phone-" + path)
	}
	b.page.Size(1280, 900)
}

// accessible asks axe for faults of the views of the bar.
func (b *browsing) accessible(ts *testscript.TestScript, _ []string) {
	for _, path := range []string{"", "fleet", "alarms", "boards", "keys"} {
		b.page.Click("nav a[data-path='" + path + "']")
		b.page.Wait("the view",
			"document.querySelector('h1') !== null && document.querySelector('main').children.length > 1")
		b.axe(ts, nil)
	}
}

// axe asks axe for serious faults of the view that is shown, in both colours.
func (b *browsing) axe(ts *testscript.TestScript, _ []string) {
	axe, err := os.ReadFile(filepath.Join(b.root(), "keyholder/console/web/node_modules/axe-core/axe.min.js"))
	if err != nil {
		testenv.Without(b.t, "axe", err)
		return
	}
	b.page.Do(string(axe) + "; 1")
	for _, dark := range []bool{true, false} {
		b.page.Dark(dark)
		b.page.Wait("its colours", fmt.Sprintf("matchMedia('(prefers-color-scheme: dark)').matches === %t", dark))
		found := b.page.Do(`axe.run().then((r) => r.violations
			.filter((v) => ['serious', 'critical'].includes(v.impact))
			.map((v) => v.id + ': ' + v.nodes.map((n) => n.html).join(' ')))`)
		if found != "[]" {
			ts.Fatalf("%s, dark %t: %s", b.page.Do("location.hash"), dark, found)
		}
	}
}

func (b *browsing) root() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		b.t.Fatal(err)
	}
	return dir
}

func (b *browsing) gone(*testscript.TestScript, []string) {
	b.page.Wait("that the page knows", "document.querySelector('.live')?.textContent === 'no connection'")
}

func (b *browsing) ended(*testscript.TestScript, []string) { b.page.See("The session has ended.") }

// history finds more results in a chart than have come since the process started.
func (b *browsing) history(ts *testscript.TestScript, _ []string) {
	b.page.Wait("the card", "document.querySelector('[data-program=mean] .value')?.textContent !== ''")
	got := b.page.Do(`fetch('api/series?program=mean&device=').then((r) => r.json()).then((s) => s.results)`)
	read := b.page.Do(`fetch('api/keys').then((r) => r.json()).then((k) => k.read?.mean ?? 0)`)
	var stored, since int
	ts.Check(json.Unmarshal([]byte(got), &stored))
	ts.Check(json.Unmarshal([]byte(read), &since))
	if stored < 4 || stored <= since {
		ts.Fatalf("%d results in the chart, %d since the start", stored, since)
	}
}

// looker sees requests, and no button.
func (b *browsing) looker(ts *testscript.TestScript, _ []string) {
	b.page.See("A viewer sees requests.")
	if n := b.page.Do("document.querySelectorAll('main button').length"); n != "0" {
		ts.Fatalf("%s buttons", n)
	}
}

// viewer finds none of a holder's deeds.
func (b *browsing) viewer(ts *testscript.TestScript, _ []string) {
	b.page.Click("nav a[data-path=alarms]")
	b.page.See("A viewer sees alarms.")
	if n := b.page.Do("document.querySelectorAll('main button').length"); n != "0" {
		ts.Fatalf("%s buttons", n)
	}
}

// logout in one tab ends the session in the other.
func (b *browsing) logout(*testscript.TestScript, []string) {
	other := b.page.Another()
	other.Open(b.url(""))
	other.Wait("updates", "document.querySelector('.live')?.textContent === 'live'")
	b.page.Click("#logout")
	b.page.See("You are logged out.")
	other.See("The session has ended.")
	other.Close()
}

// quiet looks for what should not have happened.
func (b *browsing) quiet(ts *testscript.TestScript, _ []string) {
	if out := b.page.Elsewhere(b.url("")); len(out) > 0 || len(b.page.Requests()) < 10 {
		ts.Fatalf("requests to other machines: %q of %d", out, len(b.page.Requests()))
	}
	if out := b.page.Troubles(); len(out) > 0 {
		ts.Fatalf("troubles: %q", out)
	}
}
