// Command calico-probe finds out why a Kubernetes node running Calico is
// broken: it asks the API, puts a small probe on the node by whichever way still
// works, and reports what the probe saw there.
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
