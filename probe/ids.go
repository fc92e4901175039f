package probe

// IDs of checks on the node that other checks refer to, for example in Needs. They are here so that no check refers
// to the variable of another one: each may live in its own package.
const (
	CheckBirdSocket    = "bird-socket"
	CheckCalicoErrors  = "calico-errors"
	CheckCalicoLog     = "calico-log"
	CheckDaemonLog     = "daemon-log"
	CheckDNSCluster    = "dns-cluster"
	CheckKubeletHealth = "kubelet-health"
	CheckKubeLog       = "kube-log"
	CheckNodeDisk      = "node-disk"
	CheckNodeMemory    = "node-memory"
	CheckNodeSwap      = "node-swap"
	CheckNodeUplink    = "node-uplink"
	CheckPodPing       = "pod-ping"
	CheckPodUplink     = "pod-uplink"
)
