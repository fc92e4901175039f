package page

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	standard "html/template"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"golang.org/x/net/html"

	"github.com/calico-probe/calico-probe/probe/must"
)

// filled is a page of which every text is the same.
func filled(text string) Page {
	var p Page
	fill(reflect.ValueOf(&p).Elem(), text)
	for i := range p.Parts[0].Matrix.Paths {
		p.Parts[0].Matrix.Paths[i].From, p.Parts[0].Matrix.Paths[i].To = 0, 1
	}
	p.Parts[0].Topology.Places = []Place{{Name: text + "1"}, {Name: text + "2"}}
	p.Parts[0].Topology.Sessions = []Session{{A: text + "1", B: text + "2", Kind: text}}
	return p
}

// fill sets texts, and has two of whatever there may be several of.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), text)
		fill(v.Index(1), text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	}
}

func write(t testing.TB, p Page) string {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, Write(&out, p))
	return out.String()
}

// skeleton is what a browser makes of a page but for its texts: its elements with the names of their attributes, and
// the values of those that mean something to it.
func skeleton(t testing.TB, text string) []string {
	t.Helper()
	root := must.Get(html.Parse(strings.NewReader(text)))(t)
	var out []string
	for n := range root.Descendants() {
		switch {
		case n.Type == html.CommentNode:
			out = append(out, "a comment")
		case n.Type == html.ElementNode:
			line := n.Data
			for _, a := range n.Attr {
				line += " " + a.Key
				if a.Key == "class" && n.Data == "td" { // by the length of the text
					line = strings.TrimSuffix(line, " class")
					a.Val = strings.TrimSuffix("="+a.Val, "=short")
					line += a.Val
				} else if !slices.Contains([]string{"title", "aria-label", "href"}, a.Key) {
					line += "=" + a.Val
				}
				if a.Key == "href" && strings.ContainsAny(a.Val, ":<>\"") {
					line += " to " + a.Val
				}
			}
			out = append(out, line)
		}
	}
	return out
}

// hostile is what a node may say to make more of a page than text.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</style></title></textarea><svg onload=alert(1)>`,
	`javascript:alert(1)`, `data:text/html,<script>alert(1)</script>`, `</script><script>alert(1)`, `<!--`, `-->`, `]]>`, `{{.}}`, "a\nreboot\r\n",
	"\u202e\x1b[31m\x00\xff", `&lt;script&gt;`, `\u003cscript\u003e`, "`${alert(1)}`", `fail" class="bad`,
	`<base href=//evil.example>`, `<meta http-equiv=refresh content=0>`, `<form action=//evil.example>`, `<link rel=stylesheet href=//evil.example>`,
}

// hold wants a page with a text everywhere to be built as one with a harmless text.
func hold(t testing.TB, said string, want []string) {
	t.Helper()
	got := write(t, filled(said))
	if is := skeleton(t, got); !slices.Equal(is, want) {
		for i := range is {
			if i >= len(want) || is[i] != want[i] {
				t.Fatalf("%q makes %q of it", said, is[i])
			}
		}
		t.Fatalf("%q leaves out elements", said)
	}
	if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }); i >= 0 {
		t.Errorf("%q: %q", said, got[i:i+10])
	}
	if strings.Contains(got, "\nreboot") {
		t.Errorf("%q makes a line of its own", said)
	}
	uncleaned := must.Get(draw(filled(said)))(t)
	original := standard.Must(standard.New("page.html").Funcs(functions).ParseFS(pages, "*.html"))
	same(t, original, templates, uncleaned)
}

// same wants html/template and the copy of it to write the same bytes.
func same(t testing.TB, original, ours interface{ Execute(io.Writer, any) error }, of any) {
	t.Helper()
	var want, got bytes.Buffer
	must.Do(t, original.Execute(&want, of))
	must.Do(t, ours.Execute(&got, of))
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%q is not escaped as html/template does it:\n%s\n%s", of, got.Bytes(), want.Bytes())
	}
}

// TestContexts requires that texts are escaped as by html/template in every context, even unused ones.
func TestContexts(t *testing.T) {
	t.Parallel()
	const text = `<a href="{{.}}" title='{{.}}' data-a={{.}} onclick="f({{.}}, '{{.}}')" style="color: {{.}}">{{.}}</a>` +
		`<img src="/a?b={{.}}#{{.}}" srcset="{{.}}"><meta content="0;url={{.}}"><title>{{.}}</title><!-- {{.}} -->` +
		`<script>a = {{.}} / "{{.}}" + /{{.}}/ + ` + "`${ {{.}} }{{.}}`" + `</script><script type="application/json">{{.}}</script>` +
		`<style>p { color: {{.}}; background: url("{{.}}") }</style><textarea>{{.}}</textarea><p {{.}}="{{.}}">`
	original, ours := standard.Must(standard.New("").Parse(text)), template.Must(template.New("").Parse(text))
	for _, said := range append(hostile, "plain", "") {
		for _, of := range []any{said, []string{said}, map[string]string{said: said}, struct{ Said string }{said}} {
			same(t, original, ours, of)
		}
	}
}

// TestHostile requires that a text in any place cannot create an element, an attribute, a class, a link or a script.
func TestHostile(t *testing.T) {
	t.Parallel()
	want := skeleton(t, write(t, filled("plain")))
	for _, said := range hostile {
		hold(t, said, want)
	}
}

func FuzzPage(f *testing.F) {
	for _, said := range hostile {
		f.Add(said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		want := skeleton(t, write(t, filled("plain")))
		if class(said) != "quiet" { // a word of ours
			t.Skip()
		}
		hold(t, "x "+said, want)
	})
}

// TestPolicy requires that the policy contains the hashes of a page's style and script.
func TestPolicy(t *testing.T) {
	t.Parallel()
	text := write(t, filled("plain"))
	for _, part := range []struct{ open, end, source string }{
		{"<style>", "</style>", "style-src"}, {"<script>", "</script>", "script-src"},
	} {
		_, rest, _ := strings.Cut(text, part.open)
		inside, _, found := strings.Cut(rest, part.end)
		if want := part.source + " 'sha256-" + sum(inside) + "'"; !found || !strings.Contains(Policy, want) {
			t.Errorf("the policy has not %s", want)
		}
	}
	if !strings.Contains(html.UnescapeString(text), `content="`+Policy+`"`) ||
		!strings.HasPrefix(Policy, "default-src 'none'; ") || strings.Contains(Policy, "unsafe") {
		t.Errorf("the page has not the policy %s", Policy)
	}
	if n := strings.Count(text, " style="); n > 0 {
		t.Errorf("%d styles that the policy refuses", n)
	}
}

// TestScript requires that the script only creates text from nodes' reports, and sends no request.
func TestScript(t *testing.T) {
	t.Parallel()
	for _, never := range []string{"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(",
		"fetch(", "XMLHttp", "WebSocket", "import(", ".href", ".src", "location", "localStorage", "http:", "https:"} {
		if strings.Contains(script, never) {
			t.Errorf("the script has %s", never)
		}
	}
}

// TestAssets requires that style and script stay small.
func TestAssets(t *testing.T) {
	t.Parallel()
	if n := len(style) + len(script); n > 40_000 {
		t.Errorf("%d bytes", n)
	}
}

// unpacked is the data of a page.
func unpacked(t *testing.T, text string) data {
	t.Helper()
	_, rest, found := strings.Cut(text, `id="data">`)
	inside, _, _ := strings.Cut(rest, "</script>")
	var packed string
	if err := json.Unmarshal([]byte(inside), &packed); err != nil || !found {
		t.Fatalf("no data: %v", err)
	}
	b := must.Get(base64.RawURLEncoding.DecodeString(packed))(t)
	z := must.Get(gzip.NewReader(bytes.NewReader(b)))(t)
	var d data
	must.Do(t, json.NewDecoder(z).Decode(&d))
	return d
}

// TestSize has thousands of nodes send incompressible data. The page must stay small and report what is omitted, or
// omit nothing if all of it fits.
func TestSize(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	noise := func() string {
		b := make([]byte, 60)
		for i := range b {
			b[i] = byte('!' + random.IntN(90))
		}
		return string(b)
	}
	for _, c := range []struct {
		nodes, seen int
		lacks       []string
	}{
		{50, 3, nil}, {5000, 12, []string{"the times", "but the worst nodes", "more</p>"}},
	} {
		p := Page{Subject: "nodes"}
		m := &Matrix{}
		for i := range c.nodes {
			n := Node{Name: fmt.Sprintf("node-%04d-%0200d", i, 0), Zone: fmt.Sprint(i % (c.nodes / 2)), Word: "fault",
				Says: "bgp-filtered (high)"}
			for range c.seen {
				n.Seen = append(n.Seen, Seen{Word: "fail", What: "bgp-session " + noise(), Saw: noise()})
			}
			p.Nodes = append(p.Nodes, n)
			for k := range 5 {
				m.Paths = append(m.Paths, Path{From: i, To: (i + k + 1) % c.nodes, Word: "ok", MS: random.Float64() * 50})
			}
		}
		Ordered(p.Nodes)
		p.Parts = []Part{{Title: "paths", Matrix: m}}
		text := write(t, p)
		if len(text) > 1_500_000 {
			t.Errorf("%d nodes: %d bytes", c.nodes, len(text))
		}
		d := unpacked(t, text)
		if len(d.Nodes) != c.nodes || len(d.Planes) != 1 {
			t.Errorf("%d of %d nodes, %d planes", len(d.Nodes), c.nodes, len(d.Planes))
		}
		if len(d.Nodes[0].Seen) != c.seen || c.nodes > keptSeen && len(d.Nodes[c.nodes-1].Seen) > 0 {
			t.Errorf("%d nodes: %d and %d answers", c.nodes, len(d.Nodes[0].Seen), len(d.Nodes[c.nodes-1].Seen))
		}
		for _, lack := range c.lacks {
			if !strings.Contains(text, lack) {
				t.Errorf("%d nodes: it does not say that it lacks %q", c.nodes, lack)
			}
		}
		whole := !strings.Contains(text, "it lacks") && len(d.Nodes[0].Seen) == c.seen && len(d.Planes[0].Times) > 0
		if len(c.lacks) == 0 && !whole {
			t.Errorf("%d nodes: it lacks something", c.nodes)
		}
	}
}

// TestSquares requires a square for each node, at its place, in the colour of its verdict.
func TestSquares(t *testing.T) {
	t.Parallel()
	var nodes []Node
	for i := range 300 {
		nodes = append(nodes, Node{Name: fmt.Sprintf("n%03d", i), Zone: []string{"a", "b"}[i%2],
			Word: []string{"healthy", "healthy", "healthy", "fault", "incomplete"}[i%5]})
	}
	Ordered(nodes)
	l := listed(nodes)
	if len(l.Zones) != 2 || l.Zones[1].First != 150 || len(l.Worst)+len(l.Others) != 120 || len(l.Names) != 180 {
		t.Fatalf("%+v", l)
	}
	for _, z := range l.Zones {
		drawn := map[string]int{}
		for _, r := range z.Runs {
			for path := range strings.SplitSeq(r.Path[1:], "M") {
				var x, y, h int
				must.Get(fmt.Sscanf(path, "%d %dh%d", &x, &y, &h))(t)
				squares := (h + gap) / unit
				drawn[class(r.Word)] += squares
				for k := range squares {
					i := z.First + y/unit*l.Across + x/unit + k
					if class(nodes[i].Word) != class(r.Word) {
						t.Errorf("node %d is %s and drawn as %s", i, nodes[i].Word, r.Word)
					}
				}
			}
		}
		if drawn["good"] != 90 || drawn["bad"] != 30 || drawn["open"] != 30 {
			t.Errorf("zone %s: %v", z.Name, drawn)
		}
	}
}

// TestGrid requires a matrix by zones, or by nodes if there are few, worst first.
func TestGrid(t *testing.T) {
	t.Parallel()
	make := func(n, zones int) ([]Node, *Matrix) {
		var nodes []Node
		m := &Matrix{}
		for i := range n {
			nodes = append(nodes, Node{Name: fmt.Sprintf("n%03d", i), Zone: string(rune('a' + i%zones))})
			for k := range n {
				if i != k {
					p := Path{From: i, To: k, Word: "ok", MS: 2}
					if i == 7 || k == 7 {
						p.Word, p.MS = "fail", 0
					}
					m.Paths = append(m.Paths, p)
				}
			}
		}
		return nodes, m
	}
	nodes, m := make(60, 3)
	m.draw(nodes)
	if g := m.grid; !slices.Equal(g.Heads, []string{"a", "b", "c"}) || g.Rows[1].Cells[1].String() != "38 of 380 fail" ||
		g.Rows[0].Cells[0].String() != "ok 2.0 ms" || g.Rows[1].Sum.Failed != 59+19 || g.Dense {
		t.Errorf("by zone: %+v", g)
	}
	nodes, m = make(20, 3)
	m.draw(nodes)
	if g := m.grid; len(g.Heads) != 20 || g.Heads[0] != "n007" || g.Rows[0].Cells[3].colour() != "bad4" ||
		g.Rows[0].Cells[0].String() != "" || !g.Dense {
		t.Errorf("by node: %+v", g)
	}
	nodes, m = make(100, 1)
	groups := m.draw(nodes)
	total := 0
	for _, g := range groups {
		total += len(g.Nodes)
	}
	if groups[0].Name != "n007" || len(groups) != maxBad+maxBlocks || total != 100 ||
		groups[len(groups)-1].Name != "7 nodes from n093" {
		t.Errorf("of one zone: %d groups of %d nodes, %+v", len(groups), total, groups)
	}
}

// TestTopology requires that a session from both ends is drawn once, hubs are in the middle, and failed sessions
// separate.
func TestTopology(t *testing.T) {
	t.Parallel()
	both := &Topology{Sessions: []Session{{A: "a", B: "b", Kind: "IPv4", Up: true}, {A: "b", B: "a", Kind: "IPv4"},
		{A: "a", B: "b", Kind: "IPv6", Up: true}}}
	if d := both.Drawn(); d.Up != 1 || d.Down != 1 || len(d.Vertices) != 2 || len(d.Edges) != 1 ||
		d.Edges[0].says() != "a and b: 1 of 2 sessions down" {
		t.Errorf("told by both ends: %+v", d)
	}
	if (&Topology{Places: []Place{{Name: "a"}}}).Drawn() != nil {
		t.Error("no session is drawn")
	}
	large := &Topology{}
	for i := range 5000 {
		name := fmt.Sprintf("n%04d", i)
		large.Places = append(large.Places, Place{Name: name, Zone: string(rune('a' + i%20))})
		for r := range 3 {
			if i > 2 {
				large.Sessions = append(large.Sessions, Session{A: name, B: fmt.Sprintf("n%04d", r), Up: i != 77})
			}
		}
	}
	d := large.Drawn()
	hubs, alone, size := 0, 0, 0
	for _, v := range d.Vertices {
		size += v.Size
		switch {
		case v.Hub:
			hubs++
		case v.Size == 1:
			alone++
			if v.Name != "n0077" || v.colour() != "bad" {
				t.Errorf("%+v stands alone", v)
			}
		}
		if v.X < 0 || v.X > d.Wide || v.Y < 0 || v.Y > d.High {
			t.Errorf("%+v is not in the picture", v)
		}
	}
	if hubs != 3 || alone != 1 || size != 5000 || len(d.Vertices) > 3+1+maxZones+1 || d.Down != 3 {
		t.Errorf("%d hubs, %d alone, %d nodes in %d vertices, %d down", hubs, alone, size, len(d.Vertices), d.Down)
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	line := &Timeline{Total: 10 * time.Second}
	for _, c := range []struct {
		bar         Bar
		left, width int
	}{
		{Bar{From: 2 * time.Second, Took: 5 * time.Second}, 200, 500}, {Bar{From: -time.Hour, Took: time.Hour}, 0, 1000},
		{Bar{From: time.Hour, Took: time.Hour}, 1000, 3}, {Bar{}, 0, 3},
	} {
		if l, w := line.left(c.bar), line.width(c.bar); l != c.left || w != c.width {
			t.Errorf("%+v: %d, %d", c.bar, l, w)
		}
	}
	if l, w := (&Timeline{}).left(Bar{}), (&Timeline{}).width(Bar{}); l != 0 || w != 0 {
		t.Error(l, w)
	}
}
