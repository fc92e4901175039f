package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/report"
)

// TestTraces sends the spans of a run to an endpoint. No span has the path of the API server's URL, which may be
// secret.
func TestTraces(t *testing.T) {
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	var mu sync.Mutex
	var sent bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/v1/traces" {
			_, _ = io.Copy(&sent, r.Body)
		}
	}))
	defer collector.Close()
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	run := func() (exit int, said string) {
		var out, errs bytes.Buffer
		exit = Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs},
			[]string{"run", "--node", "n", "--via", "api", "--server", api.URL + "/hushhush"})
		return exit, errs.String()
	}
	_, said := run()
	got := sent.String()
	for _, want := range []string{"calico-probe run", "read the API", "GET /api/v1/nodes", "service.name"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q\n%s", want, got, said)
		}
	}
	if strings.Contains(got, "hushhush") {
		t.Errorf("the address is told: %q", got)
	}
	collector.Close()
	if _, said := run(); !strings.Contains(said, "some spans could not be sent") {
		t.Errorf("a dead endpoint: %q", said)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "jaeger")
	if exit, said := run(); exit != report.ExitUsage || !strings.Contains(said, "otlp, console or none") {
		t.Errorf("exit %d: %s", exit, said)
	}
}
