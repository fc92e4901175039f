// Command kube is the control plane, the node components and etcd in one binary. Its name selects the program. Shared
// code is linked once instead of six times.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	var command *cobra.Command
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kube-proxy":
		command = proxy.NewProxyCommand()
	case "kubelet":
		// Every version builds this file, and before 1.33 the function had no parameter.
		switch create := any(kubelet.NewKubeletCommand).(type) {
		case func(context.Context) *cobra.Command:
			command = create(context.Background())
		case func() *cobra.Command:
			command = create()
		}
	default:
		fmt.Fprintf(os.Stderr, "kube: no component named %q\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
