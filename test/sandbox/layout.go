package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The addresses are the same in every cluster, because each has its own network namespaces.
const (
	fabric4   = "10.88.0.1" // the API server's end of the bridge
	fabric6   = "fd00:10:88::1"
	pods4     = "10.244.0.0/16"
	pods6     = "fd00:10:244::/48"
	services4 = "10.96.0.0/16"
	services6 = "fd00:10:96::/112"
	dns4      = "10.96.0.10"
	apiPort   = 6443
)

// member is one node of the cluster. Its blocks are those that Calico's IPAM would assign.
type member struct {
	Name           string
	IP4, IP6       netip.Addr
	Block4, Block6 netip.Prefix
}

// How many nodes a cluster may have.
const (
	minNodes = 2
	maxNodes = 12 // each has a kubelet, a containerd and a BIRD
)

// size is the number of nodes of this cluster.
var size = minNodes

func members() []member {
	out := []member{
		{
			Name: "node-a", IP4: netip.MustParseAddr("10.88.0.11"), IP6: netip.MustParseAddr("fd00:10:88::11"),
			Block4: netip.MustParsePrefix("10.244.174.128/26"), Block6: netip.MustParsePrefix("fd00:10:244::ae80/122"),
		},
		{
			Name: "node-b", IP4: netip.MustParseAddr("10.88.0.12"), IP6: netip.MustParseAddr("fd00:10:88::12"),
			Block4: netip.MustParsePrefix("10.244.218.64/26"), Block6: netip.MustParsePrefix("fd00:10:244::da40/122"),
		},
	}
	for i := len(out); i < size; i++ {
		out = append(out, member{
			Name:   "node-" + string(rune('a'+i)),
			IP4:    netip.AddrFrom4([4]byte{10, 88, 0, byte(11 + i)}),
			IP6:    netip.MustParseAddr(fmt.Sprintf("fd00:10:88::%d", 11+i)),
			Block4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 26),
			Block6: netip.MustParsePrefix(fmt.Sprintf("fd00:10:244::%x00/122", i)),
		})
	}
	return out
}

// keepSize stores the number of nodes for later verbs and processes.
func (l layout) keepSize(n int) error {
	size = n
	return writeFile(l.state("size"), strconv.Itoa(n))
}

// readSize loads it, and whether nodes are machines; without a running cluster it does nothing.
func (l layout) readSize() {
	if b, err := os.ReadFile(l.state("machines")); err == nil {
		guestImages = string(b)
	}
	b, err := os.ReadFile(l.state("size"))
	if n, bad := strconv.Atoi(string(b)); err == nil && bad == nil && n >= minNodes && n <= maxNodes {
		size = n
	}
}

// kubernetesOnNode is the folder with the programs of the cluster's version of Kubernetes, on a node.
const kubernetesOnNode = "/opt/kubernetes"

// keepKubernetes links that folder, for the cluster's processes.
func (l layout) keepKubernetes(programs string) error {
	if err := os.Symlink(programs, l.kubernetes()); err != nil {
		return fmt.Errorf("keeping the version of Kubernetes: %w", err)
	}
	return nil
}

// guestImages is the disk with the images of the nodes, if they are virtual machines.
var guestImages string

// keepMachines stores that disk for later verbs and processes.
func (l layout) keepMachines(disk string) error {
	guestImages = disk
	return writeFile(l.state("machines"), disk)
}

// layout locates the files of one cluster.
type layout struct{ name string }

const stateRoot = "/run/calico-probe-sandbox"

func (l layout) state(elem ...string) string {
	return filepath.Join(append([]string{stateRoot, l.name}, elem...)...)
}

func (l layout) kubeconfig() string { return l.state("kubeconfig") }
func (l layout) kubernetes() string { return l.state("kubernetes") }
func (l layout) log(component string) string {
	return l.state("logs", component+".log")
}

// cgroup is the folder of a node below each hierarchy's root.
func (l layout) cgroup(node string) string {
	return fmt.Sprintf("calico-probe-sandbox-%s-%s", l.name, node)
}

// cache is where 'sandbox build' puts its results.
func cache(elem ...string) (string, error) {
	root := os.Getenv("CALICO_PROBE_CACHE")
	if root == "" {
		exe, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("finding the repository: %w", err)
		}
		root = filepath.Join(filepath.Dir(filepath.Dir(exe)), ".cache")
	}
	return filepath.Join(append([]string{root}, elem...)...), nil
}

// V4Name and V6Name return the peer's address as in the names of BIRD's protocols in Calico: Mesh_10_88_0_12.
func (m member) V4Name() string { return strings.ReplaceAll(m.IP4.String(), ".", "_") }
func (m member) V6Name() string { return strings.ReplaceAll(m.IP6.String(), ":", "_") }

// PassiveTo4 and PassiveTo6 report whether this node waits for the peer to connect: Calico compares the addresses as
// text.
func (m member) PassiveTo4(peer member) bool { return m.IP4.String() < peer.IP4.String() }
func (m member) PassiveTo6(peer member) bool { return m.IP6.String() < peer.IP6.String() }

func writeFile(name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, errors.Unwrap(err))
	}
	return nil
}
