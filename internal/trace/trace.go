// Package trace measures where a run spends time, with OpenTelemetry spans. The standard OTEL_* environment variables
// configure the export over HTTP. Without these variables, it does nothing.
//
//	stop, err := trace.Start(ctx, version) // err: the environment has an unknown value
//	defer stop()
//	ctx, end := trace.Span(ctx, "checks", "node", "node-a")
//	defer end()
package trace

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

const name = "calico-probe"

// stopLimit is the time limit for sending the last spans.
const stopLimit = 3 * time.Second

// Start starts to export spans if OTEL_TRACES_EXPORTER is otlp or console (on stderr), or if an OTLP endpoint is set.
// stop sends the remaining spans within three seconds. Its error means that spans were lost.
func Start(ctx context.Context, version string) (stop func() error, err error) {
	to := os.Getenv("OTEL_TRACES_EXPORTER")
	if to == "" && cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")) != "" {
		to = "otlp"
	}
	var out sdk.SpanExporter
	switch to {
	case "", "none":
		return func() error { return nil }, nil
	case "otlp":
		out, err = otlptracehttp.New(ctx)
	case "console":
		out, err = stdouttrace.New(stdouttrace.WithWriter(os.Stderr))
	default:
		err = fmt.Errorf("OTEL_TRACES_EXPORTER=%q is not supported: use otlp, console or none", to)
	}
	if err != nil {
		return nil, err
	}
	of, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", name),
		attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	lost := &errorHandler{}
	otel.SetErrorHandler(lost)
	provider := sdk.NewTracerProvider(sdk.WithBatcher(out), sdk.WithResource(of))
	otel.SetTracerProvider(provider)
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		lost.Handle(provider.Shutdown(ctx))
		return lost.first
	}, nil
}

// errorHandler keeps the exporter's first error, which would otherwise go to the log.
type errorHandler struct {
	mu    sync.Mutex
	first error
}

func (h *errorHandler) Handle(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = cmp.Or(h.first, err)
}

// Span starts a span with attributes, given as alternating names and values. end ends the span.
func Span(ctx context.Context, what string, attributes ...string) (inside context.Context, end func()) {
	inside, s := otel.Tracer(name).Start(ctx, what)
	for i := 0; i+1 < len(attributes); i += 2 {
		s.SetAttributes(attribute.String(attributes[i], attributes[i+1]))
	}
	return inside, func() { s.End() }
}

// Requests returns a transport that records each request as a span. The span ends with the response headers. prefix is
// the path in the API server's address. This path may be secret, so spans omit it. If Start was not called, Requests
// returns the transport unchanged.
func Requests(to http.RoundTripper, prefix string) http.RoundTripper {
	if _, started := otel.GetTracerProvider().(*sdk.TracerProvider); !started {
		return to
	}
	return requests{to, prefix}
}

type requests struct {
	http.RoundTripper
	prefix string
}

func (r requests) RoundTrip(q *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(q.URL.Path, r.prefix)
	ctx, s := otel.Tracer(name).Start(q.Context(), q.Method+" "+path)
	defer s.End()
	answer, err := r.RoundTripper.RoundTrip(q.WithContext(ctx))
	if err != nil {
		s.SetStatus(codes.Error, "no answer")
		return nil, err
	}
	s.SetAttributes(attribute.Int("http.response.status_code", answer.StatusCode))
	return answer, nil
}
