//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attack keeps connections open that show no credentials, each in its own way of doing nothing,
// and opens a new one for each that is closed. It returns how often it had to so far.
func attack(t testing.TB, from, to string, count int) *atomic.Int64 {
	t.Helper()
	ways := []string{
		"", // nothing at all, not even a TLS handshake
		"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"POST /v1/alerts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n{",
		"POST /v1/alerts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + readingToken + "\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n{",
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all, begun sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	again := new(atomic.Int64)
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	begun.Add(count)
	for i := range count {
		all.Go(func() {
			done := sync.OnceFunc(begun.Done)
			defer done()
			for ctx.Err() == nil {
				if c, err := d.DialContext(ctx, "tcp", to); err == nil {
					stop := context.AfterFunc(ctx, func() { c.Close() })
					_, _ = io.WriteString(c, ways[i%len(ways)])
					done()
					_, _ = io.Copy(io.Discard, c) // until it is closed
					stop()
					c.Close()
				}
				again.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Second):
				}
			}
		})
	}
	begun.Wait()
	return again
}

// TestServeUnderIdleConnections holds 600 connections without credentials against serve, to its TLS and health ports,
// half from Alertmanager's own address. serve must answer a real Alertmanager, and enough of the kubelet's probes, with
// little memory.
func TestServeUnderIdleConnections(t *testing.T) {
	cert, key := certificate(t)
	main, health := fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	dir := t.TempDir()
	pid, _ := process(t, file("bin/calico-probe"),
		append([]string{"serve", "--listen", main, "--health-listen", health, "--store", dir, "--via", "api",
			"--read-token-file", written(t, "reading", readingToken), "--tls-cert", cert, "--tls-key", key},
			withRoutes(t, "many: 0, runsPerHour: 1000")...)...)
	_, port, _ := strings.Cut(main, ":")
	s := serving{"https://localhost:" + port, "http://" + health, trusting(t, cert)}
	s.ready(t)
	am := startAlertmanager(t, receiver(t, s.url, cert))

	var closed []*atomic.Int64
	for _, to := range []string{main, health} {
		for _, from := range []string{"127.0.0.1", "127.0.0.9"} {
			closed = append(closed, attack(t, from, to, 300))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asked, missed, slowest := 0, 0, time.Duration(0)
	asking.Go(func() { // as the kubelet does, on a connection of its own each time; it acts when three in a row are missed
		kubelet := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
		for row := 0; ctx.Err() == nil; asked++ {
			began := time.Now()
			resp, err := kubelet.Get("http://" + health + []string{"/healthz", "/readyz"}[asked%2])
			switch {
			case err == nil && resp.StatusCode != http.StatusOK:
				t.Errorf("question %d whether it lives: %v", asked, resp)
				return
			case err != nil: // from the attacker's own address, whose oldest connection may be this one
				missed++
				if row++; row == 3 {
					t.Errorf("question %d whether it lives: %v", asked, err)
					return
				}
			default:
				row = 0
				resp.Body.Close()
				slowest = max(slowest, time.Since(began))
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	for i, alert := range []string{"BGPDown", "Burst", "CalicoBGPPeerDown"} {
		am.fire(t, alert, "node="+[]string{"node-a", "node-b"}[i%2])
		eventually(t, time.Minute, func() string {
			done := 0
			for _, j := range stored(t, dir) {
				if j.State == "done" {
					done++
				}
			}
			if done != i+1 {
				return fmt.Sprintf("%d jobs are done, want %d", done, i+1)
			}
			return ""
		})
	}
	if code, text := s.get(t, "/", readingToken); code != http.StatusOK {
		t.Errorf("the page: %d %s", code, text)
	}
	m := s.metrics(t)
	cancel()
	asking.Wait()
	if m[`webhook_requests_total{code="200"}`] < 3 || m["connections_closed_total"] == 0 {
		t.Errorf("it counts %v", m)
	}
	for i, n := range closed {
		if n.Load() == 0 {
			t.Errorf("attack %d had no connection closed", i)
		}
	}
	used := resident(pid)
	t.Logf("%d questions whether it lives, %d missed, the slowest took %v; %v connections were closed for others; at most %d MiB", asked, missed, slowest, m["connections_closed_total"], used>>10)
	if asked < 10 || missed > asked/4 || used == 0 || used > mostResident {
		t.Errorf("%d questions, at most %d MiB", asked, used>>10)
	}
}

// TestServeManifests has the API server accept each flavour's manifests for serve, field by field, and checks the
// result.
func TestServeManifests(t *testing.T) {
	plugged(t)
	ctx, k := t.Context(), kube(t)
	helm, chart := file(".cache/bin/helm"), file("deploy/helm/calico-probe")
	template := func(args ...string) string {
		return ran(t, append([]string{
			helm, "template", "x", chart, "--namespace", "default", "--set", "serve.enabled=true",
		}, args...)...)
	}
	for _, c := range []struct{ name, manifests, namespace, scheme, policy string }{
		{"manifests", call(t, "manifests", "--serve", "--admit", "ops,10.0.0.0/8").stdout, "calico-probe", "https",
			"[podSelector, namespaceSelector:kubernetes.io/metadata.name=ops, ipBlock:10.0.0.0/8]"},
		{"kustomize", kubectl(t, "", "kustomize", file("deploy/kustomize/serve")), "calico-probe", "https",
			"[podSelector, namespaceSelector:kubernetes.io/metadata.name=monitoring]"},
		{"helm", template("--set", "namespace.name=e2e-serve"), "e2e-serve", "https", "[podSelector, namespaceSelector:kubernetes.io/metadata.name=monitoring]"},
		{"helm without TLS", template("--set", "namespace.name=e2e-serve,serve.insecureHTTP=true", "--set-json", "serve.admit=[]"), "e2e-serve", "http", "[podSelector]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			manifests := written(t, "manifests.yaml", c.manifests)
			kubectl(t, "", "apply", "--server-side", "--validate=strict", "-f", manifests)
			defer kubectl(t, "", "delete", "--ignore-not-found", "--timeout=2m", "-f", manifests)
			d, err := k.AppsV1().Deployments(c.namespace).Get(ctx, "calico-probe-serve", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			one := d.Spec.Template.Spec.Containers[0]
			limit := one.Resources.Limits.Memory().String()
			if one.Env[0].Name != "GOMEMLIMIT" || one.Env[0].Value != "400MiB" || limit != "512Mi" {
				t.Errorf("its memory: %v, at most %s", one.Env, limit)
			}
			if one.Ports[0].Name != c.scheme || one.LivenessProbe.HTTPGet.Port.String() != "health" ||
				one.ReadinessProbe.HTTPGet.Port.String() != "health" || one.Ports[1].Name != "health" {
				t.Errorf("its ports: %v, %v", one.Ports, one.LivenessProbe)
			}
			p, err := k.NetworkingV1().NetworkPolicies(c.namespace).Get(ctx, "calico-probe-serve", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var from []string
			for _, peer := range p.Spec.Ingress[0].From {
				switch {
				case peer.NamespaceSelector != nil:
					from = append(from, "namespaceSelector:"+metav1.FormatLabelSelector(peer.NamespaceSelector))
				case peer.IPBlock != nil:
					from = append(from, "ipBlock:"+peer.IPBlock.CIDR)
				default:
					from = append(from, "podSelector")
				}
			}
			ports := p.Spec.Ingress[0].Ports
			got := "[" + strings.Join(from, ", ") + "]"
			if got != c.policy || len(p.Spec.Ingress) != 1 || len(ports) != 1 || ports[0].Port.String() != c.scheme ||
				len(p.Spec.PolicyTypes) != 1 || p.Spec.PolicyTypes[0] != "Ingress" ||
				metav1.FormatLabelSelector(&p.Spec.PodSelector) != metav1.FormatLabelSelector(d.Spec.Selector) {
				t.Errorf("its policy admits %s at %v: %+v", got, ports, p.Spec)
			}
			for _, arg := range one.Args { // what a flag names is mounted
				if dir := filepath.Dir(arg); strings.HasPrefix(dir, "/etc/") {
					mounted := false
					for _, m := range one.VolumeMounts {
						mounted = mounted || m.MountPath == dir
					}
					if !mounted {
						t.Errorf("%s is not mounted: %v", arg, one.VolumeMounts)
					}
				}
			}
		})
	}
}
