package probe

import (
	"testing"
	"time"
)

func TestStatement(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at      time.Time
		current bool // in a period that began a minute ago
		aged    string
	}{
		"of the period":                     {now.Add(-12 * time.Second), true, "no route, 12s ago"},
		"the event before its condition":    {now.Add(-62 * time.Second), true, "no route, 62s ago"},
		"before the period":                 {now.Add(-64 * time.Second), false, "no route, 64s ago"},
		"no time":                           {time.Time{}, true, "no route"},
		"ahead of us, by the node's clock":  {now.Add(time.Minute), true, "no route, 0s ago"},
		"long before, by the node's clock ": {now.Add(-5 * time.Hour), false, "no route, 5h ago"},
	} {
		s := Statement{By: "the kubelet", Text: "no route", At: c.at}
		if got := s.Current(now.Add(-time.Minute)); got != c.current {
			t.Errorf("%s: current is %v", name, got)
		}
		if got := s.Aged(now); got != c.aged {
			t.Errorf("%s: %q", name, got)
		}
	}
	got := Statement{By: "the kubelet", Text: "no route", At: now.Add(-5 * time.Minute)}.History(now)
	if got.Status != Info || got.Saw != "history: the kubelet reported: no route, 5m ago" || got.Facts[FactHistory] != true {
		t.Errorf("%+v", got)
	}
}
