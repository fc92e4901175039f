//go:build e2e

// Package pages looks at the pages of HTML in a real browser: Debian's Chromium, without a screen.
package pages

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// looked is a page in a browser, with the browser's messages.
type looked struct {
	t   testing.TB
	ctx context.Context
	url string

	mu       sync.Mutex
	requests []string
	odd      []string // errors, dialogs, what the policy refused
}

// limit is how long one page may take; the machine may be busy.
const limit = 2 * time.Minute

// browser starts a browser, without its sandbox because tests run as root. It skips the test if no browser is
// installed.
func browser(t testing.TB) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium: 'make chromium' installs Debian's, 126 MB")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("hide-scrollbars", true), chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(limit))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// view is how a page is looked at.
type view struct {
	wide, high int64
	dark       bool
	noScript   bool
}

// open has a tab of a browser show a page.
func open(t testing.TB, in context.Context, html []byte, v view) *looked {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, html, 0o600); err != nil {
		t.Fatal(err)
	}
	return openURL(t, in, (&url.URL{Scheme: "file", Path: file}).String(), v)
}

func openURL(t testing.TB, in context.Context, at string, v view) *looked {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the tab is there
		t.Fatal(err)
	}
	ctx, over := context.WithTimeout(ctx, limit)
	t.Cleanup(over)
	l := &looked{t: t, ctx: ctx, url: at}
	if err := chromedp.Listen(ctx, l.heard); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	l.run(ask(network.Enable, network.EnableParams{}), ask(log.Enable, cdp.Empty{}),
		ask(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: v.noScript}),
		ask(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}),
		chromedp.EmulateViewport(v.wide, v.high), chromedp.Navigate(at))
	if bytes.Contains([]byte(l.text("html.outerHTML")), []byte(`id="data"`)) && !v.noScript {
		l.until("document.documentElement.dataset.loaded === 'yes'")
	}
	return l
}

// ask is a command of the protocol as a step.
func ask[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// slash is that key as a keyboard has it: one event, which a page may keep from being typed.
func slash() chromedp.Action[chromedp.Void] {
	return ask(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown,
		Key: "/", Code: "Slash", Text: "/"})
}

// heard notes what happens in the tab.
func (l *looked) heard(ev any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		l.requests = append(l.requests, ev.Request.URL)
	case *runtime.EventConsoleAPICalled:
		l.odd = append(l.odd, "console: "+string(ev.Type))
	case *runtime.EventExceptionThrown:
		l.odd = append(l.odd, ev.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		l.odd = append(l.odd, ev.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		l.odd = append(l.odd, "a dialog: "+ev.Message)
	}
}

func (l *looked) run(steps ...chromedp.Action[chromedp.Void]) {
	l.t.Helper()
	if err := chromedp.Do(l.ctx, steps...); err != nil {
		l.t.Fatalf("%s: %v", l.url, err)
	}
}

// text returns the value of an expression, in which 'html' is the document's root element.
func (l *looked) text(expression string) string {
	l.t.Helper()
	return value[string](l, "(() => { const html = document.documentElement; return String("+expression+") })()")
}

// number is the same of what is one.
func (l *looked) number(expression string) float64 {
	l.t.Helper()
	return value[float64](l, expression)
}

func value[T any](l *looked, expression string) T {
	l.t.Helper()
	out, err := chromedp.Run(l.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		l.t.Fatalf("%s: %s: %v", l.url, expression, err)
	}
	return out
}

// until waits for an expression to hold.
func (l *looked) until(expression string) {
	l.t.Helper()
	l.run(chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(0)))
}

// painted is when the first of it was seen, in milliseconds after it was asked for.
func (l *looked) painted() float64 {
	l.t.Helper()
	const paints = "performance.getEntriesByName('first-contentful-paint')"
	l.until(paints + ".length > 0")
	return l.number(paints + "[0].startTime")
}

// shown is what a reader sees.
func (l *looked) shown() string { l.t.Helper(); return l.text("document.body.innerText") }

// clean requires that the browser requested only the page and logged no message.
func (l *looked) clean() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.requests {
		if r != l.url {
			l.t.Errorf("%s asks for %s", l.url, r)
		}
	}
	if len(l.requests) == 0 || len(l.odd) > 0 {
		l.t.Errorf("%d requests, and the browser says: %s", len(l.requests), strings.Join(l.odd, "; "))
	}
}

// fits requires that no content extends beyond the right edge of the window.
func (l *looked) fits() {
	l.t.Helper()
	if over := l.number("document.documentElement.scrollWidth - innerWidth"); over > 0 {
		l.t.Errorf("it is %.0f pixels wider than the window", over)
	}
}
