package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
)

// TestKubeletStarts counts the kubelet's own events of the last minutes, not those of other components.
func TestKubeletStarts(t *testing.T) {
	t.Parallel()
	const events = "/api/v1/namespaces/default/events"
	now := time.Now().UTC()
	event := func(by string, count int, ago time.Duration) string {
		return fmt.Sprintf(`{"metadata":{"name":"%s-%d"},"involvedObject":{"kind":"Node","name":"node-b"},"reason":"Starting",`+
			`"source":{"component":%q},"count":%d,"lastTimestamp":%q}`, by, int(ago.Seconds()), by, count, now.Add(-ago).Format(time.RFC3339))
	}
	for name, c := range map[string]struct {
		items []string
		want  string
	}{
		"often":   {[]string{event("kubelet", 1, 9*time.Second), event("kubelet", 0, time.Minute), event("kubelet", 4, 2*time.Minute)}, "started 3 times in the last 10m, most recently 9s ago"},
		"once":    {[]string{event("kubelet", 1, 9*time.Second)}, ""},
		"others":  {[]string{event("kube-proxy", 9, time.Second), event("kubelet", 1, time.Minute)}, ""},
		"history": {[]string{event("kubelet", 9, time.Hour), event("kubelet", 900, time.Minute)}, ""},
		"none":    {nil, ""},
	} {
		client := clustertest.ServerOf(t, map[string]string{events: `{"kind":"EventList","apiVersion":"v1","items":[` + strings.Join(c.items, ",") + `]}`}, nil)
		s := &cluster.Snapshot{Now: now}
		s.Starts.Value, s.Starts.Err = client.ReadStarts(t.Context(), "node-b", now.Add(-cluster.StartsCounted))
		r, ok := kubeletStarts(s)
		if ok != (c.want != "") || !strings.Contains(r.Saw, c.want) || s.Starts.Err != nil {
			t.Errorf("%s: %v %q %v", name, ok, r.Saw, s.Starts.Err)
		}
	}
	if _, err := clustertest.ServerOf(t, nil, nil).ReadStarts(t.Context(), "node-b", now); err == nil {
		t.Error("no error where events cannot be listed")
	}
}
