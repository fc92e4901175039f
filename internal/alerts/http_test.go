package alerts

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/calico-probe/calico-probe/internal/gate"
	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestRefusedAreLogged requires one line a minute, with the number of rejected requests and the last client.
func TestRefusedAreLogged(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s, err := New(dir, anyAlert(t), usual, access, nodesOf(1).cluster(), slog.New(slog.NewTextHandler(&text, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, c := range []struct{ says, file string }{{"credentials were refused", token}, {"credentials cannot be checked", "short"}} {
			must.Do(t, os.WriteFile(access.TokenFile, []byte(c.file), 0o600))
			text.Reset()
			for range 14 {
				ask(s, http.MethodGet, "/", "another token than that", nil)
				time.Sleep(time.Second)
			}
			time.Sleep(time.Minute)
			ask(s, http.MethodGet, "/", "", nil)
			lines := strings.Split(strings.TrimSpace(text.String()), "\n")
			if len(lines) != 2 || !strings.Contains(lines[0], "requests=1 last=192.0.2.1:1234") || !strings.Contains(lines[1], "requests=14 last=192.0.2.1:1234") || !strings.Contains(lines[1], c.says) {
				t.Errorf("%q", lines)
			}
		}
	})
}

// TestCredentials requires credentials for everything except the health checks.
func TestCredentials(t *testing.T) {
	t.Parallel()
	l := nodesOf(1)
	s := opened(t, t.TempDir(), usual, l)
	b := body(t, firing("node-0", "a"))
	for _, path := range []string{"/", "/metrics", "/reports/x", "/nothing"} {
		for _, with := range []string{"", "0123456789abcdeF", token + "0", token[1:]} {
			w := ask(s, http.MethodGet, path, with, nil)
			if w.Code != http.StatusUnauthorized || len(w.Header().Values("WWW-Authenticate")) != 2 {
				t.Errorf("%s with %q: %d %v", path, with, w.Code, w.Header())
			}
		}
	}
	if code := ask(s, http.MethodPost, PathAlerts, "", b).Code; code != http.StatusUnauthorized || len(s.jobs) > 0 {
		t.Errorf("posted without: %d, %d jobs", code, len(s.jobs))
	}
	if got := testutil.ToFloat64(s.metrics.unauthorized); got != 17 {
		t.Errorf("counted %v", got)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code := healthOf(t, s, path); code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
		if code := ask(s, http.MethodGet, path, token, nil).Code; code != http.StatusNotFound {
			t.Errorf("%s where alerts are taken: %d", path, code)
		}
	}
	rotated := "another token of them"
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(s.access.TokenFile, []byte(text), 0o600))
	}
	for _, c := range []struct {
		file      string
		old, next int
	}{
		{token + "\n\n  " + rotated + " \r\n", 200, 200},
		{rotated, 401, 200},
		{"", 401, 401},
		{"short", 503, 503},
		{token, 200, 401},
	} {
		write(c.file)
		old, next := ask(s, http.MethodGet, "/", token, nil).Code, ask(s, http.MethodGet, "/", rotated, nil).Code
		if old != c.old || next != c.next {
			t.Errorf("with the file %q: %d for the old token and %d for the new, want %d and %d", c.file, old, next, c.old, c.next)
		}
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))(t)
	r.SetBasicAuth("anybody", token)
	if err := s.access.Admits(r, time.Now()); err != nil {
		t.Errorf("a browser with the token: %v", err)
	}
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	from := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, from, from, &key.PublicKey, key))(t)
	cert := must.Get(x509.ParseCertificate(der))(t)
	return authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a authority) sign(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	own := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &own.PublicKey, a.key))(t)
	b := must.Get(x509.MarshalECPrivateKey(own))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b})
}

// trusted returns the TLS configuration of a client that trusts this authority.
func (a authority) trusted() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots}
}

// TestCertificates serves with TLS and client certificates; both change on disk.
func TestCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	at := func(name string) string { return filepath.Join(dir, name) }
	put := func(name string, b []byte) {
		t.Helper()
		must.Do(t, os.WriteFile(at(name), b, 0o600))
	}
	cert, key := ours.sign(t, 2)
	put("cert", cert)
	put("key", key)
	put("ca", ours.pem)
	l := nodesOf(1)
	s, err := New(t.TempDir(), anyAlert(t), usual, gate.Access{ClientCA: at("ca"), Cert: at("cert"), Key: at("key")},
		l.cluster(), quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	main, _ := serves(t, s)
	keep, kept := false, (*http.Client)(nil)
	get := func(path string, from *authority) (int, int64, error) {
		t.Helper()
		config := ours.trusted()
		if from != nil {
			cert, key := from.sign(t, 7)
			pair := must.Get(tls.X509KeyPair(cert, key))(t)
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		client := &http.Client{
			Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: !keep}, Timeout: 10 * time.Second,
		}
		if keep && kept == nil {
			kept = client
			t.Cleanup(client.CloseIdleConnections)
		}
		if keep {
			client = kept
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+main+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			return 0, 0, err
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body) // or the connection is not used again
		return resp.StatusCode, resp.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
	}
	check := func(what, path string, from *authority, code int, serial int64) {
		t.Helper()
		got, of, err := get(path, from)
		if got != code || code != 0 && of != serial || (code == 0) != (err != nil) {
			t.Errorf("%s: %d of certificate %d: %v; want %d of %d", what, got, of, err, code, serial)
		}
	}
	check("ours", "/", &ours, http.StatusOK, 2)
	check("none", "/", nil, http.StatusUnauthorized, 2)
	check("of somebody else", "/", &theirs, http.StatusUnauthorized, 2)
	cert, key = ours.sign(t, 3)
	put("cert", cert)
	check("a certificate without its key yet", "/", &ours, http.StatusOK, 2)
	put("key", key)
	put("ca", bytes.Join([][]byte{ours.pem, theirs.pem}, nil))
	check("after it changed", "/", &ours, http.StatusOK, 3)
	check("another CA beside ours", "/", &theirs, http.StatusOK, 3)
	keep = true
	check("on a connection that stays", "/", &theirs, http.StatusOK, 3)
	put("ca", ours.pem)
	check("on it, the CA taken away", "/", &theirs, http.StatusUnauthorized, 3)
	put("ca", nil)
	keep = false
	check("no CA any more", "/", &ours, http.StatusServiceUnavailable, 3)
}

// TestRefused requires bad input to be rejected with one line, and without effect.
func TestRefused(t *testing.T) {
	t.Parallel()
	l := nodesOf(1)
	s := opened(t, t.TempDir(), usual, l)
	for name, c := range map[string]struct {
		body []byte
		code int
		says string
	}{
		"nothing":      {nil, 400, "not a notification of Alertmanager"},
		"half":         {body(t, firing("node-0", "a"))[:40], 400, "not a notification of Alertmanager"},
		"a list":       {[]byte("[]"), 400, "not a notification of Alertmanager"},
		"no list":      {[]byte(`{"version":"4","alerts":{}}`), 400, "not a notification of Alertmanager"},
		"more behind":  {append(body(t, firing("node-0", "a")), "{}"...), 400, "there is data after it"},
		"old":          {[]byte(`{"version":"3","alerts":[{}]}`), 400, `version "3"`},
		"no alerts":    {[]byte(`{"version":"4","alerts":[]}`), 400, "has no alerts"},
		"too large":    {[]byte(`{"version":"4","receiver":"` + strings.Repeat("x", maxBody) + `"}`), 413, "more than 8 MiB"},
		"on two lines": {[]byte(`{"version":"\n\u001b[31m"}`), 400, `\n\x1b`},
	} {
		w := ask(s, http.MethodPost, PathAlerts, token, c.body)
		said := w.Body.String()
		if w.Code != c.code || !strings.Contains(said, c.says) || strings.Count(said, "\n") != 1 ||
			strings.Contains(said, "\x1b") {
			t.Errorf("%s: %d %q", name, w.Code, said)
		}
	}
	r := ask(s, http.MethodPut, PathAlerts, token, nil)
	if r.Code != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", r.Code)
	}
	for kind, code := range map[string]int{"text/plain": 415, "": 415, "application/json; charset=utf-8": 200} { // of a form of some web page, or a newer Alertmanager
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, PathAlerts,
			bytes.NewReader(body(t, firing("node-9", "a")))))(t)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, req)
		if w.Code != code {
			t.Errorf("content type %q: %d, want %d", kind, w.Code, code)
		}
	}
	if len(s.jobs) > 0 {
		t.Errorf("done: %v", s.jobs)
	}
}

// TestLarge requires the valid part of a large notification to be accepted, at a bounded cost.
func TestLarge(t *testing.T) {
	l := nodesOf(1)
	s := opened(t, t.TempDir(), usual, l)
	var list []sent
	for i := range maxNotified + 7 {
		list = append(list, firing("node-0", fmt.Sprint(i)))
	}
	if code := post(t, s, body(t, list...)); code != http.StatusOK {
		t.Errorf("answered %d", code)
	}
	wantCounts(t, s, map[string]int{outcomeQueued: 1, outcomeSame: maxNotified - 1, outcomeUnmapped: 7})
	odd := []byte(`{"alerts":[{"startsAt":"yesterday"},7,{"x":"` + strings.Repeat("x", maxAlertBytes) + `"}],"version":"4"}`)
	if code := post(t, s, odd); code != http.StatusOK {
		t.Errorf("answered %d", code)
	}
	wantCounts(t, s, map[string]int{outcomeQueued: 1, outcomeSame: maxNotified - 1, outcomeUnmapped: 10})
	empty := []byte(`{"version":"4","alerts":[` + strings.Repeat("{},", maxBody/3-20) + `{}]}`)
	took := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			if n, err := parse(empty); err != nil || len(n.alerts) != maxNotified+1 {
				b.Errorf("%d alerts: %v", len(n.alerts), err)
			}
		}
	})
	if got := took.AllocedBytesPerOp(); got > 64<<20 {
		t.Errorf("%d MiB of nothing take %d MiB", len(empty)>>20, got>>20)
	}
}

// TestStalled stops a notification in the middle: Alertmanager must send it again.
func TestStalled(t *testing.T) {
	t.Parallel()
	s := opened(t, t.TempDir(), usual, nodesOf(1))
	r := httptest.NewRequest(http.MethodPost, PathAlerts,
		iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(body(t, firing("node-0", "a"))))))
	r.Header.Set("Content-Type", contentTypeJSON)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || len(s.jobs) > 0 {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}

// TestReading has read-only tokens, in a file that appears, disappears and is invalid for a while. Alerts are accepted
// meanwhile, and the log has one message.
func TestReading(t *testing.T) {
	t.Parallel()
	const reading = "only to read with"
	access := tokens(t)
	access.ReadTokenFile = filepath.Join(t.TempDir(), "reading")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(access.ReadTokenFile, []byte(text), 0o600))
	}
	var said bytes.Buffer
	write("short")
	s, err := New(t.TempDir(), anyAlert(t), usual, access, nodesOf(1).cluster(), slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	without := func() {
		t.Helper()
		read, all := ask(s, http.MethodGet, "/", reading, nil).Code, ask(s, http.MethodGet, "/", token, nil).Code
		if read != http.StatusUnauthorized || all != http.StatusOK {
			t.Errorf("without the file: %d for its token, %d for the other", read, all)
		}
	}
	without()
	for _, c := range []struct{ file, says string }{
		{"", "this file has none"}, {"short", "has a token of 5 characters"}, {token + "\n", "also allows posting"},
	} {
		write(c.file)
		said.Reset()
		without()
		without()
		if strings.Count(said.String(), "level=ERROR") != 1 || !strings.Contains(said.String(), c.says) {
			t.Errorf("of the file %q it is said: %s", c.file, said.String())
		}
	}
	write(reading)
	b := body(t, firing("node-0", "a"))
	for _, with := range []string{reading, token} {
		got, posted := ask(s, http.MethodGet, "/metrics", with, nil).Code, ask(s, http.MethodPost, PathAlerts, with, b).Code
		if got != http.StatusOK || (posted == http.StatusOK) != (with == token) {
			t.Errorf("with %q: reading is answered %d, posting %d", with, got, posted)
		}
	}
	must.Do(t, os.Remove(access.ReadTokenFile))
	without()
}

// TestHealth requires a blocked program to fail its health check.
func TestHealth(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	synctest.Test(t, func(t *testing.T) {
		l := nodesOf(1)
		held := make(chan struct{})
		l.look = func(context.Context, Job) (Report, error) { <-held; return Report{}, nil }
		s := must.Get(New(dir, anyAlert(t), usual, access, l.cluster(), quiet()))(t)
		defer s.Close()
		check := func(what string, want int) {
			t.Helper()
			if code := healthOf(t, s, "/healthz"); code != want {
				t.Errorf("%s: %d, want %d", what, code, want)
			}
		}
		time.Sleep(silent + 2*time.Second)
		check("nobody sees to jobs", http.StatusServiceUnavailable)
		began(t, s)
		time.Sleep(time.Hour)
		check("with nothing to do", http.StatusOK)
		post(t, s, body(t, firing("node-0", "a")))
		time.Sleep(usual.Job)
		check("a job at its limit", http.StatusOK)
		time.Sleep(overdue + time.Second)
		check("a job that does not end", http.StatusServiceUnavailable)
		close(held)
		synctest.Wait()
		check("it has ended", http.StatusOK)
	})
}

// TestHostile shows texts of an alert and a node that a browser must not interpret.
func TestHostile(t *testing.T) {
	t.Parallel()
	const evil = `<script>alert(1)</script><img src=x onerror=alert(1)>"'</pre></title>` + "\x1b[31m\u202e"
	l := nodesOf(1)
	l.look = func(context.Context, Job) (Report, error) {
		return Report{Verdict: Fault, Says: evil, JSON: []byte(`{"x": "<script>"}`), Markdown: []byte(evil)}, nil
	}
	s := opened(t, t.TempDir(), usual, l)
	began(t, s)
	a := firing("node-0", "a")
	a.Labels["alertname"], a.Labels["job"] = evil, evil
	b := firing(evil, evil)
	b.Labels["alertname"] = evil
	if code := post(t, s, body(t, a, b)); code != http.StatusOK {
		t.Fatalf("answered %d", code)
	}
	for l.times() < 1 || s.busy() {
		time.Sleep(time.Millisecond)
	}
	id := s.order[0]
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/reports/" + id: "text/html; charset=utf-8",
		"/reports/" + id + ".json": "application/json", "/reports/" + id + ".md": "text/markdown; charset=utf-8",
	} {
		w := ask(s, http.MethodGet, path, token, nil)
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != kind || h.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
		text := w.Body.String()
		if kind[:9] == "text/html" && (strings.Count(text, "<script") != 1 || strings.Contains(text, "<img") ||
			strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, "&lt;script&gt;")) {
			t.Errorf("%s has %s", path, text)
		}
		if kind[:9] == "text/html" && !strings.HasPrefix(h.Get("Content-Security-Policy"), page.Policy+"; frame-") {
			t.Errorf("%s has another policy than its page: %v", path, h)
		}
	}
	for _, path := range []string{
		"/reports/..%2fjobs%2f" + id + ".json", "/reports/" + id + ".txt", "/reports/%2e%2e", "/reports/" + id + "x",
	} {
		if code := ask(s, http.MethodGet, path, token, nil).Code; code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// TestMetrics checks the metrics against Prometheus' conventions and the table in docs/alerts.md.
func TestMetrics(t *testing.T) {
	t.Parallel()
	l := nodesOf(1)
	s := opened(t, t.TempDir(), usual, l)
	began(t, s)
	post(t, s, body(t, firing("node-0", "a")))
	for l.times() < 1 || s.busy() {
		time.Sleep(time.Millisecond)
	}
	problems := must.Get(testutil.GatherAndLint(s.metrics.registry))(t)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	all := must.Get(s.metrics.registry.Gather())(t)
	b := must.Get(os.ReadFile("../../docs/alerts.md"))(t)
	own := 0
	for _, m := range all {
		if !strings.HasPrefix(m.GetName(), "calico_probe_") {
			continue
		}
		own++
		name := m.GetName()
		if labels := m.GetMetric()[0].GetLabel(); len(labels) > 0 {
			var names []string
			for _, l := range labels {
				names = append(names, l.GetName())
				if l.GetValue() == "node-0" {
					t.Errorf("%s has a node's name: a cluster has thousands", name)
				}
			}
			name += "{" + strings.Join(names, ",") + "}"
		}
		if row := fmt.Sprintf("| `%s` | %s |\n", name, m.GetHelp()); !strings.Contains(string(b), row) {
			t.Errorf("the table of metrics lacks: %s", row)
		}
	}
	if rows := strings.Count(string(b), "| `calico_probe_"); rows != own {
		t.Errorf("the table has %d metrics, there are %d", rows, own)
	}
}

// TestReportPage renders the page of a stored report, and the Markdown of an invalid one.
func TestReportPage(t *testing.T) {
	t.Parallel()
	l := nodesOf(2)
	l.look = func(_ context.Context, job Job) (Report, error) {
		kept := `{"is": "kept"}`
		if job.Node == "node-1" {
			kept = strings.Repeat(" ", maxPaged) + kept
		}
		return Report{Verdict: Fault, Says: "it is", JSON: []byte(kept), Markdown: []byte("in words\n")}, nil
	}
	l.page = func(b []byte) (page.Page, error) {
		if string(b) != `{"is": "kept"}` {
			t.Errorf("a page of %d bytes", len(b))
		}
		return page.Page{Subject: "made of JSON", Verdict: page.Verdict{Word: Fault}}, nil
	}
	s := opened(t, t.TempDir(), usual, l)
	began(t, s)
	post(t, s, body(t, firing("node-0", "a"), firing("node-1", "b")))
	for l.times() < 2 || s.busy() {
		time.Sleep(time.Millisecond)
	}
	for _, id := range s.order {
		text := ask(s, http.MethodGet, "/reports/"+id, token, nil).Body.String()
		want, not := "made of JSON", "in words"
		if s.jobs[id].Node == "node-1" { // whose report is too large for a page
			want, not = not, want
		}
		if !strings.Contains(text, want) || strings.Contains(text, not) || !strings.Contains(text, "resolved") ||
			!strings.Contains(text, `href="/reports/`+id+`.json"`) {
			t.Errorf("%s: %s", s.jobs[id].Node, text)
		}
	}
}
