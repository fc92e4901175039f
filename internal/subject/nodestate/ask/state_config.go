package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/criconn"
	"github.com/calico-probe/calico-probe/probe/httpget"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeSettings lists kubelet settings that differ between healthy nodes.
var nodeSettings = []string{"providerID", "provider-id", "hostname-override", "node-ip", "node-labels",
	"register-with-taints",
	"registerWithTaints", "container-runtime-endpoint", "containerRuntimeEndpoint"}

func kubeletState(l look) (items, error) {
	pid, args, err := node.NodesDaemon(l.h, "kubelet")
	if err != nil {
		return nil, err
	}
	out := items{}
	config := node.KubeletConfig
	if pid != 0 {
		flags(out, l.own, args)
		if at := node.FlagOf(args, "--config"); at != "" {
			config = at
		}
	}
	dropped, _ := node.DropIns(l.h, node.FlagOf(args, "--config-dir"))
	read := 0
	for _, file := range append([]string{config}, dropped...) {
		text, err := l.h.ReadFile(file)
		var all map[string]any
		if err == nil {
			err = yaml.Unmarshal(text, &all)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, probe.ErrNotVisible) {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if err == nil {
			read++
			flat(out, l.own, "", all)
		}
	}
	if read == 0 && pid == 0 {
		return nil, fmt.Errorf("the kubelet's configuration: %w", probe.ErrNotVisible)
	}
	for name := range out {
		if slices.Contains(nodeSettings, strings.TrimPrefix(name, "--")) {
			delete(out, name)
		}
	}
	return out, nil
}

// flags parses a program's arguments: --name=value, or --name value.
func flags(into items, n neutral, args []string) {
	for i, arg := range args[min(1, len(args)):] {
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		name, value, ok := strings.Cut(arg, "=")
		if next := i + 2; !ok && next < len(args) && !strings.HasPrefix(args[next], "-") {
			value = args[next]
		}
		into[name] = n.value(name, value)
	}
}

// runtimeState reads the active configuration that containerd reports.
func runtimeState(l look) (items, error) {
	ctx, _, cancel := node.Part(l.ctx, 2)
	defer cancel()
	socket, err := node.FindSocket(l.h, node.CRISockets(l.p))
	if err != nil {
		return nil, err
	}
	client, hangUp, err := criconn.CRIAt(l.h, socket)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	a, err := client.Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return nil, fmt.Errorf("reading the runtime's configuration: %w", err)
	}
	out := items{}
	var config map[string]any
	if json.Unmarshal([]byte(a.GetInfo()["config"]), &config) == nil {
		flat(out, l.own, "", config)
	}
	for name, value := range a.GetInfo() { // the last error about the CNI configuration
		if name == "lastCNILoadStatus" || strings.HasPrefix(name, "lastCNILoadStatus.") {
			out[name] = l.own.value(name, strings.Trim(value, `"`))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the runtime's report of its configuration: %w", probe.ErrNotVisible)
	}
	return out, nil
}

// containerdState reads containerd's configuration file. containerd itself reads the file only at startup.
func containerdState(l look) (items, error) {
	name := "/etc/containerd/config.toml"
	if _, args, _ := node.NodesDaemon(l.h, "containerd"); len(args) > 0 {
		for _, flag := range []string{"--config", "-c"} {
			if at := node.FlagOf(args, flag); path.IsAbs(at) {
				name = at
			}
		}
	}
	text, err := l.h.ReadFile(name)
	if err != nil {
		return nil, err
	}
	out := items{}
	tomlItems(out, l.own, string(text))
	return out, nil
}

// proxyState reads the active configuration that kube-proxy reports on its metrics port.
func proxyState(l look) (items, error) {
	all, err := node.ProcessesOf(l.h, node.InNodesNetwork, func(comm string) bool { return comm == "kube-proxy" })
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("kube-proxy: %w", probe.ErrNotVisible)
	}
	out := items{}
	flags(out, l.own, all[0].Args)
	delete(out, "--hostname-override")
	ctx, _, cancel := node.Part(l.ctx, 1)
	defer cancel()
	page, err := httpget.Get(ctx, "http://127.0.0.1:10249/configz", httpget.Options{})
	var config map[string]any
	if err == nil && page.Code == 200 && json.Unmarshal(page.Body, &config) == nil {
		flat(out, l.own, "", config["kubeproxy.config.k8s.io"])
		for name := range out {
			if strings.EqualFold(name, "hostnameOverride") {
				delete(out, name)
			}
		}
	}
	return out, nil
}
