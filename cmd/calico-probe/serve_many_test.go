package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/alerts"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestServeMany runs over all nodes for alerts about many.
func TestServeMany(t *testing.T) {
	t.Parallel()
	kubeconfig := fleetAPI(t, "")
	client := examine.NewClient(examine.Config{
		Rest:    func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) },
		Cluster: func() (*probe.Cluster, error) { return &probe.Cluster{Server: "https://here"}, nil },
	}, io.Discard)
	run := examine.Options{Via: injector.MethodAPI, Profile: "standard", FailOn: examine.FailOnFail, Image: "probe",
		Timeout: time.Minute}
	job := alerts.Job{Node: alerts.ManyNodes, Nodes: []string{"worker-b", "gone"}}
	came := must.Get((&serveOptions{}).lookAtMany(t.Context(), client, run, job))(t)
	var all report.Fleet
	if err := json.Unmarshal(came.JSON, &all); err != nil || len(all.Nodes) != 2 {
		t.Errorf("%v: %s", err, came.JSON)
	}
	if err := validate(compiled(t, "fleet"), string(came.JSON)); err != nil {
		t.Error(err)
	}
	if came.Verdict != alerts.Fault || !strings.Contains(came.Says, " of 2 nodes: ") ||
		!strings.Contains(string(came.Markdown), "### ") {
		t.Errorf("%s: %s\n%s", came.Verdict, came.Says, came.Markdown)
	}
	if via := manyVia(viaInPod()); via != injector.MethodPod {
		t.Errorf("where all is allowed it asks via %s", via)
	}
	if via := manyVia(injector.MethodOutside); via != injector.MethodAPI {
		t.Errorf("where no pod is allowed it asks via %s", via)
	}
}

// TestServeTellsEach writes an event on each node that the alerts name, at most a hundred.
func TestServeTellsEach(t *testing.T) {
	t.Parallel()
	job := alerts.Job{ID: "a", Node: alerts.ManyNodes, Procedure: alerts.Procedure{Many: true}}
	for range 150 {
		job.Nodes = append(job.Nodes, "n")
	}
	ids := map[string]bool{}
	told, err := tellEach(job, func(id, _ string) (bool, error) {
		ids[id] = true
		if len(ids) == 3 {
			return false, errors.New("no")
		}
		return true, nil
	})
	if !told || err == nil || len(ids) != maxEvents {
		t.Errorf("%v, %v: %d events", told, err, len(ids))
	}
}
