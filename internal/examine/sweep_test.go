package examine

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// failures are the ways in which one call of the API fails. Each answers the call in place of the server.
var failures = map[string]func(w http.ResponseWriter, r *http.Request, answer http.Handler){
	"500": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcdserver: leader changed","code":500}`)
	},
	"429": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	},
	"cut": func(w http.ResponseWriter, r *http.Request, answer http.Handler) {
		whole := httptest.NewRecorder()
		answer.ServeHTTP(whole, r)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
		if f, is := w.(http.Flusher); is {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	},
	"silent": func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees the connection end
		<-r.Context().Done()
	},
}

// sweeping answers as a server does, counts the calls by what they ask, and fails one of them.
type sweeping struct {
	answer http.Handler
	fail   string // the call that fails, "" = none
	by     string // how
	mu     sync.Mutex
	calls  map[string]int
	failed bool
}

func (s *sweeping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	asked := r.Method + " " + r.URL.String()
	s.calls[asked]++
	call := fmt.Sprintf("%s #%d", asked, s.calls[asked])
	now := call == s.fail && !s.failed
	s.failed = s.failed || now
	s.mu.Unlock()
	if now {
		failures[s.by](w, r, s.answer)
		return
	}
	s.answer.ServeHTTP(w, r)
}

// all are the calls there were, each with which of its kind it was.
func (s *sweeping) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, asked := range slices.Sorted(maps.Keys(s.calls)) {
		for i := range s.calls[asked] {
			out = append(out, fmt.Sprintf("%s #%d", asked, i+1))
		}
	}
	return out
}

// swept is the result of a run by the API alone, for one world.
type swept struct {
	worst   map[string]probe.Status // of each check
	says    map[string]string
	targets map[string][]string // for the probe, by their kind
	gaps    map[string]string
	causes  []string
}

// weight orders statuses by how bad the news is: unknown is worse than a warning, as in a verdict.
func weight(s probe.Status) int {
	return slices.Index([]probe.Status{probe.OK, probe.Warn, probe.Unknown, probe.Fail}, s)
}

// sweep reads the API of a world once, of which one call may fail; nil where it cannot be read at all.
func (s *sweeping) sweep(t *testing.T, limit time.Duration) *swept {
	server := httptest.NewServer(s)
	defer server.Close()
	defer server.CloseClientConnections()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	client, err := cluster.NewClient(&rest.Config{Host: server.URL}, "")
	if err != nil {
		t.Error(err)
		return nil
	}
	snap, err := client.Read(ctx, "alder")
	if err != nil {
		return nil
	}
	out := &swept{worst: map[string]probe.Status{}, says: map[string]string{}, targets: map[string][]string{}}
	seen := diagnose.Findings{Node: "alder"}
	suite := suiteapi.Checks(snap)
	runner := probe.Runner{Suite: suite, Host: &probe.Host{Node: "alder"}}
	runner.Run(t.Context(), probe.Plan{Node: "alder", Checks: CheckIDs(suite)}, func(ev probe.Event) {
		r := ev.Result
		if r == nil {
			return
		}
		ev.Node = "alder"
		seen.Add(ev)
		status := r.Status
		if status == probe.Info || status == probe.Skip {
			status = probe.OK
		}
		if was, is := out.worst[r.Check]; !is || weight(status) > weight(was) {
			out.worst[r.Check], out.says[r.Check] = status, r.Target+": "+r.Saw
		}
	})
	targets, gaps := cluster.Targets(snap)
	out.gaps = gaps
	for _, target := range targets {
		out.targets[target.Kind] = append(out.targets[target.Kind], target.String())
	}
	for _, c := range diagnose.Explain(seen, cause.All()).Causes {
		out.causes = append(out.causes, c.ID)
	}
	return out
}

// brokenWorld is a world with a fault that the API alone shows, and the check that reports it.
type brokenWorld struct {
	check  string
	change func(*world)
}

func brokenWorlds() []brokenWorld {
	return slices.Concat(brokenNodes(), brokenCalico())
}

func brokenNodes() []brokenWorld {
	return []brokenWorld{
		{facts.CheckNodeReady, func(w *world) { w.notReady(0, corev1.ConditionFalse) }},
		{facts.CheckNodeTaints, func(w *world) {
			w.nodes[0].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}}
		}},
		{facts.CheckNodeLease, func(w *world) { w.lease = time.Hour }},
		{facts.CheckPodsStart, func(w *world) {
			for _, name := range []string{"one", "two"} {
				w.event(w.waiting(name, "alder", time.Hour, "ContainerCreating", ""), "FailedCreatePodSandBox",
					`plugin type="calico" failed (add): failed to request IPv4 addresses: no IPs available in pools`)
			}
		}},
		{facts.CheckPodsEnd, func(w *world) {
			for _, namespace := range []string{"shop", "bank"} {
				p := w.pod(namespace, "stuck", "alder", "10.244.0.60")
				p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(began(time.Hour)), new(int64(30))
				w.event(p, "FailedKillPod", `KillPodSandboxError: plugin type="calico" failed (delete): stat /var/lib/calico/nodename`)
			}
		}},
		{facts.CheckServiceClaims, func(w *world) {
			w.service("shop", "takes", nil, 10250, "10.96.9.9").Spec.ExternalIPs = []string{"10.20.0.11"}
		}},
		{facts.CheckDNSService, func(w *world) { w.services[1].behind = nil }},
		{facts.CheckWebhooks, func(w *world) {
			w.hooks = append(w.hooks, admissionv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "policy.example",
					FailurePolicy: new(admissionv1.Fail),
					ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "shop",
						Name: "gone"}},
					Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.OperationAll},
						Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}}}}}})
		}},
	}
}

func brokenCalico() []brokenWorld {
	return []brokenWorld{
		{facts.CheckCalicoPod, func(w *world) { w.calico.notOn = []string{"alder"} }},
		{facts.CheckControllers, func(w *world) {
			for i := range w.pods {
				if p := &w.pods[i]; controllersPod(*p) {
					p.Spec.NodeName, p.Status.ContainerStatuses[0].Ready = "alder", false
				}
			}
		}},
		{facts.CheckIPRegistered, func(w *world) {
			w.nodes[0].Annotations["projectcalico.org/IPv4Address"] = "10.99.0.1/24"
		}},
		{facts.CheckHostEndpoints, func(w *world) {
			w.set("hostendpoints", "alder", map[string]any{"node": "alder", "interfaceName": "*"})
		}},
		{facts.CheckDatastoreReady, func(w *world) {
			w.resources["clusterinformations"]["default"]["datastoreReady"] = false
		}},
		{facts.CheckRouteMakers, func(w *world) {
			w.calico.version = "v3.33.0"
			w.resources["clusterinformations"]["default"]["calicoVersion"] = "v3.33.0"
			w.felix(map[string]any{"programClusterRoutes": "Disabled"})
		}},
		{facts.CheckBGPPeering, func(w *world) {
			w.set("bgppeers", "odd", map[string]any{"peerSelector": "rack == (", "nodeSelector": "all()"})
		}},
		{facts.CheckIPPools, func(w *world) {
			w.set("ippools", "nodes", map[string]any{"cidr": "10.20.0.0/24", "ipipMode": "Never", "vxlanMode": "Never",
				"natOutgoing": true})
			w.block("birch", "10.20.0.0/26")
		}},
		{facts.CheckIPPools, func(w *world) {
			w.set("ippools", "services", map[string]any{"cidr": "10.96.0.0/16", "ipipMode": "Never", "vxlanMode": "Never",
				"natOutgoing": true})
			w.block("birch", "10.96.7.0/26")
		}},
		{facts.CheckIPPools, func(w *world) {
			w.services[0].behind[0].addr = "10.30.0.1"
			w.set("ippools", "old", map[string]any{"cidr": "10.30.0.0/24", "disabled": true, "natOutgoing": true})
		}},
		{facts.CheckIPPools, func(w *world) {
			for _, spec := range w.resources["ippools"] {
				spec["natOutgoing"] = false
			}
		}},
		{facts.CheckTunnelSettings, func(w *world) {
			for _, spec := range w.resources["ippools"] {
				spec["ipipMode"], spec["vxlanMode"] = "Never", "Always"
			}
			w.set("felixconfigurations", "node.alder", map[string]any{"vxlanPort": 4790})
		}},
		{facts.CheckTyphaService, func(w *world) {
			w.typha("kube-system")
			w.services[len(w.services)-1].behind = nil
		}},
	}
}

// verdict returns the worst status of all checks.
func (s *swept) verdict() probe.Status {
	return slices.MaxFunc(slices.Collect(maps.Values(s.worst)),
		func(a, b probe.Status) int { return weight(a) - weight(b) })
}

// compare lists what is wrong with an answer of which one call failed: a better verdict than that of the whole one that
// does not say that something is unknown, a check that is bad without having seen it, a new cause, and what the probe
// on the node is not asked about although nobody says why.
func (s *swept) compare(got *swept) (out []string) {
	was, is := s.verdict(), got.verdict()
	greener := weight(is) < weight(was) && weight(is) < weight(probe.Unknown)
	for check, was := range s.worst {
		switch is, asked := got.worst[check]; {
		case !asked:
			out = append(out, check+" is not asked")
		case greener && weight(is) < weight(was):
			out = append(out, fmt.Sprintf("GREENER: %s is %s, not %s: %s", check, is, was, got.says[check]))
		case weight(is) > weight(was) && is != probe.Unknown:
			out = append(out, fmt.Sprintf("worse: %s is %s, not %s: %s", check, is, was, got.says[check]))
		}
	}
	for kind, all := range s.targets {
		for _, one := range all {
			if got.gaps[kind] == "" && !slices.Contains(got.targets[kind], one) {
				out = append(out, fmt.Sprintf("lost: the probe is not asked about %s %s", kind, one))
			}
		}
	}
	for _, cause := range got.causes {
		if !slices.Contains(s.causes, cause) {
			out = append(out, "new cause: "+cause)
		}
	}
	slices.Sort(out)
	return out
}

// sweepWorlds are a healthy cluster, those that are busy and healthy, and those in which something is wrong.
func sweepWorlds() []brokenWorld {
	out := append([]brokenWorld{{"", func(*world) {}}}, brokenWorlds()...)
	for _, b := range busyClusters() {
		out = append(out, brokenWorld{"", b.change})
	}
	return out
}

// fewAlike drops calls of which there are many that ask the same.
func fewAlike(calls []string) []string {
	return slices.DeleteFunc(calls, func(call string) bool {
		_, n, _ := strings.Cut(call, " #")
		return n != "1" && n != "2"
	})
}

// TestEachCallFails lets each API call of a run fail once, in many worlds: in a healthy world in all ways, in other
// worlds some calls, in a way that takes no time. SWEEP=all tests all calls everywhere.
func TestEachCallFails(t *testing.T) {
	t.Parallel()
	ways := slices.Sorted(maps.Keys(failures))
	room := make(chan struct{}, 16)
	var all sync.WaitGroup
	var runs, met atomic.Int64
	for i, broken := range sweepWorlds() {
		server := func() http.Handler { // whose leases are new
			w := standard()
			broken.change(w)
			return w.server()
		}
		first := &sweeping{answer: server(), calls: map[string]int{}}
		whole := first.sweep(t, 15*time.Second)
		if bad := whole.worst[broken.check]; broken.check != "" && bad != probe.Fail && bad != probe.Warn {
			t.Errorf("world %d: %s is %s: %s", i, broken.check, bad, whole.says[broken.check])
		}
		for j, call := range fewAlike(first.all()) {
			by := []string{[]string{"500", "cut"}[(i+j)%2]} // which take no time
			switch {
			case os.Getenv("SWEEP") == "all" || i == 0:
				by = ways
			case (i+j)%map[bool]int{true: 12, false: 5}[broken.check == ""] != 0: // most worlds are healthy
				continue
			}
			for _, by := range by {
				room <- struct{}{}
				all.Go(func() {
					defer func() { <-room }()
					s := &sweeping{answer: server(), calls: map[string]int{}, fail: call, by: by}
					limit := map[bool]time.Duration{false: 15 * time.Second, true: 2 * time.Second}[by == "silent"]
					got := s.sweep(t, limit)
					if runs.Add(1); s.failed {
						met.Add(1)
					}
					if got == nil { // it cannot be read at all, which is exit code 1
						return
					}
					for _, text := range whole.compare(got) {
						t.Errorf("world %d (%s), %s by %s: %s", i, broken.check, call, by, text)
					}
				})
			}
		}
	}
	all.Wait()
	if t.Logf("%d runs, in %d of which the call failed", runs.Load(), met.Load()); met.Load() < runs.Load()/2 {
		t.Error("too few calls failed: this tests little")
	}
}
