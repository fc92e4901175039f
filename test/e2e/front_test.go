//go:build e2e

package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// inFront puts a server in front of the real API server and returns a kubeconfig for it.
// Each request is handed to answer, with a proxy that passes it on with the tests' own
// credentials.
func inFront(t testing.TB, answer func(proxy *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"} // an upgrade to SPDY goes by no other
	next, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: next, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(at)
		r.Out.Header.Del("Authorization")
	}}
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(proxy, w, r) }))
	t.Cleanup(func() {
		front.CloseClientConnections() // streams would hold it up
		front.Close()
	})
	out := clientcmdapi.NewConfig()
	out.Clusters["front"] = &clientcmdapi.Cluster{Server: front.URL, InsecureSkipTLSVerify: true}
	out.AuthInfos["front"] = &clientcmdapi.AuthInfo{Token: "taken away on the way"}
	out.Contexts["front"] = &clientcmdapi.Context{Cluster: "front", AuthInfo: "front"}
	out.CurrentContext = "front"
	name := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*out, name); err != nil {
		t.Fatal(err)
	}
	return name
}
