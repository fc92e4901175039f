package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/alerts"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/gate"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// serveOptions are the flags of the serve verb.
type serveOptions struct {
	*runFlags   // how to examine a node; the same for every alert
	client      *examine.Client
	listen      string
	health      string // address of the health checks
	insecure    bool   // accept tokens over plain HTTP
	store       string
	config      string
	checkConfig bool
	logFormat   string
	external    string   // the public URL
	dirs        []string // folders of runbooks
	books       map[string]runbook.Item
	access      gate.Access
	asks        *probe.Cluster
}

const serveExample = `  # run in a cluster, roughly as 'calico-probe manifests --serve' sets it up
  calico-probe serve --token-file /etc/calico-probe/token --tls-cert tls.crt --tls-key tls.key --store /var/lib/calico-probe

  # validate the configuration file
  calico-probe serve --config serve.yaml --check-config`

func (a *app) serve() *cobra.Command {
	opts := examine.Options{
		FailOn: examine.FailOnFail, Profile: string(probe.Standard), Timeout: alerts.DefaultLimits().Run,
	}
	o := &serveOptions{runFlags: &runFlags{app: a, Options: opts}}
	cmd := &cobra.Command{
		Use: "serve", Short: "Receive alerts from Alertmanager and examine their nodes", Example: serveExample, Args: noArguments,
		Long: `Receives Alertmanager's webhook at ` + alerts.PathAlerts + `. For each alert it executes a runbook
or a plain run on the alert's node. If the alert is sent repeatedly, each procedure still runs
only once for each node. The result is an event on the node, a report on the server's page, and
a metric. 'serve' does not repair anything. See docs/alerts.md.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			routes, err := o.routes()
			if err != nil {
				return err
			}
			if o.checkConfig {
				_, err := fmt.Fprintf(a.Out, "%s: valid, %d routes\n", o.config, len(routes.Spec.Routes))
				return err
			}
			collectEarly()
			return o.takeAlerts(cmd.Context(), routes)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", ":8080", "address to listen on")
	f.StringVar(&o.health, "health-listen", ":8081", "address of /healthz and /readyz, over plain HTTP without authentication; it serves nothing else")
	f.StringVar(&o.store, "store", "", "folder for jobs and reports, where queued jobs survive a restart")
	f.StringVar(&o.external, "external-url", "", "public URL of this server, http(s)://HOST[/PATH]; events on nodes then link to the report")
	f.StringVar(&o.config, "config", "", "file with the routes from alerts to runbooks, and the limits (default: the alerts that runbooks declare, and the limits in docs/alerts.md)")
	folders(cmd, &o.dirs)
	f.BoolVar(&o.checkConfig, "check-config", false, "validate --config and exit")
	f.StringVar(&o.access.TokenFile, "token-file", "", "file with the accepted bearer tokens, one per line; reloaded when it changes")
	f.StringVar(&o.access.ReadTokenFile, "read-token-file", "", "file with bearer tokens for read-only access to reports and metrics; need not exist at the start")
	f.StringVar(&o.access.ClientCA, "client-ca", "", "accept only clients with a certificate from this CA; with --token-file, clients need a certificate and a token")
	f.StringVar(&o.access.Cert, "tls-cert", "", "the server's certificate; reloaded when it changes")
	f.StringVar(&o.access.Key, "tls-key", "", "the key of --tls-cert")
	f.BoolVar(&o.insecure, "insecure-http", false, "accept tokens without TLS on a non-loopback address, where others on the network can read and use them")
	f.StringVar(&o.logFormat, "log-format", "text", "format of the log on stderr: text or json")
	o.placing(cmd, injector.PersonNames()...)
	a.connecting(cmd)
	return cmd
}

// check rejects invalid flags.
func (o *serveOptions) check() error {
	switch {
	case o.checkConfig && o.config == "":
		return ui.BadUsage("--check-config needs a configuration file: set --config")
	case o.external != "" && !reachedAt(o.external):
		return badExternalURL()
	case o.logFormat != "text" && o.logFormat != "json":
		return ui.BadUsage("--log-format takes text or json")
	case o.checkConfig:
		return nil
	case o.store == "":
		return ui.BadUsage("no folder for jobs and reports: set --store, because accepted alerts must survive a restart")
	}
	for method := range strings.SplitSeq(o.Via, ",") {
		if !worksInPod(method) {
			return ui.BadUsage("--via %s does not work in a pod, or is only for interactive use: use %s", method, viaOfServe())
		}
	}
	if err := o.checkListeners(); err != nil {
		return err
	}
	if err := o.checkAccess(); err != nil {
		return err
	}
	return o.Validate()
}

// checkAccess rejects flags that would allow access without authentication, and incomplete pairs of flags.
func (o *serveOptions) checkAccess() error {
	a := o.access
	switch {
	case a.TokenFile == "" && a.ReadTokenFile != "":
		return ui.BadUsage("--read-token-file only allows reading: set --token-file too, for clients that post alerts")
	case a.TokenFile == "" && a.ClientCA == "":
		return ui.BadUsage("no authentication is configured: set --token-file, or --client-ca with --tls-cert and --tls-key")
	case (a.Cert == "") != (a.Key == ""):
		return ui.BadUsage("--tls-cert and --tls-key belong together: set both, or neither")
	case a.ClientCA != "" && a.Cert == "":
		return ui.BadUsage("--client-ca needs TLS: set --tls-cert and --tls-key too")
	case a.Cert == "" && !o.insecure && !isLoopback(o.listen):
		return ui.BadUsage("tokens would be sent to %s without TLS, readable on the network: "+
			"set --tls-cert and --tls-key, --listen on 127.0.0.1, or add --insecure-http", o.listen)
	}
	return nil
}

// checkListeners rejects invalid and duplicate addresses.
func (o *serveOptions) checkListeners() error {
	host, port, err := listened("--listen", o.listen)
	if err != nil {
		return err
	}
	healthHost, healthPort, err := listened("--health-listen", o.health)
	if err != nil {
		return err
	}
	all := func(host string) bool {
		at, err := netip.ParseAddr(host)
		return host == "" || err == nil && at.IsUnspecified()
	}
	if port == healthPort && port != 0 && (host == healthHost || all(host) || all(healthHost)) {
		return ui.BadUsage("--listen %s and --health-listen %s are the same address: give --health-listen another port",
			o.listen, o.health)
	}
	return nil
}

// listened splits the address of a listener.
func listened(flag, at string) (host string, port int, err error) {
	host, name, err := net.SplitHostPort(at)
	if err == nil && name != "" {
		port, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", name)
	}
	if err != nil || name == "" {
		return "", 0, ui.BadUsage("%s takes HOST:PORT, or :PORT for every address of this machine; %q is neither", flag, at)
	}
	return host, port, nil
}

// isLoopback reports whether a listening address is reachable from this machine only.
func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	at, bad := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || bad == nil && at.Unmap().IsLoopback())
}

// routes returns the routes in the configuration file, or else the routes that runbooks declare. It also sets the
// server's limits.
func (o *serveOptions) routes() (alerts.Routes, error) {
	log := o.logger()
	var err error
	o.books, err = startable(o.dirs, func(name, why string) {
		log.Warn("no alert can start a runbook", "runbook", name, "why", why)
	})
	if err != nil {
		return alerts.Routes{}, err
	}
	var routes alerts.Routes
	if o.config != "" {
		b, err := os.ReadFile(o.config)
		if err != nil {
			return alerts.Routes{}, ui.BadUsage("%w", err)
		}
		if routes, err = alerts.ParseRoutes(b, slices.Sorted(maps.Keys(o.books)), examine.ProfileNames()); err != nil {
			return alerts.Routes{}, ui.BadUsage("%s: %w", o.config, err)
		}
	}
	if len(routes.Spec.Routes) == 0 {
		own, err := routesOf(o.books)
		if err != nil {
			return alerts.Routes{}, err
		}
		if o.config == "" {
			routes = own
		}
		routes.Spec.Routes = own.Spec.Routes
	}
	limits := routes.Spec.Limits
	o.Timeout, o.StartTimeout, o.CheckTimeout, o.Baselines = limits.Run, limits.Start, limits.Check, limits.Peers
	return routes, nil
}

func (o *serveOptions) logger() *slog.Logger {
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(o.ErrOut, nil))
	}
	return slog.New(slog.NewTextHandler(o.ErrOut, nil))
}

// trustPublicCAs trusts the embedded public CAs if the system has no CAs. The image that runs 'serve' has no CAs, and a
// runbook may send notifications over HTTPS. Other verbs trust the CAs of their machine. Call it at most once: x509
// panics the second time.
func trustPublicCAs() error {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		switch {
		case err != nil:
			return fmt.Errorf("reading the public CAs: %w", err)
		case root.Constraint != nil: // distrusted for certificates after a date
			pool.AddCertWithConstraint(cert, root.Constraint)
		default:
			pool.AddCert(cert)
		}
	}
	x509.SetFallbackRoots(pool)
	return nil
}

// takeAlerts serves until the context ends.
func (o *serveOptions) takeAlerts(ctx context.Context, routes alerts.Routes) error {
	log := o.logger()
	if err := trustPublicCAs(); err != nil {
		return err
	}
	var err error
	if o.client, err = o.app.unattended(); err != nil {
		return err
	}
	if o.asks, err = o.chosen(); err != nil {
		return err
	}
	reading, err := o.client.Reader()
	if err != nil {
		return err
	}
	writing, err := o.client.Writer()
	if err != nil {
		return err
	}
	names := &nodeNames{read: reading.NodeNames}
	teller := injector.NewEventWriter(writing)
	server, err := alerts.New(o.store, routes, routes.Spec.Limits, o.access, alerts.Cluster{
		Node: names.of, PodNode: reading.PodNode,
		Look: func(ctx context.Context, job alerts.Job, folder string) (alerts.Report, error) {
			return o.look(ctx, log, job, folder)
		},
		Tell: func(ctx context.Context, job alerts.Job) (bool, error) {
			reason, note := eventOf(job, o.external)
			bad := job.Verdict == alerts.Fault || job.Verdict == alerts.Incomplete
			return tellEach(job, func(id, node string) (bool, error) { return teller.Write(ctx, id, node, bad, reason, note) })
		},
		Page: storedPage,
	}, log)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }() // the process ends anyway
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	health, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.health)
	if err != nil {
		return fmt.Errorf("listening: %w", errors.Join(err, listener.Close()))
	}
	log.Info("serving", "address", listener.Addr().String(), "health", health.Addr().String(), "version",
		probe.Release, "routes", len(routes.Spec.Routes), "store", o.store)
	return server.Serve(ctx, listener, health)
}

// look does an alert's work: a runbook, a run over many nodes, or a plain run.
func (o *serveOptions) look(ctx context.Context, log *slog.Logger, job alerts.Job,
	folder string) (alerts.Report, error) {
	client := o.client.Writing(logged{log.With("job", job.ID)})
	run := o.Options
	if run.Via == examine.ViaAuto {
		run.Via = viaInPod()
	}
	run.Node, run.Profile = job.Node, job.Procedure.Profile
	run.Reason = "alert " + probe.OneLine(job.Alerts[0].Name) + ", job " + job.ID
	if job.Procedure.Many {
		return o.lookAtMany(ctx, client, run, job)
	}
	if job.Procedure.Runbook != "" {
		run.Profile = string(probe.Standard) // for runs without a profile
		return o.follow(ctx, log, client, run, job, folder)
	}
	return plainRun(ctx, client, run)
}

// firstOf summarizes a run in one line.
func firstOf(run report.Run) string {
	if len(run.Causes) > 0 {
		c := run.Causes[0]
		says, fix := probe.Cut(probe.OneLine(strings.TrimSpace(c.ID+" "+c.About)+": "+c.Says), 400), probe.OneLine(c.Fix.Says)
		if first, _, more := strings.Cut(fix, ". "); more {
			fix = first + "."
		}
		if fix != "" {
			says += "; fix: " + probe.Cut(fix, 190)
		}
		return says
	}
	var bad, odd []string
	for _, ev := range run.Events {
		if r := ev.Result; r != nil && ev.Node == run.Node && (r.Status == probe.Fail || r.Status == probe.Unknown) &&
			!slices.Contains(bad, r.Check) {
			bad = append(bad, r.Check)
		} else if r != nil && ev.Node == run.Node && r.Status == probe.Warn && !slices.Contains(odd, r.Check) {
			odd = append(odd, r.Check)
		}
	}
	if len(bad) > 0 {
		return "no known cause; failed or unknown: " + strings.Join(bad, ", ")
	}
	if len(odd) > 0 {
		return "nothing is wrong; warnings: " + strings.Join(odd, ", ")
	}
	return ""
}

// The reasons in the events on nodes. They must not change, because alerts on events match them.
const (
	reasonFault      = "CalicoProbeFault"
	reasonHealthy    = "CalicoProbeHealthy"
	reasonIncomplete = "CalicoProbeIncomplete"
)

// maxURL leaves room for the rest of an event's message, which has at most 1 KiB.
const maxURL = 200

// reachedAt reports whether text is a URL to which a report's path can be appended.
func reachedAt(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= maxURL && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

func badExternalURL() error {
	return ui.BadUsage("--external-url takes http(s)://HOST[/PATH] of at most %d characters", maxURL)
}

// eventOf returns the reason and the message for a job's event on a node. The message contains the cause, which may be
// truncated, and then the report's URL. external is the server's public URL, if known.
func eventOf(job alerts.Job, external string) (reason, note string) {
	reason = map[string]string{alerts.Fault: reasonFault, alerts.Incomplete: reasonIncomplete}[job.Verdict]
	says := probe.Cut(job.Says, 600)
	switch {
	case says == "" && job.Verdict == alerts.Healthy:
		says = "nothing is wrong"
	case says == "":
		says = "see the report"
	}
	at := "/reports/" + job.ID + " of calico-probe serve"
	if external != "" {
		at = strings.TrimSuffix(external, "/") + "/reports/" + job.ID
	}
	return cmp.Or(reason, reasonHealthy), fmt.Sprintf("%s: %s (alert %s; report: %s)", job.Verdict, says, probe.Cut(probe.OneLine(job.Alerts[0].Name), 100), at)
}

// logged forwards a run's messages to the log.
type logged struct{ log *slog.Logger }

func (l logged) Write(b []byte) (int, error) {
	l.log.Info(strings.TrimPrefix(probe.OneLine(string(b)), "calico-probe: "))
	return len(b), nil
}
