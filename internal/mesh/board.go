package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// kept is the number of rounds that a Board remembers for each path.
const kept = 60

// State is the state of a path.
type State int

// The states, the worst first.
const (
	Fails  State = iota // nothing came back in the last round with a result
	Loses               // only some packets came back in the last round
	Silent              // the path's first node has not reported for more than one round
	Works
)

// RoundReport is one node's report of a round.
type RoundReport struct {
	Round  int
	At     time.Time
	Node   string
	Trials map[string][]Trial // of its paths, by plane
	Lost   string             // why it has no trials
}

// Board keeps the state of each path over the last rounds.
type Board struct {
	round int // the last round that has started
	late  int // number of rounds by which a node may be late before its paths become unknown
	paths map[name]*history
	lost  map[string]string // nodes without a report, with the reason
	await map[string]bool   // nodes that have not reported yet
}

// name identifies a path.
type name struct{ plane, from, to string }

// history holds the last rounds of a path.
type history struct {
	samples [kept]Trial
	rounds  [kept]int // of each sample; 0 = none
	last    int       // the last round with a result
	failing bool
	since   time.Time // when it started to fail, or to work again
}

// takes is the longest time that a node needs for a round without replies.
const takes = 5 * time.Second

// NewBoard returns a Board before its first round. every is the interval of rounds, and nodes are those that will
// report.
func NewBoard(every time.Duration, nodes ...string) *Board {
	b := &Board{paths: map[name]*history{}, lost: map[string]string{}, await: map[string]bool{},
		late: 2 + int(takes/every)}
	for _, n := range nodes {
		b.await[n] = true
	}
	return b
}

// Begin records that a round has started. The first round is 1.
func (b *Board) Begin(round int) { b.round = max(b.round, round) }

// Change is a path that starts to fail, or works again.
type Change struct {
	Plane string
	Trial Trial
	For   time.Duration // for a path that works again, how long it had failed; 0 = since the first round
}

// Add records a node's report, and returns the changes. If a path works at its first report, this is not a change.
func (b *Board) Add(h RoundReport) []Change {
	b.Begin(h.Round)
	delete(b.lost, h.Node)
	delete(b.await, h.Node)
	if h.Lost != "" {
		b.lost[h.Node] = h.Lost
		return nil
	}
	var out []Change
	for _, plane := range slices.Sorted(maps.Keys(h.Trials)) {
		for _, t := range h.Trials[plane] {
			if c, changed := b.note(name{plane, t.From, t.To}, t, h); changed {
				out = append(out, c)
			}
		}
	}
	return out
}

// note adds a trial from a round to a path.
func (b *Board) note(n name, t Trial, h RoundReport) (Change, bool) {
	p := b.paths[n]
	if p == nil {
		p = &history{}
		b.paths[n] = p
	}
	p.samples[h.Round%kept], p.rounds[h.Round%kept] = t, h.Round
	if h.Round < p.last { // the report is late
		return Change{}, false
	}
	p.last = h.Round
	if t.Failed == p.failing {
		return Change{}, false
	}
	c := Change{Plane: n.plane, Trial: t}
	if p.failing && !p.since.IsZero() {
		c.For = h.At.Sub(p.since)
	}
	p.failing, p.since = t.Failed, h.At
	return c, true
}

// Row is the current state of a path.
type Row struct {
	Plane, From, To string
	State           State
	Since           time.Time // when it started to fail, or to work again; zero = it never failed
	Lost            float64   // share of all packets in the remembered rounds
	Now             float64   // milliseconds, as are the next two; 0 = nothing came back
	Median, Worst   float64
	Saw             string   // in the last round with a result
	Last            []Sample // the remembered rounds, oldest first
}

// Sample is the result of a path in one round.
type Sample struct {
	Known    bool
	Received float64 // share of its packets
	RTT      float64 // milliseconds
}

// Rows returns all paths with a matching node name at either end, worst first.
func (b *Board) Rows(node string) []Row {
	var out []Row
	for n, p := range b.paths {
		if strings.Contains(n.from, node) || strings.Contains(n.to, node) {
			out = append(out, b.row(n, p))
		}
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(int(a.State-b.State), cmp.Compare(b.Lost, a.Lost), cmp.Compare(b.slow(), a.slow()),
			strings.Compare(a.From, b.From), strings.Compare(a.To, b.To), strings.Compare(a.Plane, b.Plane))
	})
	return out
}

// slow is a coarse measure of a path's delay: rows with similar delays keep their places.
func (r Row) slow() int {
	if r.Median <= 0 {
		return 0
	}
	return int(math.Round(2 * math.Log2(1000*r.Median)))
}

func (b *Board) row(n name, p *history) Row {
	last := p.samples[p.last%kept]
	r := Row{Plane: n.plane, From: n.from, To: n.to, Since: p.since, Saw: last.Saw, Now: last.RTT}
	switch {
	case p.last+b.late < b.round || b.lost[n.from] != "":
		r.State, r.Now = Silent, 0
	case last.Failed:
		r.State = Fails
	case last.Received > 0 && last.Received < last.Sent:
		r.State = Loses
	default:
		r.State = Works
	}
	sent, received := 0, 0
	var rtts []float64
	for round := max(1, b.round-kept+1); round <= b.round; round++ {
		s, t := Sample{}, p.samples[round%kept]
		if p.rounds[round%kept] == round {
			s.Known = true
			sent += t.Sent
			received += t.Received
			if t.Sent > 0 {
				s.Received = float64(t.Received) / float64(t.Sent)
			}
			if t.Received > 0 {
				s.RTT = t.RTT
				rtts = append(rtts, t.RTT)
			}
		}
		r.Last = append(r.Last, s)
	}
	if sent > 0 {
		r.Lost = 1 - float64(received)/float64(sent)
	}
	if len(rtts) > 0 {
		slices.Sort(rtts)
		r.Median, r.Worst = rtts[len(rtts)/2], rtts[len(rtts)-1]
	}
	return r
}

// Spark draws the last rounds, one character each. A letter shows the round-trip time relative to the longest
// round-trip time. An exclamation mark shows partial loss, a cross full loss, and a dot that there is no result.
func (r Row) Spark(width int) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	var out []rune
	for _, s := range r.Last[max(0, len(r.Last)-width):] {
		switch {
		case !s.Known:
			out = append(out, '·')
		case s.Received == 0 && s.RTT == 0:
			out = append(out, '×')
		case s.Received < 1:
			out = append(out, '!')
		default:
			out = append(out, bars[min(len(bars)-1, int(float64(len(bars))*s.RTT/max(r.Worst, 1e-9)))])
		}
	}
	return string(out)
}

// Sum counts the paths in each state.
type Sum struct {
	Round, Paths, Fail, Lossy, Silent int
	Lost                              []string // nodes without a report, with the reason
	Awaited                           []string // nodes that have not reported yet
}

// Lost returns why a node has no report, or "" if it has one.
func (b *Board) Lost(node string) string { return b.lost[node] }

// String formats a Sum as a line: "132 paths, 2 fail".
func (s Sum) String() string {
	out := fmt.Sprintf("%d paths", s.Paths)
	for _, more := range []struct {
		n    int
		says string
	}{{s.Fail, "fail"}, {s.Lossy, "with loss"}, {s.Silent, "without a report"}} {
		if more.n > 0 {
			out += fmt.Sprintf(", %d %s", more.n, more.says)
		}
	}
	switch n := len(s.Awaited); {
	case n > 0:
		out += fmt.Sprintf("; no report yet from %d nodes", n)
	case s.Fail+s.Lossy+s.Silent+len(s.Lost) == 0 && s.Paths > 0:
		out += ", all work"
	}
	return out
}

// Sum counts the paths.
func (b *Board) Sum() Sum {
	s := Sum{Round: b.round, Paths: len(b.paths), Awaited: slices.Sorted(maps.Keys(b.await))}
	for n, p := range b.paths {
		switch b.row(n, p).State {
		case Fails:
			s.Fail++
		case Loses:
			s.Lossy++
		case Silent:
			s.Silent++
		}
	}
	for _, node := range slices.Sorted(maps.Keys(b.lost)) {
		s.Lost = append(s.Lost, node+": "+b.lost[node])
	}
	return s
}
