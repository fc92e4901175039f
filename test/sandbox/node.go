package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// nodeInit is a node's first process: it creates the node's root, starts containerd, kubelet and kube-proxy, and keeps
// them running.
func nodeInit(l layout, args []string) error {
	runtime.LockOSThread()
	m, _, err := memberNamed(args)
	if err != nil {
		return err
	}
	if err := startDaemons(l, m); err != nil {
		return errors.Join(err, writeFile(l.state("nodes", m.Name, "failed"), err.Error()))
	}
	select {}
}

// nodeKeys returns the node's keys, by their paths on the node: for its components, and for sshd.
func nodeKeys(l layout, m member) (map[string][]byte, error) {
	keys := map[string][]byte{}
	for from, to := range map[string]string{
		"pki/ca.crt": "/etc/kubernetes/ca.crt", "pki/" + m.Name + ".crt": "/etc/kubernetes/kubelet.crt",
		"pki/" + m.Name + ".key":        "/etc/kubernetes/kubelet.key",
		"pki/kube-proxy.kubeconfig":     "/etc/kubernetes/kube-proxy.kubeconfig",
		"pki/" + m.Name + ".kubeconfig": "/etc/kubernetes/kubelet.kubeconfig",
		"ssh/" + m.Name:                 sshHostKey, "ssh/id.pub": sshUserKey,
	} {
		b, err := os.ReadFile(l.state(from))
		if err != nil {
			return nil, fmt.Errorf("reading the node's keys: %w", err)
		}
		keys[to] = b
	}
	return keys, nil
}

func startDaemons(l layout, m member) error {
	keys, err := nodeKeys(l, m)
	if err != nil {
		return err
	}
	if err := makeRoot(l, m); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(m.Name)); err != nil {
		return fmt.Errorf("naming the host: %w", err)
	}
	if err := forward(); err != nil {
		return err
	}
	if err := errors.Join(writeConfigs(m), writeSSH()); err != nil {
		return err
	}
	for name, b := range keys {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			return fmt.Errorf("writing the node's keys: %w", err)
		}
	}
	if err := os.Chmod(sshUserKey, 0o644); err != nil { // sshd reads it as the user
		return fmt.Errorf("writing the node's keys: %w", err)
	}
	if err := os.Setenv("PATH", kubernetesOnNode+":/opt/sandbox/bin:/usr/sbin:/usr/bin"); err != nil {
		return err
	}
	return serve(l, m)
}

// nodeConfigs returns the node's configuration by its paths, and the names of its CNI plugins besides their own.
func nodeConfigs(m member, calico bool) (files, plugins map[string]string, err error) {
	configs := map[string]string{
		"containerd.toml": "/etc/containerd/config.toml", "kubelet.yaml": "/var/lib/kubelet/config.yaml",
		"kube-proxy.yaml": "/etc/kubernetes/kube-proxy.yaml", "hosts": "/etc/hosts", "resolv.conf": "/etc/resolv.conf",
	}
	plugins = map[string]string{}
	if !calico { // stand-ins have the names of Calico's plugins
		configs["10-calico.conflist"] = "/etc/cni/net.d/10-calico.conflist"
		configs["bird.cfg"], configs["bird6.cfg"] = "/var/lib/calico/sandbox/bird.cfg", "/var/lib/calico/sandbox/bird6.cfg"
		plugins["calico"], plugins["calico-ipam"] = "ptp", "host-local"
	}
	files = map[string]string{"/etc/machine-id": fmt.Sprintf("%032x\n", m.IP4.AsSlice())}
	for name, to := range configs {
		if files[to], err = render(name, settingOf(m)); err != nil {
			return nil, nil, err
		}
	}
	return files, plugins, nil
}

func writeConfigs(m member) error {
	calico, err := exists(calicoArchives)
	if err != nil {
		return err
	}
	files, links, err := nodeConfigs(m, calico)
	if err != nil {
		return err
	}
	for to, text := range files {
		if err := writeFile(to, text); err != nil {
			return err
		}
	}
	plugins, err := os.ReadDir(cniPlugins)
	if err != nil {
		return fmt.Errorf("looking for CNI plugins: %w", err)
	}
	for _, p := range plugins {
		links[p.Name()] = p.Name()
	}
	for name, plugin := range links {
		if err := os.Symlink(filepath.Join(cniPlugins, plugin), "/opt/cni/bin/"+name); err != nil {
			return fmt.Errorf("installing CNI plugins: %w", err)
		}
	}
	return nil
}

// cniPlugins is where Debian's package installs the CNI plugins.
const cniPlugins = "/usr/lib/cni"

// serve starts the node's daemons. It imports the images before the kubelet needs them: otherwise the kubelet would
// report them as missing and wait ten seconds.
func serve(l layout, m member) error {
	f := newFamily(l)
	as := func(component string) string { return m.Name + "-" + component }
	calico, err := exists(calicoArchives)
	if err != nil {
		return err
	}
	if calico { // most real nodes have a journal, so the tests with Calico itself use one
		if err := f.startJournal(m); err != nil {
			return err
		}
	}
	f.keep(as("containerd"), "/opt/sandbox/bin/containerd", "--config", "/etc/containerd/config.toml")
	f.keep(as("sshd"), "/opt/sandbox/openssh-server/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config")
	f.keep(as("kube-proxy"), kubernetesOnNode+"/kube-proxy", "--config", "/etc/kubernetes/kube-proxy.yaml")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := waitSocket(ctx, "/run/containerd/containerd.sock"); err != nil {
		return err
	}
	f.keep(as("kubelet"), kubernetesOnNode+"/kubelet", "--config=/var/lib/kubelet/config.yaml",
		"--kubeconfig=/etc/kubernetes/kubelet.kubeconfig", "--hostname-override="+m.Name,
		"--node-ip="+m.IP4.String()+","+m.IP6.String())
	images, err := filepath.Glob("/opt/sandbox/images/*.tar")
	more, moreErr := filepath.Glob(calicoArchives + "/*.tar")
	if err := errors.Join(err, moreErr); err != nil {
		return err
	}
	for _, tar := range append(images, more...) {
		if err := f.once(as("import"), "/opt/sandbox/bin/ctr", "-n", "k8s.io", "images", "import", tar); err != nil {
			return fmt.Errorf("importing %s: %w", filepath.Base(tar), err)
		}
	}
	return writeFile(l.state("nodes", m.Name, "images"), "")
}

// waitSocket waits until a UNIX socket accepts connections.
func waitSocket(ctx context.Context, path string) error {
	for {
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", path, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
