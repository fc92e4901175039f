// Package kubeletproxy puts the checks to a node's kubelet, through the API server's proxy to it: nothing is created
// on the node, and what the kubelet serves of logs and statistics answers some of the checks.
package kubeletproxy
