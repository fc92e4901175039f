package alerts

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/calico-probe/calico-probe/probe"
)

// The outcomes of an event for a node.
const (
	eventWritten    = "written"
	eventSuppressed = "suppressed"
	eventFailed     = "failed"
)

// metrics are the metrics of a Server. No label contains a node name, because a large cluster has thousands of nodes.
type metrics struct {
	registry     *prometheus.Registry
	alerts       *prometheus.CounterVec
	truncated    prometheus.Counter
	gathered     prometheus.Counter
	requests     *prometheus.CounterVec
	unauthorized prometheus.Counter
	crowded      prometheus.Counter
	runs         *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	last         *prometheus.GaugeVec
	nodeEvents   *prometheus.CounterVec
	storeErrors  prometheus.Counter
}

func newMetrics(s *Server) *metrics {
	const ns = "calico_probe"
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: ns, Name: name, Help: help}
	}
	m := &metrics{
		registry:     prometheus.NewRegistry(),
		alerts:       prometheus.NewCounterVec(counter("alerts_total", "Alerts received, by outcome; a repeated alert counts again."), []string{"outcome"}),
		truncated:    prometheus.NewCounter(counter("alerts_truncated_total", "Alerts that were never received because Alertmanager left them out of notifications (max_alerts).")),
		gathered:     prometheus.NewCounter(counter("jobs_gathered_total", "Waiting jobs that became part of one run over many nodes (spec.limits.many).")),
		requests:     prometheus.NewCounterVec(counter("webhook_requests_total", "Notifications posted with valid credentials, by status code."), []string{"code"}),
		unauthorized: prometheus.NewCounter(counter("unauthorized_requests_total", "Requests rejected because of missing or invalid credentials.")),
		crowded:      prometheus.NewCounter(counter("connections_closed_total", "Idle or unauthenticated connections that were closed for newer connections.")),
		runs:         prometheus.NewCounterVec(counter("runs_total", "Jobs done, by runbook (or run-PROFILE) and verdict."), []string{"runbook", "verdict"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "run_duration_seconds", Help: "How long jobs took.",
			Buckets: []float64{1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600},
		}, []string{"runbook"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: ns, Name: "last_run_timestamp_seconds", Help: "When the last job with this verdict was done.",
		}, []string{"verdict"}),
		nodeEvents:  prometheus.NewCounterVec(counter("node_events_total", "Events for nodes, by outcome: written, suppressed (too many recent events on the node) or failed."), []string{"outcome"}),
		storeErrors: prometheus.NewCounter(counter("store_errors_total", "Times the store could not be written.")),
	}
	for _, o := range outcomes() {
		m.alerts.WithLabelValues(o)
	}
	for _, o := range []string{eventWritten, eventSuppressed, eventFailed} {
		m.nodeEvents.WithLabelValues(o)
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: ns, Name: name, Help: help}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return value()
		})
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Name: "build_info", Help: "The version of this program; always 1.", ConstLabels: prometheus.Labels{"version": probe.Release}})
	info.Set(1)
	m.registry.MustRegister(m.alerts, m.truncated, m.gathered, m.requests, m.unauthorized, m.crowded, m.runs,
		m.duration, m.last, m.nodeEvents, m.storeErrors, info,
		gauge("jobs_queued", "Jobs waiting.", func() float64 { return float64(s.inState(Queued)) }),
		gauge("jobs_queued_limit", "Maximum number of waiting jobs (spec.limits.queue).", func() float64 { return float64(s.limits.Queue) }),
		gauge("jobs_running", "Jobs running.", func() float64 { return float64(s.inState(Running)) }),
		gauge("jobs_running_limit", "Jobs that may run at once (spec.limits.workers).", func() float64 { return float64(s.limits.Workers) }),
		gauge("rate_limited", "1 while jobs wait because of the hourly limit (spec.limits.runsPerHour).", func() float64 {
			if !s.heldUp(time.Now()).IsZero() {
				return 1
			}
			return 0
		}),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

func (m *metrics) ran(j Job) {
	m.runs.WithLabelValues(j.Procedure.String(), j.Verdict).Inc()
	m.last.WithLabelValues(j.Verdict).Set(float64(j.Ended.Unix()))
	if j.Attempts <= maxAttempts { // after more attempts, the server gave up
		m.duration.WithLabelValues(j.Procedure.String()).Observe(j.Ended.Sub(j.Started).Seconds())
	}
}
