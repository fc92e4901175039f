// Package node is how a check reads the node it is on: its files below a probe.Host, its processes and sockets, how
// its kubelet, Calico and BIRD are set. It needs no Kubernetes and no kernel interface.
package node
