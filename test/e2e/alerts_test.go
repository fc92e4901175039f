//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go takes no other yet
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/probe"
)

// alertsToken is the shared token of Alertmanager and serve; readingToken permits only reading.
const (
	alertsToken  = "e2e-0123456789abcdef"
	readingToken = "e2e-fedcba9876543210"
)

// freePort returns an unused port outside the kernel's ephemeral range, which begins at 32768.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10000 + mathrand.IntN(20000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port was found")
	return 0
}

// written is a file of the test with that text.
func written(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// background runs a program until the test ends, and returns what ends it at once.
func background(t testing.TB, name string, args ...string) func() {
	t.Helper()
	_, kill := process(t, name, args...)
	return kill
}

// process is background, and its number.
func process(t testing.TB, name string, args ...string) (pid int, kill func()) {
	t.Helper()
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		kill()
		if b, err := os.ReadFile(said.Name()); err == nil && t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(name), b[max(0, len(b)-20000):])
		}
		said.Close()
	})
	return cmd.Process.Pid, kill
}

// shown is the YAML that a document has behind a mark.
func shown(t testing.TB, doc, mark string) string {
	t.Helper()
	b, err := os.ReadFile(file(doc))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(b), "<!-- "+mark+" -->")
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(after)
	if !ok || block == nil {
		t.Fatalf("%s shows no %s", doc, mark)
	}
	return block[1]
}

// receiver is the configuration of Alertmanager that docs/alerts.md shows, for another
// address, whose CA is in a file, and faster.
func receiver(t testing.TB, to, ca string) string {
	t.Helper()
	config := strings.ReplaceAll("\n"+shown(t, "docs/alerts.md", "receiver"), "\n   ", "\n")
	for was, is := range map[string]string{
		"https://calico-probe-serve.calico-probe.svc:8080":    to,
		"/etc/alertmanager/secrets/calico-probe-serve/token":  written(t, "token", alertsToken),
		"/etc/alertmanager/secrets/calico-probe-serve/ca.crt": ca,
		"group_wait: 10s":    "group_wait: 1s",
		"group_interval: 1m": "group_interval: 5s",
	} {
		if !strings.Contains(config, was) {
			t.Fatalf("the receiver of docs/alerts.md has no %s:\n%s", was, config)
		}
		config = strings.ReplaceAll(config, was, is)
	}
	return config
}

// plainly is that of an address without TLS, where no CA matters.
func plainly(t testing.TB, to string) string {
	t.Helper()
	ca, _, _ := signed(t)
	return receiver(t, to, ca)
}

// alertmanager is Debian's, as a process of the test.
type alertmanager struct{ url string }

func startAlertmanager(t testing.TB, config string) alertmanager {
	t.Helper()
	am := alertmanager{fmt.Sprintf("http://127.0.0.1:%d", freePort(t))}
	name := written(t, "alertmanager.yml", config)
	if out, err := exec.Command(file(".cache/prometheus-alertmanager/usr/bin/amtool"), "check-config", name).CombinedOutput(); err != nil {
		t.Fatalf("amtool check-config: %v\n%s\n%s", err, out, config)
	}
	// Debian's Alertmanager reads templates below /usr/share. It is only unpacked, so it gets a separate /usr/share.
	unpacked := file(".cache/prometheus-alertmanager/usr")
	background(t, "unshare", "--mount", "--propagation", "private", "--", "sh", "-c", `mount --bind "$0/share" /usr/share && exec "$0/bin/prometheus-alertmanager" "$@"`, unpacked, "--config.file", name, "--storage.path", t.TempDir(),
		"--web.listen-address", strings.TrimPrefix(am.url, "http://"), "--cluster.listen-address=", "--log.level=debug")
	eventually(t, time.Minute, func() string {
		resp, err := http.Get(am.url + "/-/ready")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return resp.Status
		}
		return ""
	})
	return am
}

// fire is what on-call would type.
func (am alertmanager) fire(t testing.TB, labels ...string) {
	t.Helper()
	args := append([]string{"alert", "add", "--alertmanager.url=" + am.url}, labels...)
	if out, err := exec.Command(file(".cache/prometheus-alertmanager/usr/bin/amtool"), args...).CombinedOutput(); err != nil {
		t.Fatalf("amtool %v: %v\n%s", args, err, out)
	}
}

// serving is calico-probe serve, wherever it runs.
type serving struct {
	url    string
	health string // where it says whether it lives
	client *http.Client
}

func (s serving) get(t testing.TB, path, token string) (int, string) {
	t.Helper()
	code, text, err := s.ask(http.MethodGet, path, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	return code, text
}

func (s serving) ask(method, path, token string, body io.Reader) (int, string, error) {
	req, err := http.NewRequest(method, s.url+path, body)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// metrics are those of calico-probe, by name and labels as they are written.
func (s serving) metrics(t testing.TB) map[string]float64 {
	t.Helper()
	code, text := s.get(t, "/metrics", alertsToken)
	if code != http.StatusOK {
		t.Fatalf("/metrics: %d %s", code, text)
	}
	out := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && strings.HasPrefix(name, "calico_probe_") {
			out[strings.TrimPrefix(name, "calico_probe_")] = v
		}
	}
	return out
}

func received(m map[string]float64) float64 {
	sum := 0.0
	for name, v := range m {
		if strings.HasPrefix(name, "alerts_total{") {
			sum += v
		}
	}
	return sum
}

func (s serving) ready(t testing.TB) {
	t.Helper()
	eventually(t, time.Minute, func() string {
		code, text, err := serving{url: s.health, client: s.client}.ask(http.MethodGet, "/readyz", "", nil)
		if err != nil || code != http.StatusOK {
			return fmt.Sprint(code, text, err)
		}
		return ""
	})
}

// serve runs it as a process of the test.
func serve(t testing.TB, port int, args ...string) (serving, func()) {
	t.Helper()
	at := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	kill := background(t, file("bin/calico-probe"),
		append([]string{"serve", "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--health-listen", at}, args...)...)
	s := serving{fmt.Sprintf("http://127.0.0.1:%d", port), "http://" + at, &http.Client{Timeout: 30 * time.Second}}
	s.ready(t)
	return s, kill
}

const routeEverything = `apiVersion: calico-probe.io/v1alpha1
kind: AlertRoutes
spec:
  routes:
  - match: ['alertname="BGPDown"']
    profile: standard
  - match: ['alertname="Burst"']
    profile: quick
  - match: ['alertname="CalicoBGPPeerDown"']
    runbook: ours
  - match: ['alertname="CalicoNodeNotReady"']
    runbook: node-trouble
`

// withRoutes are the flags of a process that has them, and a token; limits are YAML of
// spec.limits, "" = those it has by itself.
func withRoutes(t testing.TB, limits string) []string {
	t.Helper()
	config := routeEverything + "  limits: {" + limits + "}\n"
	return []string{
		"--token-file", written(t, "token", alertsToken), "--config", written(t, "routes.yaml", config), "--runbooks",
		filepath.Dir(written(t, "ours.yaml", ourRunbook)),
	}
}

// ourRunbook leaves out how busy this machine is, which a node shares with other tests.
const ourRunbook = `apiVersion: calico-probe.io/v1alpha1
kind: Runbook
metadata:
  name: ours
spec:
  title: sessions are down
  steps:
  - run: {profile: standard, skip: [node-load]}
  - name: done
    ask:
      question: is it done?
      default: not yet
  - when: causes.size() > 0
    conclude:
      verdict: fault
      says: ${first(causes).says}
`

// certificate is made as docs/alerts.md says, for the Service and for localhost.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	b, err := os.ReadFile(file("docs/alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	typed := regexp.MustCompile(`(?m)^ +openssl req -x509 (.*\\\n)*.*$`).Find(b)
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", string(typed))
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil || len(typed) == 0 {
		t.Fatalf("%s: %v: %s", typed, err, out)
	}
	return filepath.Join(cmd.Dir, "tls.crt"), filepath.Join(cmd.Dir, "tls.key")
}

// trusting is a client of servers with certificates of a CA.
func trusting(t testing.TB, ca string) *http.Client {
	t.Helper()
	b, err := os.ReadFile(ca)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(b) {
		t.Fatalf("%s: %v: %s", ca, err, b)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// deployed is serve as 'calico-probe manifests' sets it up, with the rights it has there, and the
// CA of its certificate. The sandbox has no volumes to claim and no registry, and the routes are
// the tests' own.
func deployed(t testing.TB) (s serving, ca string) {
	t.Helper()
	ctx := t.Context()
	mustSandbox(t, "load", file(".cache/client-here.tar"))
	k := kube(t)
	const name, namespace = "calico-probe-serve", install.Namespace
	var deployment appsv1.Deployment
	printed := call(t, "manifests", "--serve").stdout
	t.Cleanup(func() {
		cmd := exec.Command(file(".cache/bin/kubectl"), "delete", "--ignore-not-found", "--timeout=2m", "-f", "-")
		cmd.Stdin = strings.NewReader(printed)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("removing serve: %v: %s", err, out)
		}
	})
	for doc := range strings.SplitSeq(printed, "---\n") {
		switch {
		case strings.Contains(doc, "\nkind: Deployment\n"):
			if err := yaml.UnmarshalStrict([]byte(doc), &deployment); err != nil {
				t.Fatal(err)
			}
		case !strings.Contains(doc, "\nkind: PersistentVolumeClaim\n"):
			kubectl(t, doc, "apply", "--server-side", "-f", "-")
		}
	}
	for name, data := range map[string]map[string]string{
		name:           {"token": alertsToken, "routes.yaml": routeEverything, "ours.yaml": ourRunbook},
		name + "-read": {"token": readingToken},
	} {
		if _, err := k.CoreV1().Secrets(namespace).
			Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data,
			}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	cert, key := certificate(t)
	kubectl(t, "", "-n", namespace, "create", "secret", "tls", name+"-tls", "--cert", cert, "--key", key)
	spec := &deployment.Spec.Template.Spec
	if len(spec.Containers) != 1 || len(spec.Volumes) != 4 || spec.Volumes[0].PersistentVolumeClaim == nil ||
		spec.Volumes[1].Secret == nil {
		t.Fatalf("the Deployment is not as this test knows it: %+v", spec)
	}
	spec.NodeName = "node-a"
	spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "runbooks",
		VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: name, Items: []corev1.KeyToPath{{Key: "ours.yaml", Path: "ours.yaml"}},
		}}})
	c := &spec.Containers[0]
	c.ImagePullPolicy = corev1.PullNever
	c.Args = append(c.Args, "--config", "/etc/calico-probe/routes.yaml", "--runbooks", "/etc/runbooks")
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "runbooks", MountPath: "/etc/runbooks"})
	if _, err := k.AppsV1().Deployments(namespace).Create(ctx, &deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var pod string
	eventually(t, 2*time.Minute, func() string {
		pods, err := k.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, p := range pods.Items {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					pod = p.Name
					return ""
				}
			}
		}
		b, _ := json.Marshal(pods.Items)
		return "serve is not ready: " + string(b)
	})
	t.Cleanup(func() {
		if t.Failed() {
			b, err := k.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(context.Background())
			t.Logf("serve said: %v\n%s", err, b)
		}
	})
	main, health := forwarded(t, namespace, pod, 8080), forwarded(t, namespace, pod, 8081)
	return serving{
		fmt.Sprintf("https://localhost:%d", main), fmt.Sprintf("http://127.0.0.1:%d", health), trusting(t, cert),
	}, cert
}

// forwarded returns a local address for a pod's port. Each connection has a separate forwarding, because 'kubectl
// port-forward' ends at the first reset connection.
func forwarded(t testing.TB, namespace, pod string, port int) int {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	where := kube(t).CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).
		SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, where)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go forward(dialer, c, port)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// forward passes one connection on to the pod's port, until either end closes it.
func forward(dialer httpstream.Dialer, c net.Conn, port int) {
	defer c.Close()
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return // who connected sees the end of it
	}
	defer conn.Close()
	about := http.Header{}
	about.Set(corev1.PortHeader, strconv.Itoa(port))
	about.Set(corev1.PortForwardRequestIDHeader, "0")
	about.Set(corev1.StreamType, corev1.StreamTypeError)
	failed, err := conn.CreateStream(about)
	if err != nil {
		return
	}
	failed.Close() // nothing is written to it
	about.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(about)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(data, c) // the other direction says how it ended
		data.Close()
	}()
	_, _ = io.Copy(c, data)
}

// events are those 'kubectl describe node' shows of ours.
func events(t testing.TB, node string) string {
	t.Helper()
	out := ""
	for line := range strings.Lines(kubectl(t, "", "describe", "node", node)) {
		if strings.Contains(line, "CalicoProbe") {
			out += line
		}
	}
	return out
}

// jobs are the IDs on the page, the latest first.
func (s serving) jobs(t testing.TB) []string {
	t.Helper()
	_, page := s.get(t, "/", alertsToken)
	var out []string
	for _, m := range regexp.MustCompile(`"/reports/([^"]+)"`).FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

// TestAlerts fires an alert about a broken node. A real Alertmanager, with the receiver of docs/alerts.md, sends it to
// serve in its Deployment, which finds the cause.
func TestAlerts(t *testing.T) {
	s, ca := deployed(t)
	am := startAlertmanager(t, receiver(t, s.url, ca))

	for _, token := range []string{"", readingToken} {
		code, _, err := s.ask(http.MethodPost, "/v1/alerts", token, strings.NewReader(`{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"BGPDown","node":"node-a"},"startsAt":"2026-11-01T00:00:00Z"}]}`))
		if err != nil || code != http.StatusUnauthorized {
			t.Errorf("an alert with the token %q: %d %v", token, code, err)
		}
	}
	if code, text := s.get(t, "/", readingToken); code != http.StatusOK {
		t.Errorf("the page, with the token to read: %d %s", code, text)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := (serving{url: s.health, client: s.client}).get(t, path, ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if m := s.metrics(t); received(m) != 0 || m["unauthorized_requests_total"] != 2 || len(s.jobs(t)) != 0 {
		t.Errorf("after an alert without a token: %v", m)
	}

	t.Cleanup(func() { mustSandbox(t, "fault", "heal") })
	mustSandbox(t, "fault", "inject", "bird-dead")
	am.fire(t, "BGPDown", "node=node-b", "severity=critical")
	eventually(t, 3*time.Minute, func() string {
		// An event of another test's may be there still.
		if shown, jobs := events(t, "node-b"), s.jobs(t); len(jobs) == 0 || !strings.Contains(shown, "/reports/"+jobs[0]) {
			return fmt.Sprintf("node-b has no event: %q; serve counts %v", shown, s.metrics(t))
		}
		return ""
	})
	shown := events(t, "node-b")
	jobs := s.jobs(t)
	var d document
	_, text := s.get(t, "/reports/"+jobs[0]+".json", alertsToken)
	if json.Unmarshal([]byte(text), &d) != nil || d.Verdict != "fault" ||
		!slices.ContainsFunc(d.Causes, func(c probe.Cause) bool { return c.ID == "bird-dead" }) {
		t.Errorf("the report: %s", text)
	}
	t.Logf("a report of %d bytes, and %s", len(text), shown)
	if len(jobs) != 1 || !strings.Contains(shown, "Warning") || !strings.Contains(shown, "fault: "+d.first().ID) ||
		!strings.Contains(shown, "/reports/"+jobs[0]) {
		t.Fatalf("jobs %v, and the node shows %s", jobs, shown)
	}
	for path, want := range map[string]string{
		"/reports/" + jobs[0]: "bird-dead", "/reports/" + jobs[0] + ".md": "bird-dead", "/": d.first().ID,
	} {
		if code, text := s.get(t, path, alertsToken); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}

	am.fire(t, "CalicoBGPPeerDown", "instance="+address(t, "node-b")+":9091") // which has a runbook
	eventually(t, 3*time.Minute, func() string {
		if m := s.metrics(t); m[`runs_total{runbook="ours",verdict="fault"}`] != 1 {
			return fmt.Sprint("the runbook has not ended in a fault: ", m)
		}
		return ""
	})
	book := s.jobs(t)[0]
	if _, text := s.get(t, "/reports/"+book, alertsToken); !strings.Contains(text, "bird-dead") ||
		!strings.Contains(text, "<dt>runbook</dt><dd>ours</dd>") {
		t.Errorf("the runbook's report: %s", text)
	}
	if shown := events(t, "node-b"); !strings.Contains(shown, "fault: bird-dead") ||
		!strings.Contains(shown, "/reports/"+book) {
		t.Errorf("no event of the runbook: %s", shown)
	}

	am.fire(t, "BGPDown", "node=node-b", "severity=critical") // once more the same
	am.fire(t, "BGPDown", "node=node-b", "severity=warning")  // and another about the same
	am.fire(t, "BGPDown", "instance=10.99.99.99:9100")        // of no node
	am.fire(t, "Watchdog")
	eventually(t, time.Minute, func() string {
		m := s.metrics(t)
		if m[`alerts_total{outcome="deduplicated"}`] < 2 || m[`alerts_total{outcome="unmapped"}`] < 2 {
			return fmt.Sprint("not all has been sent: ", m)
		}
		return ""
	})
	if m := s.metrics(t); m[`alerts_total{outcome="queued"}`] != 2 || m[`runs_total{runbook="run-standard",verdict="fault"}`] != 1 || len(s.jobs(t)) != 2 {
		t.Errorf("fired twice: %v", m)
	}
	_, page := s.get(t, "/", alertsToken)
	if !strings.Contains(page, "10.99.99.99") || !strings.Contains(page, "no route matches it") {
		t.Errorf("the page does not say what nothing was done about:\n%s", page)
	}
	eventually(t, time.Minute, func() string { // those that were deleted take a moment to end
		pods, err := kube(t).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"})
		if err != nil || len(pods.Items) != 0 {
			return fmt.Sprintf("%d probe pods are left: %v", len(pods.Items), err)
		}
		return ""
	})
}

// address is a node's own.
func address(t testing.TB, node string) string {
	t.Helper()
	n, err := kube(t).CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	t.Fatal(node, " has no InternalIP")
	return ""
}

// TestAlertsKilled kills serve while it examines a node. After a restart, serve finishes the job. Alertmanager repeats
// the alert, which starts no other job.
func TestAlertsKilled(t *testing.T) {
	slow(t)
	port, dir := freePort(t), t.TempDir()
	args := append(withRoutes(t, ""), "--store", dir)
	s, kill := serve(t, port, args...)
	am := startAlertmanager(t, plainly(t, s.url))
	am.fire(t, "CalicoNodeNotReady", "node=node-a")
	eventually(t, time.Minute, func() string {
		if m := s.metrics(t); m["jobs_running"] != 1 {
			return fmt.Sprint("nothing runs: ", m)
		}
		return ""
	})
	kill()
	am.fire(t, "BGPDown", "node=node-b") // which nobody takes now
	s, _ = serve(t, port, args...)
	eventually(t, 3*time.Minute, func() string {
		if m := s.metrics(t); m["jobs_running"]+m["jobs_queued"] > 0 || m["node_events_total{outcome=\"written\"}"] != 2 {
			return fmt.Sprint("not done: ", m)
		}
		return ""
	})
	attempts := map[string]string{}
	for _, j := range stored(t, dir) {
		attempts[j.Node] = fmt.Sprint(j.State, " ", j.Attempts)
	}
	if len(s.jobs(t)) != 2 || attempts["node-a"] != "done 2" || attempts["node-b"] != "done 1" {
		t.Errorf("after a kill there is %v", attempts)
	}
}

type storedJob struct {
	ID, Node, State, Verdict string
	Nodes                    []string
	Attempts                 int
	Alerts                   []struct{ Fingerprint string }
}

func stored(t testing.TB, dir string) []storedJob {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "jobs", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out []storedJob
	for _, name := range names {
		b, err := os.ReadFile(name)
		var j storedJob
		if err = errors.Join(err, json.Unmarshal(b, &j)); err != nil {
			t.Fatal(err)
		}
		out = append(out, j)
	}
	return out
}

// counting passes notifications on, and counts what Alertmanager delivered.
type counting struct {
	mu       sync.Mutex
	alerts   int // in all of them
	requests map[int]int
}

func (c *counting) before(t testing.TB, s serving) string {
	t.Helper()
	to, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var n struct{ Alerts []json.RawMessage }
		if err = errors.Join(err, json.Unmarshal(b, &n)); err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		proxied := *proxy
		proxied.ModifyResponse = func(resp *http.Response) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.alerts += len(n.Alerts)
			c.requests[resp.StatusCode]++
			return nil
		}
		proxied.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String()
}

// TestNodeEvents writes events like serve. After a kill, a job's second event replaces the first. A node with too many
// events gets no more.
func TestNodeEvents(t *testing.T) {
	ctx := t.Context()
	k := kube(t)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "paper", Labels: map[string]string{"kubernetes.io/os": "none"}}}
	if _, err := k.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.CoreV1().Nodes().Delete(context.Background(), n.Name, metav1.DeleteOptions{}) })
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	writing, err := injector.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	teller := injector.NewEventWriter(writing)
	tell := func(id, reason, note string) bool {
		t.Helper()
		told, err := teller.Write(ctx, id, "paper", reason == "CalicoProbeFault", reason, note)
		if err != nil {
			t.Fatal(err)
		}
		return told
	}
	list := func() []corev1.Event {
		t.Helper()
		list, err := k.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.uid=paper"})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	long := strings.Repeat("é", 1000)
	tell("1", "CalicoProbeHealthy", "all is well")
	before := list()
	teller = injector.NewEventWriter(writing) // of the next start
	tell("1", "CalicoProbeFault", long)
	if got := list(); len(before) != 1 || len(got) != 1 || got[0].UID != before[0].UID ||
		got[0].Type != corev1.EventTypeWarning || got[0].Reason != "CalicoProbeFault" || len(got[0].Message) > 1024 ||
		!strings.HasSuffix(got[0].Message, "é...") {
		t.Fatalf("said twice: %+v, then %+v", before, got)
	}
	told := 0
	for i := range 40 {
		if tell(fmt.Sprint("another-", i), "CalicoProbeFault", "another") {
			told++
		}
	}
	if got := list(); told >= 40 || told < 10 || len(got) != 1+told {
		t.Errorf("%d of 40 notes were written, as %d events", told, len(got))
	}
}

// TestAlertsBurst fires 1,000 alerts about 40 nodes at once. The work stays within its limits. After Alertmanager
// retried refused alerts, every alert is in a report.
func TestAlertsBurst(t *testing.T) {
	slow(t)
	ctx := t.Context()
	k := kube(t)
	const nodes, each = 40, 25
	for i := range nodes { // in the API alone, and of no system that any DaemonSet is for
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("paper-%d", i), Labels: map[string]string{"kubernetes.io/os": "none"},
		}}
		if _, err := k.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = k.CoreV1().Nodes().Delete(context.Background(), n.Name, metav1.DeleteOptions{}) })
	}
	dir := t.TempDir()
	s, _ := serve(t, freePort(t), append(withRoutes(t, "many: 0, workers: 3, queue: 10, runsPerHour: 1000"), "--store", dir, "--via", "api")...)
	counted := &counting{requests: map[int]int{}}
	am := startAlertmanager(t, plainly(t, counted.before(t, s)))
	var list []map[string]any
	for i := range nodes * each {
		list = append(list, map[string]any{"labels": map[string]string{
			"alertname": "Burst", "node": fmt.Sprintf("paper-%d", i%nodes), "n": strconv.Itoa(i),
		}})
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(am.url+"/api/v2/alerts", "application/json", bytes.NewReader(b))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	mostQueued, mostRunning := 0.0, 0.0
	eventually(t, 5*time.Minute, func() string {
		m := s.metrics(t)
		mostQueued, mostRunning = max(mostQueued, m["jobs_queued"]), max(mostRunning, m["jobs_running"])
		known := map[string]bool{}
		for _, j := range stored(t, dir) {
			for _, a := range j.Alerts {
				known[a.Fingerprint] = true
			}
		}
		if len(known) < nodes*each || m["jobs_queued"]+m["jobs_running"] > 0 {
			return fmt.Sprintf("%d of %d alerts are in a report: %v", len(known), nodes*each, m)
		}
		return ""
	})
	m := s.metrics(t)
	counted.mu.Lock()
	defer counted.mu.Unlock()
	_, text := s.get(t, "/metrics", alertsToken)
	t.Logf("%d alerts in %v requests by status: %v; at most %v queued, %v running; %s", counted.alerts, counted.requests, m, mostQueued, mostRunning,
		regexp.MustCompile(`process_resident_memory_bytes \d\S*`).FindString(text))
	if mostQueued > 10 || mostRunning > 3 || mostRunning < 1 {
		t.Errorf("at most %v were queued and %v running", mostQueued, mostRunning)
	}
	if counted.requests[http.StatusServiceUnavailable] == 0 || len(counted.requests) != 2 ||
		counted.requests[http.StatusOK] == 0 {
		t.Errorf("answered by status: %v; some have to be refused for a while", counted.requests)
	}
	if int(received(m)) != counted.alerts {
		t.Errorf("outcomes of %v alerts, and %d were delivered", received(m), counted.alerts)
	}
	jobs := stored(t, dir)
	looked := map[string]bool{}
	for _, j := range jobs {
		looked[j.Node] = true
	}
	if len(jobs) != nodes || len(looked) != nodes || m[`alerts_total{outcome="queued"}`] != nodes {
		t.Errorf("%d jobs for %d nodes", len(jobs), len(looked))
	}
}

// signed are a certificate and its key for 127.0.0.1 and for clients, signed by a new CA,
// as files.
func signed(t testing.TB) (ca, cert, key string) {
	t.Helper()
	sign := func(from, by *x509.Certificate, with *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, string) {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if by == nil {
			by, with = from, own
		}
		der, err := x509.CreateCertificate(rand.Reader, from, by, &own.PublicKey, with)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return parsed, own, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	end := time.Now().Add(time.Hour)
	root, rootKey, rootPEM := sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, NotAfter: end, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	_, own, ownPEM := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, root, rootKey)
	b, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, "ca.pem", rootPEM), written(t, "cert.pem", ownPEM), written(t, "key.pem",
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b})))
}

// TestAlertsCertificates has Alertmanagers present client certificates. serve accepts ours, rejects a foreign one, and
// runs nothing for it.
func TestAlertsCertificates(t *testing.T) {
	slow(t)
	ca, cert, key := signed(t)
	_, theirCert, theirKey := signed(t)
	port, dir := freePort(t), t.TempDir()
	background(t, file("bin/calico-probe"), "serve", "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--health-listen",
		"127.0.0.1:0", "--store", dir, "--via", "api",
		"--config", written(t, "routes.yaml", routeEverything), "--runbooks",
		filepath.Dir(written(t, "ours.yaml", ourRunbook)), "--client-ca", ca, "--tls-cert", cert, "--tls-key", key)
	with := func(cert, key string) alertmanager {
		config := receiver(t, fmt.Sprintf("https://127.0.0.1:%d", port), ca)
		before, _, ok := strings.Cut(config, "    authorization:")
		if !ok {
			t.Fatalf("no authorization in\n%s", config)
		}
		return startAlertmanager(t, before+fmt.Sprintf("    tls_config: {ca_file: %s, cert_file: %s, key_file: %s}\n", ca, cert, key))
	}
	ours, theirs := with(cert, key), with(theirCert, theirKey)
	theirs.fire(t, "BGPDown", "node=node-b")
	failed := serving{url: theirs.url, client: http.DefaultClient}
	eventually(t, time.Minute, func() string {
		_, text := failed.get(t, "/metrics", "")
		if m := regexp.MustCompile(`(?m)^alertmanager_notification_requests_failed_total\{integration="webhook"\} (\d+)`).FindStringSubmatch(text); m == nil || m[1] == "0" {
			return "it has not failed yet"
		}
		return ""
	})
	ours.fire(t, "BGPDown", "node=node-a")
	eventually(t, time.Minute, func() string {
		if jobs := stored(t, dir); len(jobs) != 1 || jobs[0].Node != "node-a" || jobs[0].State != "done" {
			return fmt.Sprint("there is ", jobs)
		}
		return ""
	})
}
