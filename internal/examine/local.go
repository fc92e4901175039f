package examine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/node"
)

// machine holds the name of the machine on which this program runs, from several sources.
type machine struct {
	hostname string
	nodename string // written here by calico-node; "" = none
	unsure   string // why a missing name proves nothing; "" = it proves that this is another machine
	alien    bool   // this machine has no signs of a node
	has      func(name string) bool
}

// signs lists paths of the kubelet, kubeadm, distributions with one data folder, and Calico. With any installer, every
// node has at least one of them, even if few components run. The CNI folder is not a sign, because podman and
// containerd also create it.
func signs() []string {
	return []string{
		"/var/lib/kubelet", "/etc/kubernetes", "/var/lib/calico", // a message names these paths
		"/usr/bin/kubelet", "/usr/local/bin/kubelet", "/etc/systemd/system/kubelet.service",
		"/var/lib/rancher", "/var/lib/k0s", "/var/snap/microk8s",
		"/run/calico", "/etc/cni/net.d/10-calico.conflist", "/etc/cni/net.d/calico-kubeconfig",
	}
}

// thisMachine inspects this machine under root.
func thisMachine(root string) (machine, error) {
	host, err := os.Hostname()
	if err != nil {
		return machine{}, fmt.Errorf("reading this host's name: %w", err)
	}
	m := machine{hostname: host, has: addressHere}
	here := &probe.Host{Root: root}
	file := node.NodenameFile(here)
	text, err := here.ReadFile(file)
	m.nodename = strings.TrimSpace(string(text))
	if _, kubelet := here.Stat("/var/lib/kubelet"); m.nodename == "" && kubelet == nil {
		m.unsure = "a kubelet has run here, but " + file + " does not show its node name"
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.unsure = file + " cannot be read"
	}
	m.alien = !slices.ContainsFunc(signs(), func(sign string) bool {
		_, err := here.Stat(sign)
		return !errors.Is(err, fs.ErrNotExist) // an unreadable path may exist
	})
	return m, nil
}

// is returns an error if the machine is certainly another machine, and nil if it is the node. unsure is the reason why
// neither is certain; "" = certain.
func (m machine) is(node string) (unsure string, err error) {
	short, _, _ := strings.Cut(m.hostname, ".")
	bare, _, _ := strings.Cut(node, ".")
	switch {
	case strings.EqualFold(node, m.hostname), strings.EqualFold(node, m.nodename), // which respects --hostname-override
		strings.EqualFold(short, bare) && (short == m.hostname || bare == node):
		return "", nil
	case m.has(node):
		return "", nil
	case m.unsure != "":
		return m.unsure, nil
	}
	name := m.hostname
	if m.nodename != "" && m.nodename != m.hostname {
		name += ", node " + m.nodename + " to Calico"
	}
	return "", ui.BadUsage("--via local checks the machine it runs on, which is %s, not %s: "+
		"run it on %s itself, or use another access method", name, node, node)
}

// ThisNode rejects --via local for a node that is not this machine.
func (o Options) ThisNode() error {
	if !o.access().Here() {
		return nil
	}
	m, err := thisMachine("/")
	if err != nil {
		return err
	}
	_, err = m.is(o.Node)
	return err
}

// local returns the access method for this machine. If the machine is not a node, it has no kubelet and no Calico, but
// this is not a fault: a run refuses the machine, and a session reports it.
func (r *Run) local() (injector.Method, error) {
	m, err := thisMachine("/")
	if err != nil {
		return injector.Method{}, err
	}
	return r.localOn(m)
}

// localOn does the same as local for a given machine.
func (r *Run) localOn(m machine) (injector.Method, error) {
	unsure, err := m.is(r.Node)
	if err != nil {
		return injector.Method{}, err
	}
	method := injector.Method{Name: injector.MethodLocal, Open: func(ctx context.Context,
		o injector.Options) (*injector.Session, error) {
		o.Arch = runtime.GOARCH
		o.Embedded = r.client.Probe(o.Arch)
		return injector.Opener(injector.MethodLocal, nil)(ctx, o)
	}}
	alien := fmt.Sprintf("this machine does not look like a Calico node: %s has no files of Kubernetes or Calico (no %s and so on)",
		m.hostname, strings.Join(signs()[:3], ", "))
	switch {
	case m.alien && r.opts.InSession:
		r.client.Note("%s: %s", injector.MethodLocal, alien)
	case m.alien:
		method.Open = func(context.Context, injector.Options) (*injector.Session, error) {
			return nil, &injector.PlacementError{Reason: facts.ReasonNoNode, Text: alien}
		}
	case unsure != "":
		r.client.Note("%s: make sure that this machine is %s: %s", injector.MethodLocal, r.Node, unsure)
	}
	return method, nil
}

// lookupLimit is the time limit for a name lookup. It is short because DNS may also be broken on the node, and the user
// is waiting.
const lookupLimit = time.Second

// addressHere reports whether a name is an address of this machine, or resolves to one.
func addressHere(name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, address := range found {
		ip := net.ParseIP(address)
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok && ip != nil && !ip.IsLoopback() && n.IP.Equal(ip) {
				return true
			}
		}
	}
	return false
}
