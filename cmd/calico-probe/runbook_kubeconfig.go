package main

import (
	"net/http"
	"net/url"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig writes a file that leads a runbook's commands to the cluster that was chosen
// here, as whoever was chosen, or says why there is none.
func (o *runbookOptions) kubeconfig() (name, not string) {
	if o.via == wayLocal {
		return "", "by --via local no cluster is chosen that kubectl could change"
	}
	config, err := o.restConfig()
	if err != nil {
		return "", err.Error()
	}
	whole, err := clientcmd.Write(kubeconfigOf(config))
	if err != nil {
		return "", err.Error()
	}
	f, err := os.CreateTemp("", "calico-probe-kubeconfig-") // for its owner only
	if err != nil {
		return "", err.Error()
	}
	_, err = f.Write(whole)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", err.Error()
	}
	return f.Name(), ""
}

// kubeconfigOf is a kubeconfig with nothing but what a client uses.
func kubeconfigOf(c *rest.Config) api.Config {
	const name = "calico-probe"
	cluster := &api.Cluster{
		Server: c.Host + c.APIPath, TLSServerName: c.ServerName, InsecureSkipTLSVerify: c.Insecure, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData,
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
		Impersonate: c.Impersonate.UserName, ImpersonateUID: c.Impersonate.UID, ImpersonateGroups: c.Impersonate.Groups, ImpersonateUserExtra: c.Impersonate.Extra,
		AuthProvider: c.AuthProvider, Exec: c.ExecProvider,
	}
	out := api.NewConfig()
	out.Clusters[name], out.AuthInfos[name], out.CurrentContext = cluster, user, name
	out.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	return *out
}
