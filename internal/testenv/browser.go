package testenv

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds what a browser is waited for.
const patience = 60 * time.Second

// Browser is a Chromium without a window. It is driven through two pipes, in the DevTools
// protocol.
type Browser struct {
	t     testing.TB
	fail  func(format string, args ...any)
	write io.Writer

	mu      sync.Mutex
	last    int
	answers map[int]chan reply
	pages   map[string]*Page
	gone    bool
}

// Page is a tab with storage of its own, as if it were another browser.
type Page struct {
	b       *Browser
	session string
	context string
	target  string

	mu       sync.Mutex
	requests []string
	troubles []string
}

type reply struct {
	ID        int             `json:"id"`
	Method    string          `json:"method"`
	SessionID string          `json:"sessionId"`
	Result    json.RawMessage `json:"result"`
	Params    json.RawMessage `json:"params"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Chromium starts a browser that ends with the test. The test is skipped without one.
func Chromium(t testing.TB) *Browser {
	t.Helper()
	program := Program(t, "chromium", "chromium")
	toBrowser, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + t.TempDir(), "--no-first-run",
		"--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--no-default-browser-check", "--lang=en-GB", "--hide-scrollbars"}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // Chromium refuses to run as root with one
	}
	cmd := exec.Command(program, args...)
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	b := &Browser{t: t, fail: t.Fatalf, write: write, answers: map[int]chan reply{}, pages: map[string]*Page{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.listen(read)
	}()
	t.Cleanup(func() {
		_, _ = b.call("", "Browser.close", nil)
		ended := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		ended.Stop()
		write.Close()
		read.Close()
		<-done
	})
	return b
}

// FailWith says how a test fails from now on, for tests within others.
func (b *Browser) FailWith(fail func(format string, args ...any)) { b.fail = fail }

// listen reads what the browser says until it is gone.
func (b *Browser) listen(from io.Reader) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			break
		}
		var r reply
		if json.Unmarshal(text[:len(text)-1], &r) != nil {
			continue
		}
		b.mu.Lock()
		answer, page := b.answers[r.ID], b.pages[r.SessionID]
		delete(b.answers, r.ID)
		b.mu.Unlock()
		switch {
		case answer != nil:
			answer <- r
		case page != nil:
			page.note(&r)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	for _, answer := range b.answers {
		close(answer)
	}
}

var errGone = errors.New("the browser is gone")

// call asks the browser, or one of its pages, for something.
func (b *Browser) call(session, method string, params any) (json.RawMessage, error) {
	answer := make(chan reply, 1)
	b.mu.Lock()
	if b.gone {
		b.mu.Unlock()
		return nil, errGone
	}
	b.last++
	id := b.last
	b.answers[id] = answer
	ask := map[string]any{"id": id, "method": method}
	if params != nil {
		ask["params"] = params
	}
	if session != "" {
		ask["sessionId"] = session
	}
	text, err := json.Marshal(ask)
	if err == nil {
		_, err = b.write.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case r, ok := <-answer:
		switch {
		case !ok:
			return nil, errGone
		case r.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, r.Error.Message)
		}
		return r.Result, nil
	case <-time.After(patience):
		return nil, fmt.Errorf("%s: no answer", method)
	}
}

// ask is call for what must work.
func (b *Browser) ask(session, method string, params, into any) {
	b.t.Helper()
	result, err := b.call(session, method, params)
	if err == nil && into != nil {
		err = json.Unmarshal(result, into)
	}
	if err != nil {
		b.fail("%v", err)
	}
}

// Page opens a tab. Cookies and storage are not shared with other tabs.
func (b *Browser) Page() *Page {
	b.t.Helper()
	var in struct {
		BrowserContextID string `json:"browserContextId"`
	}
	b.ask("", "Target.createBrowserContext", nil, &in)
	return b.tab(in.BrowserContextID)
}

// Another opens a tab of the same browser: they share cookies and storage.
func (p *Page) Another() *Page {
	p.b.t.Helper()
	return p.b.tab(p.context)
}

// tab opens a tab in a context.
func (b *Browser) tab(in string) *Page {
	b.t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.ask("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": in}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.ask("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &Page{b: b, session: attached.SessionID, context: in, target: target.TargetID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.ask(p.session, domain+".enable", nil, nil)
	}
	p.Size(1280, 900)
	return p
}

// Close closes the tab.
func (p *Page) Close() {
	p.b.t.Helper()
	p.b.ask("", "Target.closeTarget", map[string]any{"targetId": p.target}, nil)
}

// note remembers requests and troubles of a page.
func (p *Page) note(r *reply) {
	var e struct {
		Request struct{ URL string }
		Entry   struct{ Level, Source, Text string }
		Details struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	_ = json.Unmarshal(r.Params, &e)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.Method {
	case "Network.requestWillBeSent":
		p.requests = append(p.requests, e.Request.URL)
	case "Log.entryAdded":
		if e.Entry.Level == "error" && e.Entry.Source != "network" {
			p.troubles = append(p.troubles, e.Entry.Text)
		}
	case "Runtime.exceptionThrown":
		p.troubles = append(p.troubles, e.Details.Text+" "+e.Details.Exception.Description)
	}
}

// Requests returns the addresses that the page asked for, and Troubles what went wrong in it:
// exceptions, and what its policy forbids.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.requests...)
}

// Troubles: see Requests.
func (p *Page) Troubles() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.troubles...)
}

// Open goes to an address.
func (p *Page) Open(address string) {
	p.b.t.Helper()
	p.b.ask(p.session, "Page.navigate", map[string]any{"url": address}, nil)
}

// Size sets the size of the page in pixels.
func (p *Page) Size(width, height int) {
	p.b.t.Helper()
	p.b.ask(p.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// Dark asks the page for its dark colours.
func (p *Page) Dark(on bool) {
	p.b.t.Helper()
	value := "light"
	if on {
		value = "dark"
	}
	p.b.ask(p.session, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": value}}}, nil)
}

// Eval evaluates an expression, whose promise it waits for, and returns its value in JSON.
func (p *Page) Eval(expression string) (string, error) {
	result, err := p.b.call(p.session, "Runtime.evaluate", map[string]any{"expression": expression,
		"awaitPromise": true, "returnByValue": true, "userGesture": true})
	if err != nil {
		return "", err
	}
	var got struct {
		Result  struct{ Value json.RawMessage }
		Details *struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	if err := json.Unmarshal(result, &got); err != nil {
		return "", err
	}
	if got.Details != nil {
		return "", fmt.Errorf("%s: %s %s", expression, got.Details.Text, got.Details.Exception.Description)
	}
	return string(got.Result.Value), nil
}

// Do evaluates an expression that must work.
func (p *Page) Do(expression string) string {
	p.b.t.Helper()
	got, err := p.Eval(expression)
	if err != nil {
		p.b.fail("%v", err)
	}
	return got
}

// Wait waits until an expression is true.
func (p *Page) Wait(what, expression string) {
	p.b.t.Helper()
	var err error
	got := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got, err = p.Eval(expression); err == nil && got == "true" {
			return
		}
		if errors.Is(err, errGone) {
			break
		}
	}
	text, _ := p.Eval("document.body.innerText")
	p.b.fail("waited in vain for %s: %s, %v; troubles %q; the page says %s", what, got, err, p.Troubles(), text)
}

// See waits until the page shows a text.
func (p *Page) See(text string) {
	p.b.t.Helper()
	quoted, _ := json.Marshal(text)
	p.Wait("the text "+text, "document.body.innerText.includes("+string(quoted)+")")
}

// Click clicks the first element of a CSS selector, when it is there.
func (p *Page) Click(selector string) {
	p.b.t.Helper()
	quoted, _ := json.Marshal(selector)
	p.Wait(selector, "document.querySelector("+string(quoted)+") !== null")
	p.Do("document.querySelector(" + string(quoted) + ").click()")
}

// Key presses a key: a letter, or a name such as "Tab" or "ArrowLeft".
func (p *Page) Key(key string) {
	p.b.t.Helper()
	press := map[string]any{"type": "keyDown", "key": key}
	if len(key) == 1 {
		press["text"] = key
	}
	switch key {
	case "Enter":
		press["text"], press["windowsVirtualKeyCode"] = "\r", 13
	case "Tab":
		press["windowsVirtualKeyCode"] = 9
	}
	p.b.ask(p.session, "Input.dispatchKeyEvent", press, nil)
	press["type"] = "keyUp"
	delete(press, "text")
	p.b.ask(p.session, "Input.dispatchKeyEvent", press, nil)
}

// Pointer is what a mouse does at X and Y, in CSS pixels from the upper left of what is shown.
type Pointer struct {
	Event       string // "mouseMoved", "mousePressed", "mouseReleased" or "mouseWheel"
	X, Y        float64
	Held        bool    // the left button, while it moves
	Clicks      int     // with mousePressed and mouseReleased: 1, or 2 for the second of a double click
	Wheel       float64 // downwards, pixels
	Ctrl, Shift bool
}

// Mouse sends an event of the mouse the way that Chromium takes those of a real one, and returns when the page has
// had it.
func (p *Page) Mouse(m Pointer) {
	p.b.t.Helper()
	event := map[string]any{"type": m.Event, "x": m.X, "y": m.Y, "deltaX": 0, "deltaY": m.Wheel, "button": "none"}
	if m.Held || m.Clicks > 0 {
		event["button"], event["clickCount"] = "left", m.Clicks
	}
	if m.Held {
		event["buttons"] = 1
	}
	modifiers := 0
	if m.Ctrl {
		modifiers |= 2
	}
	if m.Shift {
		modifiers |= 8
	}
	event["modifiers"] = modifiers
	p.b.ask(p.session, "Input.dispatchMouseEvent", event, nil)
}

// Finger is where one touches the page, in CSS pixels from the upper left of what is shown.
type Finger struct{ X, Y float64 }

// Touch sends "touchStart", "touchMove" or "touchEnd" with all fingers that touch from then on, the way that Chromium
// takes those of a screen.
func (p *Page) Touch(event string, fingers ...Finger) {
	p.b.t.Helper()
	points := []map[string]any{}
	for i, f := range fingers {
		points = append(points, map[string]any{"x": f.X, "y": f.Y, "id": i})
	}
	p.b.ask(p.session, "Input.dispatchTouchEvent", map[string]any{"type": event, "touchPoints": points}, nil)
}

// Front brings the tab before the others, which nobody sees then.
func (p *Page) Front() {
	p.b.t.Helper()
	p.b.ask(p.session, "Page.bringToFront", nil, nil)
}

// Offline cuts the tab off from every server, or gives it back.
func (p *Page) Offline(on bool) {
	p.b.t.Helper()
	p.b.ask(p.session, "Network.emulateNetworkConditions", map[string]any{"offline": on, "latency": 0,
		"downloadThroughput": -1, "uploadThroughput": -1}, nil)
}

// Screenshot writes what the page shows to a PNG file.
func (p *Page) Screenshot(file string) {
	p.b.t.Helper()
	p.Front() // a tab behind another one draws nothing
	var got struct{ Data string }
	p.b.ask(p.session, "Page.captureScreenshot", map[string]any{"format": "png"}, &got)
	b, err := base64.StdEncoding.DecodeString(got.Data)
	var small bytes.Buffer
	if err == nil {
		err = shrink(&small, bytes.NewReader(b))
	}
	if err == nil {
		err = os.WriteFile(file, small.Bytes(), 0o644)
	}
	if err != nil {
		p.b.fail("%v", err)
	}
}

// shrink writes a PNG with the 256 colours that it has most of, and others as the nearest of them.
func shrink(to io.Writer, from io.Reader) error {
	img, err := png.Decode(from)
	if err != nil {
		return err
	}
	r, count := img.Bounds(), map[color.Color]int{}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			count[img.At(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	few := color.Palette(all[:min(len(all), 256)])
	index := map[color.Color]uint8{}
	for _, c := range all {
		index[c] = uint8(few.Index(c))
	}
	small := image.NewPaletted(r, few)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			small.SetColorIndex(x, y, index[img.At(x, y)])
		}
	}
	return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(to, small)
}

// Elsewhere returns the requests of the page that went to another address than one that begins
// with a prefix.
func (p *Page) Elsewhere(prefix string) (out []string) {
	for _, u := range p.Requests() {
		if !strings.HasPrefix(u, prefix) && u != "about:blank" {
			out = append(out, u)
		}
	}
	return out
}

// Authenticator is a device with passkeys, for one tab. It answers at once, and says that it has
// verified its user.
type Authenticator struct {
	p  *Page
	id string
}

// Authenticator gives the tab a device with passkeys.
func (p *Page) Authenticator() *Authenticator {
	p.b.t.Helper()
	p.b.ask(p.session, "WebAuthn.enable", map[string]any{}, nil)
	var got struct {
		AuthenticatorID string `json:"authenticatorId"`
	}
	p.b.ask(p.session, "WebAuthn.addVirtualAuthenticator", map[string]any{"options": map[string]any{
		"protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true,
		"isUserVerified": true, "automaticPresenceSimulation": true}}, &got)
	return &Authenticator{p, got.AuthenticatorID}
}

// Verifies says whether the device verifies its user from now on.
func (a *Authenticator) Verifies(on bool) {
	a.p.b.t.Helper()
	a.p.b.ask(a.p.session, "WebAuthn.setUserVerified", map[string]any{"authenticatorId": a.id, "isUserVerified": on},
		nil)
}
