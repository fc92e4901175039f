package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/test/sandbox/build"
	"github.com/calico-probe/calico-probe/test/sandbox/machine"
)

// buildMachines builds what nodes that are virtual machines need.
func buildMachines(ctx context.Context, root string) error {
	version, err := build.Version(root)
	if err != nil {
		return err
	}
	if err := machine.Build(ctx, root, version); err != nil {
		return err
	}
	_, err = machineImages(ctx, true, "")
	return err
}

// machineImages returns the disk with the images of a cluster of virtual machines: the sandbox's own and Calico's, from
// the folder that the user named. It returns "" for other clusters.
func machineImages(ctx context.Context, machines bool, calico string) (string, error) {
	if !machines {
		return "", nil
	}
	root, err := cache()
	if err != nil {
		return "", err
	}
	if err := machine.Built(root); err != nil {
		return "", err
	}
	kind := "standin"
	archives, err := filepath.Glob(filepath.Join(root, "images", "*.tar"))
	if err == nil && calico != "" {
		var more []string
		more, err = filepath.Glob(filepath.Join(calico, "*.tar"))
		kind, archives = "calico", append(archives, more...)
	}
	if probe := filepath.Join(root, "probe.tar"); err == nil { // importing it on a guest takes minutes
		var has bool
		if has, err = exists(probe); has {
			archives = append(archives, probe)
		}
	}
	if err != nil {
		return "", err
	}
	return machine.Images(ctx, root, kind, archives)
}

// startMachine starts a node as a virtual machine on the bridge.
func startMachine(l layout, f *family, m member) error {
	root, err := cache()
	if err != nil {
		return err
	}
	calico, err := exists(l.calicoManifest())
	if err != nil {
		return err
	}
	files, err := machineFiles(l, m, calico)
	if err != nil {
		return err
	}
	g := machine.Guest{Name: m.Name, Address: m.IP4, Images: guestImages, Folder: l.state("nodes", m.Name),
		Console: l.log(m.Name + "-console"), Files: files}
	if err := os.MkdirAll(g.Folder, 0o700); err != nil {
		return fmt.Errorf("making the guest's folder: %w", err)
	}
	argv, err := g.Command(root)
	if err != nil {
		return err
	}
	if err := machine.Plug(m.Name, bridgeName); err != nil {
		return err
	}
	if !calico {
		if err := knowPods(m); err != nil {
			return err
		}
	}
	f.keep(m.Name, argv...)
	return writeFile(l.state("nodes", m.Name, "images"), "") // they are on its disk
}

// machineFiles returns the files of a node that is a virtual machine: those of other nodes, and what systemd needs.
func machineFiles(l layout, m member, calico bool) (map[string]machine.File, error) {
	files, err := machine.Systemd(netip.PrefixFrom(m.IP4, 24), netip.PrefixFrom(m.IP6, 64), fabric4, fabric6)
	if err != nil {
		return nil, err
	}
	texts, plugins, err := nodeConfigs(m, calico)
	if err != nil {
		return nil, err
	}
	texts["/etc/hostname"] = m.Name + "\n"
	texts["/etc/ssh/sshd_config"] = sshd
	texts["/etc/default/kubelet"] = fmt.Sprintf("KUBELET_EXTRA_ARGS=--housekeeping-interval=60s "+
		"--hostname-override=%s --node-ip=%s,%s\n", m.Name, m.IP4, m.IP6)
	for name, text := range texts {
		files[name] = machine.Text(text)
	}
	for name, plugin := range plugins {
		files["/opt/cni/bin/"+name] = machine.Link(filepath.Join(cniPlugins, plugin))
	}
	keys, err := nodeKeys(l, m)
	if err != nil {
		return nil, err
	}
	for name, key := range keys {
		files[name] = machine.Secret(string(key))
	}
	files[sshUserKey] = machine.Text(string(keys[sshUserKey]))
	return files, nil
}

// insideMachine returns a command on a node that is a virtual machine, through its sshd. The first one leaves a
// connection for the others, because a handshake takes seconds there. It belongs to the cluster's namespaces, so it
// ends with them.
func insideMachine(ctx context.Context, l layout, node string, argv []string) (*exec.Cmd, error) {
	pid, err := clusterPID(l)
	if err != nil {
		return nil, err
	}
	i := slices.Index(memberNames(), node)
	quoted := []string{"PATH=/opt/sandbox/bin:/usr/sbin:/usr/bin:/sbin:/bin", "exec"}
	for _, a := range argv {
		quoted = append(quoted, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	return exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(pid), "-n", "-p", "-m", "--",
		"ssh", "-F", "none", "-q", "-i", l.state("ssh", "id"), "-o", "UserKnownHostsFile="+l.state("ssh", "known_hosts"),
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=60", "-o", "ServerAliveInterval=20", "-o", "ServerAliveCountMax=6",
		"-o", "ControlMaster=auto", "-o", "ControlPersist=yes", "-o", "ControlPath="+l.state("ssh", node+".sock"),
		"root@"+members()[i].IP4.String(), strings.Join(quoted, " ")), nil
}

// rebootTime is how long a node that is a machine may take to be ready again.
const rebootTime = 20 * time.Minute

// reboot reboots a node that is a machine, and waits until its new kubelet reports it ready.
func reboot(ctx context.Context, l layout, args []string) error {
	m, rest, err := memberNamed(args)
	if err != nil {
		return err
	}
	if len(rest) != 0 {
		return badUsage("reboot takes one node")
	}
	if guestImages == "" {
		return errors.New("the nodes of this cluster share the machine's kernel: 'sandbox up --machines' starts others")
	}
	b, err := openLab(l)
	if err != nil {
		return fmt.Errorf("reboot: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, rebootTime)
	defer cancel()
	nodes, before := b.kube.CoreV1().Nodes(), ""
	n, err := nodes.Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reboot: %w", err)
	}
	before = n.Status.NodeInfo.BootID
	if err := b.on(ctx, m.Name, "systemctl reboot"); err != nil {
		return fmt.Errorf("reboot: %w", err)
	}
	return until(ctx, m.Name+" to be ready again", func(ctx context.Context) (bool, error) {
		n, err := nodes.Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil || n.Status.NodeInfo.BootID == before {
			return false, err
		}
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}), nil
	})
}
