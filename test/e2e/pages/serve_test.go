//go:build e2e

package pages

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/calico-probe/calico-probe/internal/alerts"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/gate"
	"github.com/calico-probe/calico-probe/internal/report"
)

const token = "a token of the tests"

// served starts a server that has had some alerts, and gives the address of its pages, with credentials.
func served(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	tokens := filepath.Join(folder, "token")
	if err := os.WriteFile(tokens, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	routes, err := alerts.ParseRoutes([]byte("apiVersion: calico-probe.io/v1alpha1\nkind: AlertRoutes\n"+
		"spec: {routes: [{match: ['alertname=~\"KubeNode.*\"'], profile: standard}]}\n"), nil, examine.ProfileNames())
	if err != nil {
		t.Fatal(err)
	}
	kept := saved(t, "json")
	s, err := alerts.New(filepath.Join(folder, "store"), routes, alerts.DefaultLimits(), gate.Access{TokenFile: tokens},
		alerts.Cluster{
			Node: func(_ context.Context, name string) (string, error) {
				if !strings.HasPrefix(name, "node-") && !strings.HasPrefix(name, "ip-") {
					return "", nil
				}
				return name, nil
			},
			Look: func(_ context.Context, job alerts.Job, _ string) (alerts.Report, error) {
				if job.Node != "node-b" {
					return alerts.Report{Verdict: alerts.Healthy, JSON: []byte("{}"), Markdown: []byte("**healthy**, as older versions said\n")}, nil
				}
				return alerts.Report{Verdict: alerts.Fault, Says: "address-second-nic IPv4: Calico registered 10.0.0.66 of ens224 " +
					"for node-b, and its InternalIP is 10.88.0.12", JSON: kept, Markdown: []byte("**fault**\n")}, nil
			},
			Tell: func(context.Context, alerts.Job) (bool, error) { return true, nil },
			Page: report.ReadPage,
		}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	at := strings.Replace(server.URL, "http://", "http://reader:"+strings.ReplaceAll(token, " ", "%20")+"@", 1) + "/"
	fire(t, server.URL, "KubeNodeNotReady", "node-b", "KubeNodeUnreachable", "ip-10-20-30-40.eu-central-1.compute.internal",
		"Watchdog", "none", "KubeNodeNotReady", "gone")
	for begun := time.Now(); ; {
		resp, err := http.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		_, err = b.ReadFrom(resp.Body)
		resp.Body.Close()
		if text := b.String(); err == nil && strings.Contains(text, "fault") && strings.Contains(text, "healthy") {
			return at
		}
		if time.Since(begun) > limit {
			t.Fatalf("the jobs are not done: %s", b.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// fire posts alerts, each by its name and its node.
func fire(t testing.TB, at string, pairs ...string) {
	t.Helper()
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, fmt.Sprintf(`{"status": "firing", "startsAt": "2026-11-21T02:1%d:00Z",
			"labels": {"alertname": %q, "node": %q, "severity": "critical", "cluster": "prod-eu"}}`, i, pairs[i], pairs[i+1]))
	}
	req, err := http.NewRequest(http.MethodPost, at+"/v1/alerts",
		strings.NewReader(`{"version": "4", "alerts": [`+strings.Join(list, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", err, resp)
	}
	resp.Body.Close()
}

// TestServe requires that serve's pages fit, load nothing, break no word, and lead from the list to a report.
func TestServe(t *testing.T) {
	at := served(t)
	in := browser(t)
	for _, wide := range []int64{1200, 400} {
		l := openURL(t, in, at, view{wide: wide, high: 900})
		l.fits()
		// A word that is broken stands on two lines, which are higher than one.
		if broken := l.text(`[...document.querySelectorAll('td:first-child b, td:nth-child(2) a')].filter(e =>
			e.getClientRects().length > 1).map(e => e.textContent)`); broken != "" && wide > 1000 {
			t.Errorf("%d pixels: broken words: %s", wide, broken)
		}
		l.clean()
		l.run(chromedp.Click(chromedp.CSS("tr.bad a")), chromedp.WaitReady(chromedp.CSS(".cause")))
		text := l.shown()
		if !strings.Contains(text, "address-second-nic IPv4") || !strings.Contains(text, "KubeNodeNotReady") {
			t.Errorf("the report: %s", text)
		}
		l.fits()
		l.mu.Lock()
		if len(l.odd) > 0 || len(l.requests) > 2 {
			t.Errorf("%v %v", l.odd, l.requests)
		}
		l.mu.Unlock()
	}
	l := openURL(t, in, at, view{wide: 1200, high: 900})
	l.run(chromedp.Click(chromedp.CSS("tr.good a")), chromedp.WaitReady(chromedp.CSS("pre")))
	if text := l.shown(); !strings.Contains(text, "as older versions said") {
		t.Errorf("an old report: %s", text)
	}
}
