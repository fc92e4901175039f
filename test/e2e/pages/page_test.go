//go:build e2e

package pages

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/calico-probe/calico-probe/internal/page"
)

// most is how large a page may be, whatever it tells of.
const most = 1_500_000

// TestPages requires each kind of page to be small, to load nothing, to log no error, and to fit the window.
func TestPages(t *testing.T) {
	in := browser(t)
	for name, made := range map[string]func() []byte{
		"a node":         func() []byte { return nodePage(t) },
		"2 nodes":        func() []byte { return fleetPage(t, 2) },
		"60 nodes":       func() []byte { return fleetPage(t, 60) },
		"5000 nodes":     func() []byte { return fleetPage(t, 5000) },
		"2 in a mesh":    func() []byte { return meshPage(t, 2) },
		"60 in a mesh":   func() []byte { return meshPage(t, 60) },
		"5000 in a mesh": func() []byte { return meshPage(t, 5000) },
	} {
		t.Run(name, func(t *testing.T) {
			html := made()
			if len(html) > most {
				t.Errorf("%d bytes, at most %d", len(html), most)
			}
			for _, v := range []view{{wide: 1200, high: 900}, {wide: 400, high: 800}, {wide: 1200, high: 900, dark: true}} {
				l := open(t, in, html, v)
				l.fits()
				l.clean()
				t.Logf("%d pixels: %d bytes, first paint after %.0f ms", v.wide, len(html),
					l.painted())
			}
		})
	}
}

// TestWithoutScript requires the verdict, the causes and the fix without scripts.
func TestWithoutScript(t *testing.T) {
	in := browser(t)
	for name, c := range map[string]struct {
		html  []byte
		wants []string
	}{
		"a node":  {nodePage(t), []string{"node-b", "fault", "address-second-nic IPv4", "Fix", "kubectl -n kube-system set env"}},
		"a fleet": {fleetPage(t, 60), []string{"60 nodes", "fault", "address-second-nic", "1 of 60 nodes", nameOf(25)}},
		"a mesh":  {meshPage(t, 60), []string{"60 nodes", "fault", "node " + nameOf(30), "between nodes", "eu-1a"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, in, c.html, view{wide: 1200, high: 900, noScript: true})
			text := l.shown()
			for _, want := range c.wants {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			if strings.Contains(text, "search") {
				t.Error("it shows a search, which does nothing")
			}
			l.clean()
		})
	}
}

// TestSearch types a word. Rows with the word must remain, and all rows must return afterwards.
func TestSearch(t *testing.T) {
	in := browser(t)
	l := open(t, in, fleetPage(t, 5000), view{wide: 1200, high: 900})
	before := l.shown()
	if strings.Contains(before, nameOf(4321)) {
		t.Fatal("what is looked for is there anyway")
	}
	l.run(slash(), chromedp.KeyEvent(nameOf(4321)))
	l.until("document.getElementById('hits').value === '1 hit'")
	if got := l.shown(); !strings.Contains(got, nameOf(4321)) || strings.Contains(got, "Fix") {
		t.Errorf("after the search: %s", got)
	}
	l.run(chromedp.KeyEvent(kb.Escape))
	if got := l.shown(); got != before {
		t.Errorf("after Esc it is not as it was: %s", got)
	}
	one := open(t, in, nodePage(t), view{wide: 1200, high: 900})
	one.run(slash(), chromedp.KeyEvent("swap"))
	if got := one.shown(); !strings.Contains(got, "node-swap") || strings.Contains(got, "pod-ping") {
		t.Errorf("what is folded is not found: %s", got)
	}
	one.run(chromedp.KeyEvent(kb.Escape))
	if got := one.shown(); strings.Contains(got, "node-swap") {
		t.Errorf("it stays open: %s", got)
	}
	l.clean()
	one.clean()
}

// TestKeys uses a page without a mouse.
func TestKeys(t *testing.T) {
	l := open(t, browser(t), nodePage(t), view{wide: 1200, high: 900})
	const evidence = "document.querySelector('.cause details').open"
	l.run(chromedp.KeyEvent("j"))
	if l.text("document.activeElement.className") != "cause item bad" {
		t.Errorf("j goes to %s", l.text("document.activeElement.outerHTML.slice(0, 100)"))
	}
	l.run(chromedp.KeyEvent("o"))
	if l.text(evidence) != "true" {
		t.Error("o opens no evidence")
	}
	l.run(chromedp.KeyEvent("o"), chromedp.KeyEvent("e"))
	if l.text("[...document.querySelectorAll('main details')].every(d => d.open)") != "true" {
		t.Error("e does not open all")
	}
	l.run(chromedp.KeyEvent("e"), chromedp.KeyEvent("d"))
	if l.text("html.dataset.theme") != "dark" || l.text("getComputedStyle(html).colorScheme") != "dark" {
		t.Error("d is not dark")
	}
	l.run(chromedp.KeyEvent("?"))
	if l.text("document.getElementById('help').open") != "true" {
		t.Error("? gives no help")
	}
	l.run(chromedp.KeyEvent(kb.Escape))
	if l.text("document.getElementById('help').open") != "false" {
		t.Error("Esc leaves the help open")
	}
	l.clean()
}

// TestPair navigates from the map of zones down to one path.
func TestPair(t *testing.T) {
	for _, nodes := range []int{60, 5000} {
		l := open(t, browser(t), meshPage(t, nodes), view{wide: 1200, high: 900})
		for step := 0; l.text("document.querySelector('.pair') !== null") != "true"; step++ {
			if step == 5 {
				t.Fatalf("%d nodes: no pair after %d cells: %s", nodes, step, l.text("document.querySelector('.matrix').innerText"))
			}
			l.run(chromedp.Evaluate[chromedp.Void]("(document.querySelector('.matrix td.bad4, .matrix td.bad3, .matrix td.bad2, .matrix td.bad1')).focus()"),
				chromedp.KeyEvent(kb.Enter))
		}
		text := l.text("document.querySelector('.pair').innerText")
		if !strings.Contains(text, "none of 5 packets came back") {
			t.Errorf("%d nodes: %s", nodes, text)
		}
		crumbs := l.number("document.querySelectorAll('.matrix .crumbs button').length")
		l.run(chromedp.Click(chromedp.CSS(".matrix .crumbs button")))
		if crumbs < 2 || !strings.Contains(l.text("document.querySelector('.heat').innerText"), "eu-1a") {
			t.Errorf("%d nodes: no way back, %.0f steps", nodes, crumbs)
		}
		l.clean()
	}
}

// BenchmarkFirstPaint is how long a page takes to be seen.
func BenchmarkFirstPaint(b *testing.B) {
	in := browser(b)
	for _, nodes := range []int{2, 60, 5000} {
		for kind, made := range map[string]func(testing.TB, int) []byte{"fleet": fleetPage, "mesh": meshPage} {
			html := made(b, nodes)
			b.Run(fmt.Sprintf("%s-%d", kind, nodes), func(b *testing.B) {
				total := 0.0
				for b.Loop() {
					l := open(b, in, html, view{wide: 1200, high: 900})
					total += l.painted()
				}
				b.ReportMetric(total/float64(b.N), "ms/paint")
				b.ReportMetric(float64(len(html)), "bytes")
			})
		}
	}
}

// TestHostileInABrowser has nodes report text that would run, load or request something. A browser must do none of
// that, even with content that the script creates.
func TestHostileInABrowser(t *testing.T) {
	const evil = `<img src=http://127.0.0.1:1/x onerror="pwned=1"></script><script>pwned=1;alert(1)</script>"'><b id=b>`
	p := page.Page{Kind: evil, Subject: evil, Verdict: page.Verdict{Word: "fault", Says: evil}, Notes: []string{evil},
		Causes: []page.Cause{{Name: evil, Says: evil, Evidence: []page.Seen{{Word: evil, What: evil, Saw: evil}},
			Fix: page.Fix{Says: evil, Blocks: []page.Block{{If: evil,
				Steps: []page.Paste{{Note: evil, Commands: []string{evil}}}}}}}}}
	m := &page.Matrix{}
	for i := range 30 {
		p.Nodes = append(p.Nodes, page.Node{Name: fmt.Sprint(evil, i), Zone: evil, Word: "fault", Says: evil,
			Seen: []page.Seen{{Word: evil, What: evil, Saw: evil}}})
		m.Paths = append(m.Paths, page.Path{From: i, To: (i + 1) % 30, Word: "fail", Saw: evil})
	}
	p.Parts = []page.Part{{Title: evil, Matrix: m}, {Title: evil, Topology: &page.Topology{
		Sessions: []page.Session{{A: evil, B: "b"}}}}}
	var out bytes.Buffer
	if err := page.Write(&out, p); err != nil {
		t.Fatal(err)
	}
	l := open(t, browser(t), out.Bytes(), view{wide: 1200, high: 900})
	l.run(chromedp.KeyEvent("e"), chromedp.Click(chromedp.CSS("#list button")), slash(), chromedp.KeyEvent("<img"),
		chromedp.KeyEvent(kb.Escape), chromedp.Evaluate[chromedp.Void]("document.querySelector('.matrix td.bad4').click()"))
	if l.text("document.querySelectorAll('.pair li').length") != "1" {
		t.Error("no pair is shown")
	}
	if n := l.text("document.querySelectorAll('img, b#b, iframe, a').length + ' ' + typeof pwned"); n != "0 undefined" {
		t.Errorf("elements of a node's own, and what it set: %s", n)
	}
	l.clean()
}
