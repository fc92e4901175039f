package ask

import (
	"fmt"
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

	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
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

func TestFelix(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"})
	h.Proc = "/proc"
	r := checktest.Want(t, checktest.Run(t, felixLiveCheck, h, felixAt(t, checktest.Says(503, hang))), "", probe.Fail,
		"503",
		"InternalDataplaneMainLoop timed out (limit 20s)")
	if len(r.Lines) == 0 || r.Facts[felix.FactBad] == nil || r.Facts[factComponents] == nil {
		t.Errorf("no evidence: %+v", r)
	}
	checktest.Want(t, checktest.Run(t, felixReadyCheck, h, felixAt(t, checktest.Says(503, hang))), "", probe.Fail, "FelixStartup reporting non-ready")
	checktest.Want(t, checktest.Run(t, felixLiveCheck, h, felixAt(t, checktest.Says(503, ""))), "", probe.Fail,
		"without a reason")
	checktest.Want(t, checktest.Run(t, felixLiveCheck, h, felixAt(t, checktest.Says(204, ""))), "", probe.OK, "204")
	checktest.Want(t, checktest.Run(t, felixLiveCheck, h, felixAt(t, checktest.Says(200, "hello"))), "", probe.Warn,
		"another program listens")
	other := checktest.Want(t, checktest.Run(t, felixLiveCheck, h, felixAt(t, checktest.Says(404, "no"))), "", probe.Fail,
		"another program holds Felix's port")
	if runtime.GOOS == "linux" && !strings.Contains(other.Facts.Str(probe.FactHeldBy), strconv.Itoa(os.Getpid())) {
		t.Errorf("this process is not named: %+v", other)
	}

	if l, err := net.Listen("tcp", "127.0.0.2:0"); err == nil { // not on every system
		s := httptest.Server{Listener: l, Config: &http.Server{Handler: checktest.Says(204, ""),
			ReadHeaderTimeout: time.Second}}
		s.Start()
		t.Cleanup(s.Close)
		moved := probe.Target{Kind: probe.KindFelix, Host: "127.0.0.2", Port: l.Addr().(*net.TCPAddr).Port}
		checktest.Want(t, checktest.Run(t, felixLiveCheck, h, moved), "", probe.OK, "204")
		moved.Attrs = map[string]string{probe.AttrProbed: "localhost"}
		checktest.Want(t, checktest.Run(t, felixLiveCheck, h, moved), "localhost", probe.Fail, "uses 127.0.0.1",
			"but Felix answers at 127.0.0.2")
	}

	at := felixAt(t, nil)
	at.Port = 1 // a closed port
	at.Attrs = map[string]string{probe.AttrEnabled: "false"}
	checktest.Want(t, checktest.Run(t, felixLiveCheck, h, at), "", probe.Skip, "health port is disabled")
	if l, err := net.Listen("tcp", "127.0.0.1:9099"); err == nil { // free here, and closed again afterwards
		l.Close()
		checktest.Want(t, checktest.Run(t, felixLiveCheck, h), "", probe.Unknown, "this machine has no trace")
		calico := checktest.Node(t, map[string]string{"var/lib/calico/nodename": "n"})
		checktest.Want(t, checktest.Run(t, felixLiveCheck, calico), "", probe.Fail, "refused")
	}
	noName := felixAt(t, nil)
	noName.Host = "felix.invalid"
	checktest.Want(t, checktest.Run(t, felixLiveCheck, h, noName), "", probe.Fail, "does not resolve")
}

// listenApart listens only on 127.0.0.2, on a port below 32768, where the kernel's range for other tests begins.
func listenApart(t *testing.T) (net.Listener, int) {
	t.Helper()
	for port := 20_000; port < 32_000; port++ {
		here, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = here.Close()
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port)); err == nil {
			return l, port
		}
	}
	t.Fatal("no port is free on both addresses")
	return nil, 0
}

func TestFelixRefusedAndSilent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs 127.0.0.2 and /proc/net/tcp")
	}
	h := checktest.Node(t, nil)
	h.Proc = "/proc"
	l, port := listenApart(t)
	defer l.Close()
	at := probe.Target{Kind: probe.KindFelix, Host: "localhost", Port: port}
	checktest.Want(t, checktest.Run(t, felixLiveCheck, h, at), "", probe.Fail, "127.0.0.1", "refused",
		"but something listens on 127.0.0.2:")
	at.Host = "127.0.0.2" // accepts and stays silent
	checktest.Want(t, checktest.Run(t, felixLiveCheck, h, at), "", probe.Fail, "no answer", "within ")
	l.Close()
	r := checktest.Want(t, checktest.Run(t, felixLiveCheck, h, at), "", probe.Fail, "refused", "nor on any other address")
	if r.Facts.Str(probe.FactReason) != "refused" {
		t.Errorf("%+v", r.Facts)
	}
}

func TestFelixForeignLocalhost(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"etc/hosts": "# by hand\n192.0.2.7 localhost # oops\n"})
	h.Proc = "/proc"
	got := checktest.Run(t, felixLiveCheck, h, felixAt(t, checktest.Says(204, "")))
	r := checktest.Want(t, got, "", probe.Fail, "localhost resolves to 192.0.2.7")
	if r.Facts.Str(probe.FactReason) != "foreign-address" {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Want(t, got, "", probe.OK, "204 from 127.0.0.1") // unlike a Felix that is down
}
