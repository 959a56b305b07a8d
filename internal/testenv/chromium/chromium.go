// Package chromium drives a real browser in tests, through chromedp.
package chromium

import (
	"bytes"
	"context"
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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	devlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/hencedge/hencedge/internal/testenv"
)

// patience bounds what a browser is waited for.
const patience = 60 * time.Second

// Browser is a Chromium without a window.
type Browser struct {
	t    testing.TB
	fail func(format string, args ...any)
	ctx  context.Context
}

// Page is a tab with storage of its own, as if it were another browser.
type Page struct {
	b   *Browser
	ctx context.Context
	in  cdp.BrowserContextID

	mu       sync.Mutex
	requests []string
	troubles []string
}

// Start starts a browser that ends with the test. The test is skipped without one.
func Start(t testing.TB) *Browser {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(testenv.Program(t, "chromium", "chromium")),
		chromedp.UserDataDir(t.TempDir()), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.DisableGPU,
		chromedp.Flag("headless", "new"), chromedp.Flag("lang", "en-GB")}
	for _, flag := range []string{"disable-dev-shm-usage", "disable-background-networking", "disable-component-update",
		"disable-sync", "hide-scrollbars"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to run as root with one
	}
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		closing, over := context.WithTimeout(ctx, 10*time.Second)
		defer over()
		_ = chromedp.Cancel(closing)
		cancel()
		release()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return &Browser{t: t, fail: t.Fatalf, ctx: ctx}
}

// FailWith says how a test fails from now on, for tests within others.
func (b *Browser) FailWith(fail func(format string, args ...any)) { b.fail = fail }

// call asks the tab for something, in the DevTools protocol.
func (p *Page) call(method string, params any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	var result json.RawMessage
	err := chromedp.FromContext(ctx).Target.Call(ctx, method, params, &result)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return result, nil
}

// ask is call for what must work.
func (p *Page) ask(method string, params, into any) {
	p.b.t.Helper()
	result, err := p.call(method, params)
	if err == nil && into != nil {
		err = json.Unmarshal(result, into)
	}
	if err != nil {
		p.b.fail("%v", err)
	}
}

// Page opens a tab. Cookies and storage are not shared with other tabs.
func (b *Browser) Page() *Page {
	b.t.Helper()
	var in struct {
		ID cdp.BrowserContextID `json:"browserContextId"`
	}
	// Not chromedp.WithNewBrowserContext, which would end with this tab.
	if err := chromedp.FromContext(b.ctx).Browser.Call(b.ctx, "Target.createBrowserContext", nil, &in); err != nil {
		b.fail("%v", err)
	}
	return b.tab(in.ID)
}

// Another opens a tab of the same browser: they share cookies and storage.
func (p *Page) Another() *Page {
	p.b.t.Helper()
	return p.b.tab(p.in)
}

// tab opens a tab in a context.
func (b *Browser) tab(in cdp.BrowserContextID) *Page {
	b.t.Helper()
	p := &Page{b: b, in: in}
	p.ctx, _ = chromedp.NewContext(b.ctx, chromedp.WithExistingBrowserContext(in), chromedp.WithNewWindow(false),
		chromedp.WithListener(p.note))
	if err := chromedp.Do(p.ctx); err != nil {
		b.fail("%v", err)
	}
	for _, domain := range []string{"Network", "Log"} {
		p.ask(domain+".enable", nil, nil)
	}
	p.Size(1280, 900)
	return p
}

// Close closes the tab.
func (p *Page) Close() {
	p.b.t.Helper()
	if err := chromedp.Cancel(p.ctx); err != nil {
		p.b.fail("%v", err)
	}
}

// note remembers requests and troubles of a page.
func (p *Page) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *devlog.EventEntryAdded:
		if e.Entry.Level == devlog.EntryLevelError && e.Entry.Source != devlog.EntrySourceNetwork {
			p.troubles = append(p.troubles, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		p.troubles = append(p.troubles, text)
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
	p.ask("Page.navigate", map[string]any{"url": address}, nil)
}

// Size sets the size of the page in pixels.
func (p *Page) Size(width, height int) {
	p.b.t.Helper()
	p.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// Dark asks the page for its dark colours.
func (p *Page) Dark(on bool) {
	p.b.t.Helper()
	value := "light"
	if on {
		value = "dark"
	}
	p.ask("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": value}}}, nil)
}

// Eval evaluates an expression, whose promise it waits for, and returns its value in JSON.
func (p *Page) Eval(expression string) (string, error) {
	result, err := p.call("Runtime.evaluate", map[string]any{"expression": expression,
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
		if errors.Is(err, context.Canceled) {
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
	p.ask("Input.dispatchKeyEvent", press, nil)
	press["type"] = "keyUp"
	delete(press, "text")
	p.ask("Input.dispatchKeyEvent", press, nil)
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
	p.ask("Input.dispatchMouseEvent", event, nil)
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
	p.ask("Input.dispatchTouchEvent", map[string]any{"type": event, "touchPoints": points}, nil)
}

// Front brings the tab before the others, which nobody sees then.
func (p *Page) Front() {
	p.b.t.Helper()
	p.ask("Page.bringToFront", nil, nil)
}

// Offline cuts the tab off from every server, or gives it back, and returns when that is so: Chromium answers before.
func (p *Page) Offline(on bool) {
	p.b.t.Helper()
	p.ask("Network.emulateNetworkConditions", map[string]any{"offline": on, "latency": 0,
		"downloadThroughput": -1, "uploadThroughput": -1}, nil)
	fails := "fetch(location.pathname, {method: 'HEAD', cache: 'no-store'}).then(() => false, () => true)"
	p.Wait(fmt.Sprintf("the network (offline: %t)", on), fmt.Sprintf("%s.then((off) => off === %t)", fails, on))
}

// Screenshot writes what the page shows to a PNG file.
func (p *Page) Screenshot(file string) {
	p.b.t.Helper()
	p.Front() // a tab behind another one draws nothing
	var got struct{ Data string }
	p.ask("Page.captureScreenshot", map[string]any{"format": "png"}, &got)
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
	p.ask("WebAuthn.enable", map[string]any{}, nil)
	var got struct {
		AuthenticatorID string `json:"authenticatorId"`
	}
	p.ask("WebAuthn.addVirtualAuthenticator", map[string]any{"options": map[string]any{
		"protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true,
		"isUserVerified": true, "automaticPresenceSimulation": true}}, &got)
	return &Authenticator{p, got.AuthenticatorID}
}

// Verifies says whether the device verifies its user from now on.
func (a *Authenticator) Verifies(on bool) {
	a.p.b.t.Helper()
	a.p.ask("WebAuthn.setUserVerified", map[string]any{"authenticatorId": a.id, "isUserVerified": on},
		nil)
}
