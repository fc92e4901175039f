//go:build e2e

package pages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDocsScreenshots takes the documents' screenshots again: 'make screenshots'. PAGES=DIR keeps the pages for
// inspection.
func TestDocsScreenshots(t *testing.T) {
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		t.Skip("SCREENSHOTS is no folder: 'make screenshots' sets it")
	}
	in := browser(t)
	for _, c := range []struct {
		name string
		made func() []byte
		view
		top string // what stands at the top, "" = the page's head
	}{
		{"page-node", func() []byte { return nodePage(t) }, view{wide: 1200, high: 900}, ""},
		{"page-fleet", func() []byte { return fleetPage(t, 5000) }, view{wide: 1200, high: 900, dark: true}, "#nodes"},
		{"page-mesh", func() []byte { return meshPage(t, 60) }, view{wide: 1200, high: 900}, ".matrix"},
		{"page-phone", func() []byte { return nodePage(t) }, view{wide: 400, high: 800}, ""},
	} {
		html := c.made()
		if dir := os.Getenv("PAGES"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, c.name+".html"), html, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		shot(t, open(t, in, html, c.view), c.top, filepath.Join(folder, c.name+".png"))
	}
	shot(t, openURL(t, in, served(t), view{wide: 1200, high: 520}), "", filepath.Join(folder, "page-serve.png"))
}

// shot writes what a window shows of a page.
func shot(t *testing.T, l *looked, top, file string) {
	t.Helper()
	l.painted()
	if top != "" {
		l.run(chromedp.Evaluate[chromedp.Void](
			"scrollBy(0, document.querySelector('" + top + "').getBoundingClientRect().top - 100)"))
	}
	png, err := chromedp.Run(l.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
