//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

const talkRoutes = `apiVersion: calico-probe.io/v1alpha1
kind: AlertRoutes
spec:
  routes:
  - match: ['alertname="BGPDown"']
    profile: standard
  - match: ['alertname="CalicoBGPPeerDown"']
    runbook: talk
`

const talkRunbook = `apiVersion: calico-probe.io/v1alpha1
kind: Runbook
metadata:
  name: talk
spec:
  title: asks a lot
  steps:
  - name: look
    run: {checks: [node-swap, node-clock, node-memory, node-disk, node-sysctl, node-conntrack, felix-live, felix-ready, bird-socket]}
  - name: again
    run: {checks: [node-swap, node-clock, node-memory, node-disk, node-sysctl, node-conntrack, felix-live, felix-ready, bird-socket]}
`

// TestServeAsksALiar has serve query a node that sends as much as possible, by a runbook and by a profile. Neither may
// be healthy, and memory must stay small.
func TestServeAsksALiar(t *testing.T) {
	lies(t)
	defer nothingLeft(t)
	main, health := fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	dir := t.TempDir()
	pid, _ := process(t, file("bin/calico-probe"), "serve", "--listen", main, "--health-listen", health, "--store", dir,
		"--via", "pod", "--image", lying, "--token-file", written(t, "token", alertsToken),
		"--config", written(t, "routes.yaml", talkRoutes), "--runbooks", filepath.Dir(written(t, "talk.yaml", talkRunbook)))
	s := serving{"http://" + main, "http://" + health, &http.Client{Timeout: 30 * time.Second}}
	s.ready(t)
	am := startAlertmanager(t, plainly(t, s.url))
	for i, alert := range []string{"CalicoBGPPeerDown", "BGPDown"} {
		am.fire(t, alert, "node=node-a")
		eventually(t, 3*time.Minute, func() string {
			jobs := stored(t, dir)
			done := 0
			for _, j := range jobs {
				if j.State == "done" {
					done++
				}
				if j.State == "done" && j.Verdict == "healthy" {
					t.Fatalf("it believes the node: %+v", j)
				}
			}
			if done != i+1 {
				return fmt.Sprintf("%d jobs are done, want %d: %+v", done, i+1, jobs)
			}
			return ""
		})
		used := resident(pid)
		t.Logf("%s: at most %d MiB", alert, used>>10)
		if used == 0 || used > mostResident {
			t.Errorf("%s: at most %d MiB", alert, used>>10)
		}
	}
}
