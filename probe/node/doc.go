// Package node reads the node that a check runs on: its files below a probe.Host, its processes and sockets, and the
// configuration of its kubelet, Calico and BIRD. It returns data and judges nothing, apart from the results of failed
// reads. It needs no Kubernetes API and no kernel interface: package kernel has those.
package node
