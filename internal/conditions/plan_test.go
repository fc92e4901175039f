package conditions

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
)

var (
	planNow = time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	well    = Of(node(report.WordHealthy), "r2")
	bad     = Of(node(report.WordFault), "r2")
	dark    = Of(node(report.WordIncomplete), "r2")
)

// was is a node after a round a minute ago: with a condition, and with a pending status of this age, "" for none.
func was(c Condition, pending string, ago time.Duration) Standing {
	c.Message = strings.ReplaceAll(c.Message, "r2", "r1")
	c.Heartbeat, c.Since = planNow.Add(-time.Minute), planNow.Add(-24*time.Hour)
	s := Standing{Condition: c}
	if pending != "" {
		s.Pending = Pending{pending, planNow.Add(-ago)}
	}
	return s
}

// TestPlan has one node of each kind, and checks what the round does with it.
func TestPlan(t *testing.T) {
	t.Parallel()
	old, ahead, words := was(well, "", 0), was(well, "", 0), was(bad, "", 0)
	old.Heartbeat = planNow.Add(-time.Hour)
	ahead.Heartbeat = planNow.Add(1000 * time.Hour) // from a clock that is ahead
	words.Message = "for its proof: run this (high): run r1"
	others := bad
	others.Message = "for its proof: run that (high): run r2"
	const minute = time.Minute
	for what, c := range map[string]struct {
		had   Standing
		found Condition
		want  string // written, pending, nothing
	}{
		"the same":              {was(well, "", 0), well, "nothing"},
		"an old one":            {old, well, "written True"},
		"from the future":       {ahead, well, "written True"},
		"other words":           {words, others, "written False"},
		"new and well":          {Standing{}, well, "written True"},
		"new and bad":           {Standing{}, bad, "pending False"},
		"cleared":               {was(bad, "", 0), well, "written True"},
		"cleared of unknown":    {was(dark, "", 0), well, "written True"},
		"bad once":              {was(well, "", 0), bad, "pending False"},
		"unknown once":          {was(well, "", 0), dark, "pending Unknown"},
		"bad twice":             {was(well, False, minute), bad, "written False"},
		"unknown twice":         {was(well, Unknown, minute), dark, "written Unknown"},
		"new, bad twice":        {Standing{Pending: Pending{False, planNow.Add(-minute)}}, bad, "written False"},
		"unknown, then bad":     {was(well, Unknown, minute), bad, "pending False"},
		"in the same moment":    {was(well, False, time.Second), bad, "nothing"},
		"days later":            {was(well, False, 72*time.Hour), bad, "pending False"},
		"pending of the future": {was(well, False, -time.Hour), bad, "pending False"},
		"well again":            {was(well, False, minute), well, "written True"},
		"still bad":             {was(bad, "", 0), bad, "nothing"},
		"bad, then unknown":     {was(bad, "", 0), dark, "pending Unknown"},
		"bad, unknown twice":    {was(bad, Unknown, minute), dark, "written Unknown"},
		"bad, bad again":        {was(bad, Unknown, minute), bad, "written False"},
	} {
		round := Plan(map[string]Standing{"a": c.had}, map[string]Condition{"a": c.found},
			Limits{Beat: time.Hour, Most: 1}, planNow)
		changes, held := round.Changes, round.Held
		if pends := strings.HasPrefix(c.want, "pending") || what == "in the same moment"; pends != (round.Pending == 1) {
			t.Errorf("%s: %d pending", what, round.Pending)
		}
		got := "nothing"
		if change, is := changes["a"]; is && change.Write {
			got = "written " + change.Status
			if change.Pending != (Pending{}) {
				t.Errorf("%s: it stays pending", what)
			}
		} else if is {
			got = "pending " + change.Pending.Status
		}
		if got != c.want || len(held) > 0 {
			t.Errorf("%s: %s, want %s; held %v", what, got, c.want, held)
		}
		since := planNow
		if c.had.Status == c.found.Status {
			since = c.had.Since
		}
		if change := changes["a"]; change.Write && !change.Since.Equal(since) {
			t.Errorf("%s: since %v, want %v", what, change.Since, since)
		}
	}
}

// TestPlanLimit checks that nodes that are already False or Unknown count, judged in this round or not, and that all
// nodes that would turn are held back together.
func TestPlanLimit(t *testing.T) {
	t.Parallel()
	had := map[string]Standing{"false": was(bad, "", 0), "unknown": was(dark, "", 0), "well": was(well, "", 0),
		"turns": was(well, False, time.Minute), "fades": was(well, Unknown, time.Hour), "heals": was(bad, "", 0)}
	found := map[string]Condition{"well": well, "turns": bad, "fades": dark, "heals": well}
	for most, want := range map[int]string{
		5: "heals True, fades Unknown, turns False; held []", // 3 before, 2 more
		4: "heals True; held [fades turns]",
		0: "heals True; held [fades turns]",
	} {
		round := Plan(had, found, Limits{Beat: 30 * time.Minute, Most: most}, planNow)
		changes, held := round.Changes, round.Held
		var written []string
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(changes))) {
			if changes[name].Write {
				written = append(written, name+" "+changes[name].Status)
			}
		}
		slices.SortFunc(written, func(a, b string) int { return strings.Index(want, a) - strings.Index(want, b) })
		if got := fmt.Sprintf("%s; held %v", strings.Join(written, ", "), held); got != want {
			t.Errorf("at most %d: %s, want %s", most, got, want)
		}
		// a held node stays pending; else one round a day would not hold it back
		if fades := changes["fades"]; most < 5 && fades.Pending != (Pending{Unknown, planNow}) {
			t.Errorf("at most %d: fades is %+v", most, fades)
		}
	}
}

// TestPlanAbove checks that Above is set in the round that finds pending nodes which the limit would hold back.
func TestPlanAbove(t *testing.T) {
	t.Parallel()
	had := map[string]Standing{"false": was(bad, "", 0), "first": was(well, "", 0),
		"fresh": was(well, False, time.Second), "fades": was(bad, "", 0)}
	found := map[string]Condition{"first": bad, "fresh": bad, "fades": dark} // fades is reached already
	for most, above := range map[int]bool{4: false, 3: true} {
		round := Plan(had, found, Limits{Beat: time.Hour, Most: most}, planNow)
		if round.Above != above || round.Pending != 3 || !slices.Equal(round.Fresh, []string{"fresh"}) {
			t.Errorf("at most %d: %+v", most, round)
		}
	}
}

func TestPending(t *testing.T) {
	t.Parallel()
	for _, p := range []Pending{{}, {False, planNow}, {Unknown, planNow.Add(time.Second)}} {
		if got := ParsePending(p.String()); got.Status != p.Status || !got.Since.Equal(p.Since) {
			t.Errorf("%q: %+v", p, got)
		}
	}
	for _, text := range []string{"False", "True since 2026-11-24T03:00:00Z", "False since yesterday", "since", "\x1b[2J",
		" since 2026-11-24T03:00:00Z"} {
		if got := ParsePending(text); got != (Pending{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
