// Package node reads the node on which a check runs: the files below a probe.Host, the processes and sockets, and the
// configuration of the kubelet, Calico and BIRD. It returns data and does not evaluate it, except that it returns
// results for failed reads. It uses neither the Kubernetes API nor kernel interfaces, which are in package kernel.
package node
