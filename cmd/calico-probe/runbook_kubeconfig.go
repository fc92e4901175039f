package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// kubeconfig points a runbook's commands to this call's cluster and user. It returns a function that writes a
// kubeconfig for one command, or the reason why that is impossible.
func (o *runbookOptions) kubeconfig() (lead func() (name string, remove func(), err error), not string) {
	if injector.AccessOf(o.Via).Here() {
		return nil, "--via local selects no cluster for kubectl"
	}
	config, err := o.restConfig()
	if err != nil {
		return nil, err.Error()
	}
	whole, err := clientcmd.Write(kubeconfigOf(config))
	if err != nil {
		return nil, err.Error()
	}
	return func() (string, func(), error) {
		name, err := writePrivate(whole)
		if err != nil {
			return "", nil, err
		}
		gone := func() { _ = os.Remove(name) } // the folder belongs to the user
		back := o.interrupts.AtEnd(gone)
		return name, func() { gone(); back() }, nil
	}, ""
}

// kubeconfigFiles is the name pattern of the written kubeconfigs. If the client is killed while a command runs, the
// kubeconfig is left behind. Kubeconfigs older than a day are removed.
const (
	kubeconfigFiles = "kubeconfig-*"
	kubeconfigsAge  = 24 * time.Hour
)

// writePrivate writes a kubeconfig that only the user can read: into $XDG_RUNTIME_DIR, which is
// removed when the user logs out, or else into the folder of the journals.
func writePrivate(whole []byte) (name string, err error) {
	state, err := ui.StateDir()
	dirs := []string{state}
	if err != nil {
		dirs = nil
	}
	if at := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(at) {
		dirs = append([]string{filepath.Join(at, "calico-probe")}, dirs...)
	}
	for _, dir := range dirs {
		if err = os.MkdirAll(dir, 0o700); err != nil {
			continue
		}
		left, _ := filepath.Glob(filepath.Join(dir, kubeconfigFiles))
		for _, old := range left {
			if info, err := os.Stat(old); err == nil && time.Since(info.ModTime()) > kubeconfigsAge {
				_ = os.Remove(old)
			}
		}
		var f *os.File
		if f, err = os.CreateTemp(dir, kubeconfigFiles); err != nil { // mode 0600: readable by the owner only
			continue
		}
		_, err = f.Write(whole)
		if err = errors.Join(err, f.Close()); err == nil {
			return f.Name(), nil
		}
		_ = os.Remove(f.Name())
	}
	return "", fmt.Errorf("cannot write its kubeconfig: %w; set XDG_RUNTIME_DIR to a folder that you own", err)
}

// kubeconfigOf returns a minimal kubeconfig for one client.
func kubeconfigOf(c *rest.Config) api.Config {
	const name = "calico-probe"
	cluster := &api.Cluster{
		Server: c.Host + c.APIPath, TLSServerName: c.ServerName, InsecureSkipTLSVerify: c.Insecure,
		CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData,
		DisableCompression: c.DisableCompression,
	}
	if at, err := url.Parse(c.Host); c.Proxy != nil && err == nil {
		if proxy, err := c.Proxy(&http.Request{URL: at}); err == nil && proxy != nil {
			cluster.ProxyURL = proxy.String()
		}
	}
	user := &api.AuthInfo{
		ClientCertificate: c.CertFile, ClientCertificateData: c.CertData, ClientKey: c.KeyFile, ClientKeyData: c.KeyData,
		Token: c.BearerToken, TokenFile: c.BearerTokenFile, Username: c.Username, Password: c.Password,
		Impersonate: c.Impersonate.UserName, ImpersonateUID: c.Impersonate.UID, ImpersonateGroups: c.Impersonate.Groups,
		ImpersonateUserExtra: c.Impersonate.Extra,
		AuthProvider:         c.AuthProvider, Exec: c.ExecProvider,
	}
	out := api.NewConfig()
	out.Clusters[name], out.AuthInfos[name], out.CurrentContext = cluster, user, name
	out.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	return *out
}
