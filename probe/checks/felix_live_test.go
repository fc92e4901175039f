package checks

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

const hang = `+--------------+---------+-----------+-----------+--------+
|  COMPONENT   | TIMEOUT | LIVENESS  | READINESS | DETAIL |
+--------------+---------+-----------+-----------+--------+
| FelixStartup | -       | reporting live | reporting non-ready | |
| InternalDataplaneMainLoop | 20s | timed out | - |        |
+--------------+---------+-----------+-----------+--------+`

// felixAt is where a test's Felix answers.
func felixAt(t *testing.T, f http.HandlerFunc) probe.Target {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	return probe.Target{Kind: probe.KindFelix, Host: "localhost", Port: int(at.Port())}
}

func says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

func TestFelix(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"})
	h.Proc = "/proc"
	r := want(t, run(t, FelixLive, h, felixAt(t, says(503, hang))), "", probe.Fail, "503",
		"InternalDataplaneMainLoop timed out (limit 20s)")
	if len(r.Lines) == 0 || r.Facts[FactBad] == nil || r.Facts[FactComponents] == nil {
		t.Errorf("no evidence: %+v", r)
	}
	want(t, run(t, FelixReady, h, felixAt(t, says(503, hang))), "", probe.Fail, "FelixStartup reporting non-ready")
	want(t, run(t, FelixLive, h, felixAt(t, says(503, ""))), "", probe.Fail, "without saying why")
	want(t, run(t, FelixLive, h, felixAt(t, says(204, ""))), "", probe.OK, "204")
	want(t, run(t, FelixLive, h, felixAt(t, says(200, "hello"))), "", probe.Warn, "another program listens")
	other := want(t, run(t, FelixLive, h, felixAt(t, says(404, "no"))), "", probe.Fail, "another program holds its port")
	if runtime.GOOS == "linux" && !strings.Contains(other.Facts.Str(FactHeldBy), strconv.Itoa(os.Getpid())) {
		t.Errorf("this process is not named: %+v", other)
	}

	if l, err := net.Listen("tcp", "127.0.0.2:0"); err == nil { // not on every system
		s := httptest.Server{Listener: l, Config: &http.Server{Handler: says(204, ""), ReadHeaderTimeout: time.Second}}
		s.Start()
		t.Cleanup(s.Close)
		moved := probe.Target{Kind: probe.KindFelix, Host: "127.0.0.2", Port: l.Addr().(*net.TCPAddr).Port}
		want(t, run(t, FelixLive, h, moved), "", probe.OK, "204")
		moved.Attrs = map[string]string{probe.AttrProbed: "localhost"}
		want(t, run(t, FelixLive, h, moved), "localhost", probe.Fail, "asks 127.0.0.1",
			"but Felix answers at 127.0.0.2")
	}

	at := felixAt(t, nil)
	at.Port = 1 // nobody listens there
	at.Attrs = map[string]string{probe.AttrEnabled: "false"}
	want(t, run(t, FelixLive, h, at), "", probe.Skip, "configured not to answer")
	if l, err := net.Listen("tcp", "127.0.0.1:9099"); err == nil { // free here: then nobody answers once it is closed
		l.Close()
		want(t, run(t, FelixLive, h), "", probe.Unknown, "nothing on this machine looks like")
		calico := node(t, map[string]string{"var/lib/calico/nodename": "n"})
		want(t, run(t, FelixLive, calico), "", probe.Fail, "refused")
	}
	nobody := felixAt(t, nil)
	nobody.Host = "felix.invalid"
	want(t, run(t, FelixLive, h, nobody), "", probe.Fail, "does not resolve")
}

func TestFelixRefusedAndSilent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs 127.0.0.2 and /proc/net/tcp")
	}
	h := node(t, nil)
	h.Proc = "/proc"
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := int(netip.MustParseAddrPort(l.Addr().String()).Port())
	at := probe.Target{Kind: probe.KindFelix, Host: "localhost", Port: port}
	want(t, run(t, FelixLive, h, at), "", probe.Fail, "127.0.0.1", "refused", "but something listens on 127.0.0.2:")
	at.Host = "127.0.0.2" // accepts and stays silent
	want(t, run(t, FelixLive, h, at), "", probe.Fail, "no answer", "within ")
	l.Close()
	r := want(t, run(t, FelixLive, h, at), "", probe.Fail, "refused", "nor on any other address")
	if r.Facts.Str(probe.FactReason) != "refused" {
		t.Errorf("%+v", r.Facts)
	}
}

func TestFelixForeignLocalhost(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"etc/hosts": "# by hand\n192.0.2.7 localhost # oops\n"})
	h.Proc = "/proc"
	got := run(t, FelixLive, h, felixAt(t, says(204, "")))
	r := want(t, got, "", probe.Fail, "localhost resolves to 192.0.2.7")
	if r.Facts.Str(probe.FactReason) != "foreign-address" {
		t.Errorf("%+v", r.Facts)
	}
	want(t, got, "", probe.OK, "204 from 127.0.0.1") // told apart from a Felix that is down
}
