package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Topology holds nodes and the sessions between them. If there are many nodes, each zone is drawn as one node. Nodes
// with far more sessions than usual, such as route reflectors, and nodes with failed sessions are drawn separately.
type Topology struct {
	Places   []Place
	Sessions []Session
}

// Place is a node, or a peer outside the cluster.
type Place struct{ Name, Zone string }

// Session connects two places, given by their names. Each end may report the session. It is up if both ends report it
// as up.
type Session struct {
	A, B string
	Kind string // distinguishes sessions between the same places: IPv4, IPv6
	Up   bool
}

// Limits for the drawing: a drawing with more parts would be unreadable.
const (
	maxPlaces = 16 // places that are drawn individually
	maxHubs   = 8
	maxDown   = 8 // maximum number of separately drawn nodes with sessions that are down
	maxZones  = 12
)

// vertex is a circle or square of the drawing: one place, or several.
type vertex struct {
	Name        string
	Size        int // places
	Hub         bool
	Up, Down    int // sessions with an end here
	X, Y        int
	LabelX      int
	LabelY      int
	Anchor      string
	zone        string
	within, bad int // number of sessions between its places, and how many of them are down
}

// edge holds the sessions between two vertices.
type edge struct {
	From, To *vertex
	Up, Down int
}

// drawing holds the positions of all parts.
type drawing struct {
	Wide, High int
	Vertices   []*vertex
	Edges      []*edge
	Up, Down   int
}

// link is a session, given by the indexes of its places.
type link struct {
	a, b int
	kind string
}

// graph holds each session once.
type graph struct {
	places []Place
	up     map[link]bool
	order  []link
	ends   []int // number of sessions of each place
	down   []int // number of sessions that are down
}

func (t *Topology) graph() *graph {
	g := &graph{places: slices.Clone(t.Places), up: map[link]bool{}}
	at := map[string]int{}
	for i, p := range g.places {
		at[p.Name] = i
	}
	place := func(name string) int {
		i, ok := at[name]
		if !ok {
			i = len(g.places)
			at[name], g.places = i, append(g.places, Place{Name: name})
		}
		return i
	}
	for _, s := range t.Sessions {
		a, b := place(s.A), place(s.B)
		l := link{min(a, b), max(a, b), s.Kind}
		up, had := g.up[l]
		if !had {
			g.order = append(g.order, l)
		}
		g.up[l] = s.Up && (up || !had)
	}
	g.ends, g.down = make([]int, len(g.places)), make([]int, len(g.places))
	for _, l := range g.order {
		for _, i := range []int{l.a, l.b} {
			g.ends[i]++
			if !g.up[l] {
				g.down[i]++
			}
		}
	}
	return g
}

// Drawn returns the drawing, or nil if there are no sessions.
func (t *Topology) Drawn() *drawing {
	g := t.graph()
	if len(g.order) == 0 {
		return nil
	}
	of := g.vertices()
	d := &drawing{}
	for i, v := range of {
		if g.ends[i] > 0 && !slices.Contains(d.Vertices, v) {
			d.Vertices = append(d.Vertices, v)
		}
	}
	edges := map[[2]*vertex]*edge{}
	for _, l := range g.order {
		a, b := of[l.a], of[l.b]
		up, down := 1, 0
		if !g.up[l] {
			up, down = 0, 1
		}
		d.Up, d.Down = d.Up+up, d.Down+down
		if a == b {
			a.within, a.bad = a.within+1, a.bad+down
			continue
		}
		e := edges[[2]*vertex{a, b}]
		if e == nil {
			e = edges[[2]*vertex{b, a}]
		}
		if e == nil {
			e = &edge{From: a, To: b}
			edges[[2]*vertex{a, b}], d.Edges = e, append(d.Edges, e)
		}
		e.Up, e.Down = e.Up+up, e.Down+down
		for _, v := range []*vertex{a, b} {
			v.Up, v.Down = v.Up+up, v.Down+down
		}
	}
	// Edges that are down are drawn last, above the others.
	slices.SortStableFunc(d.Edges, func(a, b *edge) int { return cmp.Compare(a.Down, b.Down) })
	d.place()
	return d
}

// vertices assigns each place to a vertex.
func (g *graph) vertices() []*vertex {
	out := make([]*vertex, len(g.places))
	alone := func(i int, hub bool) {
		out[i] = &vertex{Name: g.places[i].Name, Size: 1, Hub: hub, zone: g.places[i].Zone}
	}
	hubs := g.hubs()
	for _, i := range hubs {
		alone(i, true)
	}
	var rest []int
	for i := range g.places {
		if out[i] == nil {
			rest = append(rest, i)
		}
	}
	if len(g.places) <= maxPlaces {
		for _, i := range rest {
			alone(i, false)
		}
		return out
	}
	slices.SortStableFunc(rest, func(a, b int) int { return g.down[b] - g.down[a] })
	for len(rest) > 0 && g.down[rest[0]] > 0 && len(out) > 0 && g.drawn(out) < len(hubs)+maxDown {
		alone(rest[0], false)
		rest = rest[1:]
	}
	zones := map[string]*vertex{}
	for _, i := range rest {
		name := g.places[i].Zone
		if zones[name] == nil && len(zones) >= maxZones {
			name = "\x00"
		}
		if zones[name] == nil {
			zones[name] = &vertex{zone: name}
		}
		zones[name].Size++
		out[i] = zones[name]
	}
	for name, v := range zones {
		v.Name = map[string]string{"": "others", "\x00": "other zones"}[name]
		if v.Name == "" {
			v.Name = "zone " + name
		}
	}
	return out
}

func (g *graph) drawn(of []*vertex) int {
	n := 0
	for _, v := range of {
		if v != nil {
			n++
		}
	}
	return n
}

// hubs returns the places with far more sessions than the median.
func (g *graph) hubs() []int {
	sorted := slices.Sorted(slices.Values(g.ends))
	least := max(4, 4*sorted[len(sorted)/2])
	var out []int
	for i, n := range g.ends {
		if n >= least {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return g.ends[b] - g.ends[a] })
	return out[:min(len(out), maxHubs)]
}

// place puts hubs in the middle and the other nodes on an ellipse around them, grouped by zone.
func (d *drawing) place() {
	var hubs, ring []*vertex
	for _, v := range d.Vertices {
		if v.Hub {
			hubs = append(hubs, v)
		} else {
			ring = append(ring, v)
		}
	}
	slices.SortStableFunc(ring, func(a, b *vertex) int {
		return cmp.Or(cmp.Compare(a.zone, b.zone), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Name, b.Name))
	})
	d.Wide, d.High = 900, min(560, 130+max(30*len(ring), 50*len(hubs)))
	if len(ring) <= 2 {
		d.High = 60 + 50*len(hubs)
	}
	middle, rx, ry := d.High/2, 230.0, max(0, float64(d.High)/2-46)
	for i, v := range hubs {
		v.X, v.Y = d.Wide/2, middle+int((float64(i)-float64(len(hubs)-1)/2)*46)
		v.LabelX, v.LabelY, v.Anchor = v.X+15, v.Y-2, "start"
	}
	turn := 0.0
	if len(ring) > 2 && len(hubs) > 0 { // turn the ring, because a vertex must not be above the hubs
		turn = math.Pi / float64(len(ring))
	}
	for i, v := range ring {
		angle := math.Pi + turn + 2*math.Pi*float64(i)/float64(len(ring)) // the first vertex is on the left
		x, y := math.Cos(angle), math.Sin(angle)
		v.X, v.Y = d.Wide/2+int(rx*x), middle+int(ry*y)
		switch {
		case x > 0.2:
			v.LabelX, v.LabelY, v.Anchor = v.X+16, v.Y-2, "start"
		case x < -0.2:
			v.LabelX, v.LabelY, v.Anchor = v.X-16, v.Y-2, "end"
		case y < 0:
			v.LabelX, v.LabelY, v.Anchor = v.X, v.Y-30, "middle"
		default:
			v.LabelX, v.LabelY, v.Anchor = v.X, v.Y+24, "middle"
		}
	}
}

// colour returns the class of a vertex.
func (v *vertex) colour() string {
	if v.Down+v.bad > 0 {
		return "bad"
	}
	return "good"
}

// radius returns a larger radius for more places.
func (v *vertex) radius() int {
	if v.Size == 1 {
		return 7
	}
	return min(16, 8+int(math.Log2(float64(v.Size))))
}

// label returns the name, shortened if it does not fit.
func (v *vertex) label() string {
	const most = 30
	text := []rune(v.Name)
	if len(text) <= most {
		return v.Name
	}
	return string(text[:most/2]) + "…" + string(text[len(text)-most/2:])
}

// says returns the text below the name.
func (v *vertex) says() string {
	text := ""
	if v.Size > 1 {
		text = fmt.Sprintf("%d nodes, ", v.Size)
	}
	total, down := v.Up+v.Down+v.within, v.Down+v.bad
	if down == 0 {
		return text + fmt.Sprintf("%s up", plural(total, "session"))
	}
	return text + fmt.Sprintf("%d of %s down", down, plural(total, "session"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// colour returns the class of an edge.
func (e *edge) colour() string {
	if e.Down > 0 {
		return "bad"
	}
	return "good"
}

// stroke returns a larger width for more sessions.
func (e *edge) stroke() float64 {
	return math.Round(10*min(5, 1.2+math.Log2(float64(e.Up+e.Down))/2)) / 10
}

// says returns the tooltip of an edge.
func (e *edge) says() string {
	text := e.From.Name + " and " + e.To.Name + ": "
	if total := e.Up + e.Down; e.Down == 0 {
		return text + plural(total, "session") + " up"
	}
	return text + fmt.Sprintf("%d of %s down", e.Down, plural(e.Up+e.Down, "session"))
}
