package ask

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/filelock"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
)

// kubeProxyIn answers on kube-proxy's own ports like a healthy one. It fails the test if another process has them.
func kubeProxyIn(t *testing.T, mode string) {
	t.Helper()
	alone(t, "10256")
	for port, answer := range map[string]string{"10256": "{}", "10249": mode} {
		l := must.Get(net.Listen("tcp", "127.0.0.1:"+port))(t)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			fmt.Fprint(w, answer)
		})}
		go func() { _ = server.Serve(l) }() // until it is closed
		t.Cleanup(func() { server.Close() })
	}
}

// alone waits until no other clone's tests on this machine hold this lock.
func alone(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "calico-probe-test-"+name+".lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); !filelock.Lock(f); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("other tests hold %s for a minute", f.Name())
		}
	}
	t.Cleanup(func() { _ = filelock.Close(f) })
}

// TestKubeProxyHealth needs kube-proxy's own port, and fails if another process has it.
func TestKubeProxyHealth(t *testing.T) {
	alone(t, "10256")
	l := must.Get(net.Listen("tcp", "127.0.0.1:10256"))(t)
	code, deleted := http.StatusOK, http.StatusNotFound // of /healthz, and of /livez
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" {
			w.WriteHeader(deleted)
			return
		}
		w.WriteHeader(code)
	})}
	go func() { _ = server.Serve(l) }() // until it is closed
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, &probe.Host{}), "", probe.OK, "200 from 127.0.0.1:10256")
	code = http.StatusServiceUnavailable
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, &probe.Host{}), "", probe.Fail, "503",
		"has not updated its rules")
	deleted = http.StatusOK // and /healthz still returns 503, because its Node is being deleted
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, &probe.Host{}), "", probe.OK, "200 from")
	must.Do(t, server.Close())
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, &probe.Host{}), "", probe.Skip, "no kube-proxy listens")

	files := map[string]string{"proc/net/ip_vs": "TCP  0A600001:01BB rr\n  -> AC114941:192B Masq 1 3 0"}
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, checktest.Node(t, files)), "", probe.Warn,
		"no kube-proxy listens on 127.0.0.1:10256, but its rules for 1 services are still in the kernel (ipvs)")
	bpf := probe.Target{Kind: probe.KindFelix, Attrs: map[string]string{"bpfEnabled": "true"}}
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, checktest.Node(t, files), bpf), "", probe.Info,
		"because the data plane is eBPF")
	checktest.Process(files, 9, 1, "kube-proxy", 1, "", "kube-proxy")
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, checktest.Node(t, files)), "", probe.Info, "kube-proxy runs (process 9) but does not listen")
}

// virtualServices is a table as net/netfilter/ipvs/ip_vs_ctl.c prints it. The kernel
// that runs these tests has no IPVS, so it is written by hand after that.
const virtualServices = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr 
  -> AC114941:192B      Masq    1      3          0         
UDP  0A60000A:0035 rr 
TCP  AC114942:7D05 rr persistent 10800 FFFFFFFF
TCP  [fd00:0096:0000:0000:0000:0000:0000:0001]:0050 rr 
  -> [fd00:0244:0000:0000:0000:0000:0000:0002]:0050      Masq    1      0          0         
FWM  00000001 wlc 
`

func TestIPVS(t *testing.T) {
	h := checktest.Node(t, map[string]string{"proc/net/ip_vs": virtualServices})
	kubeProxyIn(t, "ipvs")
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, h), "", probe.OK, "mode ipvs")
	r := checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, h), "services", probe.Info,
		"3 of 5 ipvs virtual services have no destination, such as UDP 10.96.0.10:53, TCP 172.17.73.66:32005, FWM 00000001")
	if n, _ := r.Facts.Num(service.FactPublished); n != 5 {
		t.Errorf("%+v", r.Facts)
	}
	bpf := probe.Target{Kind: probe.KindFelix, Attrs: map[string]string{"bpfEnabled": "true"}}
	none := checktest.Node(t, map[string]string{"proc/net/ip_vs": "IP Virtual Server version 1.2.1 (size=4096)\n"})
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, none), "services", probe.Fail, "no service works from this node")
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, none, bpf), "services", probe.Info, "bpfKubeProxyIptablesCleanupEnabled")
	for text, saw := range map[string]string{
		"IP Virtual Server version 1.2.1 (size=4096)\n": "no virtual service",
		"TCP  0A600001:01BB rr \nUDP  0A60000A:0035 rr": "all 2 ipvs virtual services lack",
	} {
		checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, checktest.Node(t,
			map[string]string{"proc/net/ip_vs": text})),
			"services", probe.Fail,
			saw)
	}
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck,
		checktest.Node(t, map[string]string{"proc/net/ip_vs": "TCP  0A600001:01BB rr\n  -> AC114941:192B Masq 1 3 0"})),
		"services", probe.OK, "all 1")
	if got := checktest.Run(t, kubeProxyHealthCheck, checktest.Node(t, map[string]string{"proc/x": ""})); len(got) != 1 {
		t.Errorf("without the table nothing is known of its services: %+v", got)
	}
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, checktest.Node(t,
		map[string]string{"proc/net/ip_vs": strings.Repeat("x", 1<<20)})),
		"services", probe.Unknown, "too long")
}

func FuzzIPVS(f *testing.F) {
	f.Add(virtualServices)
	f.Add("TCP :\nUDP [:zz rr\n->\nTCP 0:0")
	f.Fuzz(func(t *testing.T, text string) {
		v, _ := readIPVS(strings.NewReader(text))
		if v.empty > v.services || len(v.first) > node.Listed {
			t.Errorf("%+v", v)
		}
		judgeIPVS(v)
	})
}
