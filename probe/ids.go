package probe

// IDs of checks on the node that other checks refer to, for example in Needs. They are in this package so that checks
// in separate packages do not have to import each other.
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
