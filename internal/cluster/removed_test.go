package cluster

import (
	"strings"
	"testing"
	"time"
)

// TestRemovedNode requires that the error about an unknown node reports the deletion of its object if an event shows
// it.
func TestRemovedNode(t *testing.T) {
	t.Parallel()
	const events = "/api/v1/namespaces/default/events"
	at := time.Now().Add(-40 * time.Second).UTC()
	event := func(reason, message string, at time.Time) string {
		return `{"metadata":{"name":"` + reason + `"},"involvedObject":{"kind":"Node","name":"node-b"},"reason":"` + reason +
			`","message":"` + message + `","lastTimestamp":"` + at.Format(time.RFC3339) + `"}`
	}
	for name, c := range map[string]struct{ items, want string }{
		"deleted": {event("RegisteredNode", "Registered", at.Add(-time.Hour)) + "," +
			event("RemovingNode", "Node node-b event: Removing Node node-b from Controller", at), "Removing Node node-b"},
		"another event": {event("RegisteredNode", "Registered", at), ""},
	} {
		got := serverOf(t, map[string]string{events: `{"kind":"EventList","apiVersion":"v1","items":[` + c.items + `]}`},
			nil).removed(t.Context(), "node-b")
		if (got.Text == "") != (c.want == "") || !strings.Contains(got.Text, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
		unknown := UnknownNodeError{Name: "node-b", Have: []string{"node-a"}, Removed: got, now: at.Add(40 * time.Second)}
		said := unknown.Error()
		if strings.Contains(said, "was deleted") != (c.want != "") || c.want != "" && !strings.Contains(said, "40s ago") {
			t.Errorf("%s: %s", name, said)
		}
	}
	if got := serverOf(t, nil, nil).removed(t.Context(), "node-b"); got.Text != "" {
		t.Errorf("%+v", got)
	}
}
