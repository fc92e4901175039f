package kubeletproxy

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/suite"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/logs"
	"github.com/calico-probe/calico-probe/probe/must"
)

// proxied is the path of node-b's kubelet at a test's API server.
const proxied = "/api/v1/nodes/node-b/proxy"

// fakeKubelet is a fake kubelet that answers like kubelet v1.36.4, with recorded texts for all but its files.
type fakeKubelet struct {
	root  string            // it serves /var/log below it, with net/http like a kubelet
	lines map[string]string // of node log query, by the first requested service; nil = it is off
	paths map[string]string // answers to other paths
	codes map[string]int    // status codes other than 200
	now   time.Time         // its clock
}

// ServeHTTP is the API server's proxy and the kubelet behind it.
func (s *fakeKubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, proxied)
	if !s.now.IsZero() {
		w.Header().Set("Date", s.now.UTC().Format(http.TimeFormat))
	}
	text, ok := s.paths[path]
	switch query := r.URL.Query()["query"]; {
	case ok:
		if strings.HasPrefix(text, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		if code := s.codes[path]; code != 0 {
			w.WriteHeader(code)
		}
		fmt.Fprint(w, text)
	case s.lines != nil && len(query) > 0 && path == "/logs/":
		w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
		if r.URL.Query().Has("sinceTime") { // as journalctl of systemd 252 treats tailLines in this case
			fmt.Fprint(w, "the first lines since then, not the last\n")
			return
		}
		text, ok := s.lines[query[0]]
		if !ok {
			text = fmt.Sprintf("\noptions present and query resolved to log files for %v\ntry without specifying options\n", query)
		}
		fmt.Fprint(w, text)
	case strings.HasPrefix(path, "/logs/"):
		http.StripPrefix(proxied+"/logs/", http.FileServer(http.Dir(filepath.Join(s.root, "var/log")))).ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// connect returns a client of a fake kubelet.
func connect(t *testing.T, h http.Handler) *Kubelet {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	client := *server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Kubelet{Client: &client, URL: server.URL + proxied}
}

// ask returns the kubelet's answers to one check.
func (k *Kubelet) ask(t *testing.T, c *probe.Check, targets ...probe.Target) []probe.Result {
	t.Helper()
	ahead, err := k.Greet(t.Context())
	if err != nil && k.left() > 0 {
		t.Fatal(err)
	}
	var got []probe.Result
	r := probe.Runner{Suite: k.Checks(), Host: &probe.Host{Node: "node-b", Only: []string{}, Ahead: ahead}}
	r.Run(t.Context(), probe.Plan{Checks: []string{c.ID}, Targets: targets}, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
	})
	return got
}

// nodeAndKubelet is a node's root with files, and a kubelet that serves its logs.
func nodeAndKubelet(t *testing.T, files map[string]string) (*probe.Host, *fakeKubelet) {
	t.Helper()
	h := checktest.Node(t, files)
	return h, &fakeKubelet{root: h.Root, paths: map[string]string{"/healthz": "ok"}, codes: map[string]int{}}
}

// inCalicosForm is a line of calico-node's log of this age.
func inCalicosForm(ago time.Duration, level, text string) string {
	at := time.Now().Add(-ago).UTC()
	own := at.Format("2006-01-02 15:04:05.000")
	return fmt.Sprintf("%s stdout F %s [%s][9] %s\n", at.Format(time.RFC3339Nano), own, level, text)
}

// ages matches ages, which depend on the time of the request.
var ages = regexp.MustCompile(`\d+s ago`)

// TestKubeletIDs expects a check for each ID that a kubelet can answer.
func TestKubeletIDs(t *testing.T) {
	t.Parallel()
	suite := suite.Node()
	for id := range byKubelet {
		if !slices.ContainsFunc(suite, func(c *probe.Check) bool { return c.ID == id }) {
			t.Errorf("a kubelet is queried for %q, which is the ID of no check", id)
		}
	}
}

// TestKubeletSaysTheSame expects a kubelet and a probe on the node to give the same answers from the same files.
func TestKubeletSaysTheSame(t *testing.T) {
	t.Parallel()
	const folder = "kube-system_calico-node-x_uid"
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339Nano) }
	klog := time.Now().UTC().Format("0102 15:04:05.000000")
	long := strings.Repeat(ago(20*time.Second)+" stderr F "+strings.Repeat("x", 180)+"\n", 4000) // more than a tail
	h, fake := nodeAndKubelet(t, map[string]string{
		"var/log/kubelet.log":                           "E" + klog + "       7 " + checktest.KubeletStalled + "\n",
		"var/log/containerd.log":                        fmt.Sprintf("time=%q level=error msg=\"RunPodSandbox failed\"\n", ago(4*time.Second)),
		"var/log/pods/" + folder + "/calico-node/0.log": inCalicosForm(90*time.Second, "FATAL", "felix/daemon.go 1: Kernel's RPF check is set to 'loose'"),
		"var/log/pods/" + folder + "/calico-node/1.log": inCalicosForm(2*time.Second, "INFO", "felix/daemon.go 2: Felix starting up"),
		"var/log/pods/" + folder + "/install-cni/0.log": long + inCalicosForm(9*time.Second, "FATAL",
			`cni-installer/install.go 475: Unable to create token error=x is forbidden: User "system:serviceaccount:kube-system:calico-node" cannot create resource "serviceaccounts/token" in API group "" password=hunter2`),
		"var/log/pods/" + folder + "/upgrade-ipam/0.log":             "",
		"var/log/pods/kube-system_kube-proxy-y_uid/kube-proxy/0.log": ago(5*time.Second) + " stderr F E" + klog + `       1 server.go:560] "Error running ProxyServer" err="x"` + "\n",
	})
	targets := []probe.Target{
		{Kind: probe.KindCalico, Attrs: map[string]string{
			probe.AttrLogs: folder, probe.AttrAccount: "kube-system:calico-node"}},
		{Kind: probe.KindLogs, Name: "kube-proxy", Attrs: map[string]string{probe.AttrLogs: "kube-system_kube-proxy-y_uid"}},
	}
	k := connect(t, fake)
	for _, c := range []*probe.Check{logs.DaemonLog, logs.CalicoLog, logs.CalicoErrors, logs.KubeLog} {
		there, here := k.ask(t, c, targets...), checktest.Run(t, c, h, targets...)
		for _, got := range [][]probe.Result{there, here} {
			for i := range got {
				got[i].Elapsed = 0
				got[i].Saw = ages.ReplaceAllString(got[i].Saw, "some seconds ago")
			}
			slices.SortFunc(got, func(a, b probe.Result) int { return strings.Compare(a.Target, b.Target) })
		}
		if len(here) == 0 || here[0].Status == probe.Skip || !reflect.DeepEqual(there, here) {
			t.Errorf("%s: the kubelet reports\n%+v\nthe node\n%+v", c.ID, there, here)
		}
		if text := fmt.Sprint(there); strings.Contains(text, "hunter2") {
			t.Errorf("a secret is reported: %s", text)
		}
	}
}

// TestKubeletsJournal reads journalctl's lines if the kubelet serves them, else parts of the journal's own file.
func TestKubeletsJournal(t *testing.T) {
	t.Parallel()
	line := func(ago time.Duration, by, text string) string {
		return time.Now().Add(-ago).UTC().Format("Jan 02 15:04:05.000000") + " node-b " + by + ": " + text + "\n"
	}
	h, fake := nodeAndKubelet(t, map[string]string{"var/log/x.log": ""})
	fake.lines = map[string]string{
		"kubelet": "-- Boot 0123456789abcdef0123456789abcdef --\n" + line(20*time.Second, "systemd[1]", "Started kubelet.service - kubelet.") +
			line(8*time.Second, "kubelet[7]", "E1122 12:00:00.000000       7 "+checktest.KubeletSwap) +
			"                and goes on\n" + line(7*time.Second, "systemd[1]", checktest.Exited),
		"docker": line(5*time.Second, "crio[8]", `time="x" level=error msg="odd"`),
	}
	k := connect(t, fake)
	got := k.ask(t, logs.DaemonLog)
	r := checktest.Want(t, got, logs.ServiceKubelet, probe.Fail, "it exited with: run.go:72]", "swap on is not supported")
	if r.Facts.Str(logs.FactSignature) != logs.FaultSwapOn || r.Facts[logs.FactByTag] != nil ||
		r.Facts[logs.FactEnded] != true {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Want(t, got, logs.ServiceCRIO, probe.Info, "odd")

	// On a node without node log query: the file is as old as its lines.
	fake.lines = nil
	folder := filepath.Join(h.Root, "var/log/journal/0123456789abcdef0123456789abcdef")
	must.Do(t, os.MkdirAll(folder, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(folder, "system.journal"),
		checktest.RecordedJournal(t, "../../probe/journal/testdata", "compact"), 0o600))
	fake.now = time.Unix(1795348808+10, 0)
	got = k.ask(t, logs.DaemonLog)
	r = checktest.Want(t, got, logs.ServiceKubelet, probe.Fail)
	if r.Facts.Str(logs.FactSignature) != logs.FaultBadSetting || r.Facts[logs.FactByTag] != nil {
		t.Errorf("%+v", r)
	}
	if files, lines := k.OffersLogs(t.Context()); files != nil || !errors.Is(lines, probe.ErrNotVisible) {
		t.Errorf("%v, %v", files, lines)
	}
}

// TestKubeletOffers checks that missing endpoints are reported, and never as healthy.
func TestKubeletOffers(t *testing.T) {
	t.Parallel()
	_, fake := nodeAndKubelet(t, map[string]string{"var/log/x.log": ""})
	k := connect(t, fake)
	checktest.Want(t, k.ask(t, logs.DaemonLog), "", probe.Skip, "node log query is off on this kubelet")
	fake.lines = map[string]string{}
	checktest.Want(t, k.ask(t, logs.DaemonLog), "", probe.Skip, "finds no such service in the journal")
	fake.paths["/logs/"], fake.codes["/logs/"] = "logs endpoint is disabled.\n", http.StatusMethodNotAllowed
	if files, _ := k.OffersLogs(t.Context()); !errors.Is(files, probe.ErrNotVisible) {
		t.Errorf("%v", files)
	}
	checktest.Want(t, k.ask(t, logs.DaemonLog), "", probe.Skip, "logs endpoint is disabled")
	fake.paths["/stats/summary"], fake.codes["/stats/summary"] = "Forbidden (user=kube-apiserver, verb=get, resource=nodes, subresource=stats)", http.StatusForbidden
	checktest.Want(t, k.ask(t, host.NodeMemory), "", probe.Skip, "user=kube-apiserver")
	fake.codes["/stats/summary"] = http.StatusInternalServerError
	checktest.Want(t, k.ask(t, host.NodeDisk), "", probe.Unknown, "500 to /stats/summary")
	fake.paths["/metrics/cadvisor"], fake.paths["/healthz"] = kubeletMetrics, "ok"
	checktest.Want(t, k.ask(t, host.NodeDisk), "/dev/vda", probe.Warn, "4 % of")
	checktest.Want(t, k.ask(t, kubelet.KubeletHealth), "stats", probe.Info, "500 to /stats/summary")
	fake.paths["/healthz"], fake.codes["/healthz"] = "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n", http.StatusInternalServerError
	checktest.Want(t, k.ask(t, kubelet.KubeletHealth), "healthz", probe.Fail, "[-]syncloop failed: reason withheld")
	for text, code := range map[string]int{
		`{"kind":"Status","message":"nodes \"node-b\" is forbidden: User \"jane\" cannot get resource \"nodes/proxy\""}`:                                  http.StatusForbidden,
		`{"kind":"Status","message":"error trying to reach service: dial tcp 10.0.0.2:10250: connect: connection refused","reason":"ServiceUnavailable"}`: http.StatusServiceUnavailable,
	} {
		fake.paths["/healthz"], fake.codes["/healthz"] = text, code
		_, err := k.Greet(t.Context())
		if e, ok := errors.AsType[*KubeletError](err); !ok || !e.ByAPI || e.Code != code || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// TestKubeletsStats judges memory, swap and disks with the functions of the node's own checks.
func TestKubeletsStats(t *testing.T) {
	t.Parallel()
	_, fake := nodeAndKubelet(t, nil)
	summary := func(node string) { fake.paths["/stats/summary"] = `{"node":{` + node + `},"pods":[]}` }
	k := connect(t, fake)
	summary(`"memory":{"availableBytes":94371840,"workingSetBytes":8000000000},"swap":{"swapAvailableBytes":2000000000,"swapUsageBytes":0},` +
		`"fs":{"availableBytes":5,"capacityBytes":100,"inodesFree":50,"inodes":100},"runtime":{"imageFs":{"availableBytes":12,"capacityBytes":100,"inodesFree":50,"inodes":100}}`)
	fake.paths["/configz"] = `{"kubeletconfig":{"failSwapOn":true}}`
	r := checktest.Want(t, k.ask(t, host.NodeMemory), "", probe.Fail, "0.1 of 8.1 GB available")
	if r.Facts[host.FactAvailable] != uint64(94371840) {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Want(t, k.ask(t, host.NodeSwap), "", probe.Fail, "swap is on, and the kubelet does not start with swap: 2.0 GB of swap")
	got := k.ask(t, host.NodeDisk, probe.Target{Kind: probe.KindRuntime, Name: "cri-o://1.30"})
	if r = checktest.Want(t, got, "/var/lib/kubelet", probe.Fail, "5 % of"); r.Facts[host.FactReadOnly] != nil {
		t.Errorf("read-only is unknown: %+v", r.Facts)
	}
	checktest.Want(t, got, "/var/lib/containers", probe.Warn, "12 % of")
	fake.paths["/configz"] = `{"kubeletconfig":{"failSwapOn":false}}`
	checktest.Want(t, k.ask(t, host.NodeSwap), "", probe.Info, "the kubelet accepts it")
	delete(fake.paths, "/configz")
	checktest.Want(t, k.ask(t, host.NodeSwap), "", probe.Warn, "the kubelet's failSwapOn is not visible", "404 to /configz")
	summary(`"swap":{"swapAvailableBytes":0,"swapUsageBytes":0},"fs":{"capacityBytes":0}`)
	checktest.Want(t, k.ask(t, host.NodeSwap), "", probe.Info, "no swap now; this access method cannot see whether a reboot enables it")
	checktest.Want(t, k.ask(t, host.NodeMemory), "", probe.Unknown, "does not report")
	checktest.Want(t, k.ask(t, host.NodeDisk), "/var/lib/kubelet", probe.Unknown, "does not report")
	summary("")
	checktest.Want(t, k.ask(t, host.NodeSwap), "", probe.Skip, "does not report")
	fake.paths["/stats/summary"] = "{"
	checktest.Want(t, k.ask(t, host.NodeMemory), "", probe.Unknown, "reading /stats/summary")
}

// TestKubeletIsHostile checks that a lying kubelet affects only its own answers.
func TestKubeletIsHostile(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	t.Cleanup(elsewhere.Close)
	wrong := map[string]http.HandlerFunc{
		"leads elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"never ends": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for line := []byte(strings.Repeat(`<a href="../../../etc/">x</a><a href="%2e%2e">x</a><a href="%0a">`, 400)); ; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		},
		"another part": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 999999-9/5")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "x")
		},
		"steers": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "\x1b]0;x\x07\x1b[2J password=hunter2", http.StatusTeapot)
		},
	}
	for name, answer := range wrong {
		k := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/healthz") {
				fmt.Fprint(w, "ok")
				return
			}
			answer(w, r)
		}))
		for range 4 {
			for _, c := range k.Checks() {
				if c.ID == kubelet.KubeletHealth.ID {
					continue
				}
				of := probe.Target{Kind: probe.KindCalico, Attrs: map[string]string{probe.AttrLogs: "x"}}
				for _, r := range k.ask(t, c, of) {
					if r.Status != probe.Unknown && r.Status != probe.Skip || strings.ContainsAny(r.Saw, "\x1b\x07") ||
						strings.Contains(r.Saw, "hunter2") {
						t.Errorf("%s: %s: %+v", name, c.ID, r)
					}
				}
			}
		}
		if k.read > maxTotal+int64(len(byKubelet)) {
			t.Errorf("%s: %d bytes were read", name, k.read)
		}
	}
}

// kubeletMetrics are some of /metrics/cadvisor, of kubelet v1.36.4.
const kubeletMetrics = "# HELP x\n" +
	`container_fs_inodes_free{container="",device="/dev/vda",id="/",image="",name="",namespace="",pod=""} 1.5900424e+07 1795622546843` + "\n" +
	`container_fs_inodes_total{container="",device="/dev/vda",id="/",image="",name="",namespace="",pod=""} 1.6777216e+07 1795622546843` + "\n" +
	`container_fs_limit_bytes{container="",device="/dev/vda",id="/",image="",name="",namespace="",pod=""} 2.70553174016e+11 1795622546843` + "\n" +
	`container_fs_limit_bytes{container="",device="/dev/loop3",id="/",image="",name="",namespace="",pod=""} 1 1795622546843` + "\n" +
	`container_fs_limit_bytes{container="",device="tmpfs",id="/",image="",name="",namespace="",pod=""} 1 1795622546843` + "\n" +
	`container_fs_usage_bytes{container="",device="/dev/vda",id="/",image="",name="",namespace="",pod=""} 2.6e+11 1795622546843` + "\n" +
	`container_fs_usage_bytes{container="x",device="/dev/vda",id="/kubepods/x",image="",name="",namespace="a",pod="b"} 7 1795622546843` + "\n" +
	`container_memory_working_set_bytes{container="",id="/",image="",name="",namespace="",pod=""} 3.4762752e+08 1795622546843` + "\n" +
	`machine_memory_bytes{boot_id="x",machine_id="y",system_uuid="z"} 2.5276510208e+10` + "\n" +
	`machine_swap_bytes{boot_id="x",machine_id="y",system_uuid="z"} 0` + "\n"

// TestKubeletKeepsSilent checks that the time of an answer is limited, and that the error names the request. If only
// requests that need the container runtime hang, as in kubelet v1.36.4 with containerd stopped, its metrics are read.
func TestKubeletKeepsSilent(t *testing.T) {
	t.Parallel()
	silent := func(answers map[string]string) *Kubelet {
		return connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if text, ok := answers[strings.TrimPrefix(r.URL.Path, proxied)]; ok {
				fmt.Fprint(w, text)
				return
			}
			<-r.Context().Done()
		}))
	}
	began := time.Now()
	checktest.Want(t, silent(map[string]string{"/healthz": "ok"}).ask(t, host.NodeDisk), "", probe.Unknown, "no answer to /stats/summary within 5s",
		"container runtime for it, which may hang")
	if took := time.Since(began); took > 2*kubeletLimit+2*time.Second {
		t.Errorf("it took %v", took)
	}
	k := silent(map[string]string{"/healthz": "ok", "/metrics/cadvisor": kubeletMetrics,
		"/configz": `{"kubeletconfig":{}}`})
	var got []probe.Result
	r := probe.Runner{Suite: k.Checks(), Host: &probe.Host{Only: []string{}}}
	all := []string{kubelet.KubeletHealth.ID, host.NodeDisk.ID, host.NodeMemory.ID, host.NodeSwap.ID}
	r.Run(t.Context(), probe.Plan{Checks: all}, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
	})
	checktest.Want(t, got, probe.TargetRuntime, probe.Warn, "the kubelet answers", "take longer than 5s")
	checktest.Want(t, got, "healthz", probe.OK)
	checktest.Want(t, got, "/dev/vda", probe.Warn, "4 % of 270.6 GB free, 95 % of the inodes")
	checktest.Want(t, got, "", probe.OK, "24.9 of 25.3 GB available")
	checktest.Want(t, got, "", probe.Info, "no swap now")
	if len(got) != 6 {
		t.Errorf("%+v", got)
	}
}
