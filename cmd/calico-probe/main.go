// Command calico-probe finds out why a Kubernetes node running Calico is
// broken. It checks the node through the API, places a small probe on it by the
// first access method that works, and reports the causes and their fixes.
//
// It also runs as a kubectl plugin under the name kubectl-calico_probe.
package main

import (
	"context"
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func main() {
	os.Exit(Run(context.Background(), genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout,
		ErrOut: os.Stderr}, os.Args[1:]))
}
