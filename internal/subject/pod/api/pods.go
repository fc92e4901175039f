package api

import (
	"time"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
)

// aged returns the age of the latest of the pods' messages as the end of a sentence, or "" if the messages have no
// time.
func aged(pods []cluster.Waiter, now time.Time) string {
	var last probe.Statement
	for _, w := range pods {
		if at := w.ReportedAt(); !at.Before(last.At) {
			last.At = at
		}
	}
	return last.Aged(now)
}

// podsHistory returns results about pods whose kubelet messages are all older than their current wait. Such a message
// is history: its reason may be another.
func podsHistory(s *cluster.Snapshot) []probe.Result {
	var out []probe.Result
	for _, w := range s.Placed.Waiting.Value[:min(len(s.Placed.Waiting.Value), cluster.MaxPodsWithEvents)] {
		if w.Last == nil && w.Before != nil && s.Now.Sub(w.Since) >= waitReported {
			said := cluster.StatementOf(w.Before)
			said.Text = probe.Quoted(cluster.GeneralText(w, w.Before.Message))
			out = append(out, said.History(s.Now).On(cluster.NameOf(w.Pod)+" history"))
		}
	}
	return out
}
