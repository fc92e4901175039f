package report

import "testing"

func TestReadsOnly(t *testing.T) {
	for command, want := range map[string]bool{
		"kubectl get nodes -o wide": true,
		"kubectl -n kube-system logs calico-node-x7k2p -c calico-node --previous": true,
		"kubectl auth can-i create pods --as someone":                             true,
		"kubectl -n kube-system set env ds/calico-node --list | grep IP":          true,
		"kubectl -n kube-system set env ds/calico-node IP=autodetect":             false,
		"kubectl -n kube-system exec p -c calico-node -- birdcl show protocols":   true,
		"kubectl -n kube-system exec p -c calico-node -- rm -rf /tmp/x":           false,
		"kubectl delete pod x; kubectl get pods":                                  false,
		"ssh node-a sudo ip route show table all":                                 true,
		"ssh node-a sudo ip rule del pref 5270":                                   false,
		"ssh node-a 'sudo nft list ruleset; sudo iptables-save' | grep -n 179":    true,
		"ssh node-a 'ip route; sudo nft flush ruleset'":                           false,
		"ssh node-a sudo grep 'a|reboot' file":                                    false, // the remote shell sees a pipe
		"ssh node-a 'for p in kubelet; do cat /proc/$(pgrep -o $p)/limits; done'": true,
		"ssh node-a 'echo 2 | sudo tee /proc/sys/vm/drop_caches'":                 false,
		"ssh node-a echo 1 '>' /proc/sys/net/ipv4/ip_forward":                     false,
		"ssh node-a sudo sysctl net.ipv4.ip_forward":                              true,
		"ssh node-a sudo sysctl -w net.ipv4.ip_forward=1":                         false,
		"ssh node-a sudo journalctl -u kubelet --no-pager 2>/dev/null":            true,
		"ssh node-a sudo journalctl --vacuum-size 200M":                           false,
		"ssh node-a \"sudo sed -i.bak s/a/b/ /etc/fstab\"":                        false,
		"ssh node-a 'crictl pods -q | xargs -r -n1 sudo crictl inspectp'":         true,
		"ssh node-a 'crictl pods -q | xargs -r -n1 sudo crictl rmp'":              false,
		"kubectl cordon top":                                       false, // a node may have any name
		"kubectl drain status --ignore-daemonsets":                 false,
		"ssh node-a sudo sysctl net.ipv4.ip_forward=1":             false,
		"ssh node-a timedatectl set-ntp true":                      false,
		"ssh node-a sudo ethtool -K eth0 tx off":                   false,
		"ssh node-a sudo dmesg -C":                                 false,
		"ssh node-a sudo mount /dev/sdb /mnt":                      false,
		"ssh node-a sudo ip netns exec x rm y":                     false,
		"ssh node-a find / -execdir rm x ';'":                      false,
		"kubectl exec p -- birdcl disable all":                     false,
		"curl -X POST https://hub.example":                         false,
		"ssh node-a sudo docker restart logs":                      false,
		"ssh node-a sudo iptables-legacy -F -L":                    false,
		"ssh node-a cat /etc/fstab '&>>' /etc/hosts":               false,
		"calico-probe runbook run x --allow-actions y":             false,
		"calicoctl ipam show --show-blocks --show-configuration":   true,
		"ssh node-a 'ip rule; ip route show table 52'":             true,
		"ssh node-a sudo systemctl show containerd -p Environment": true,
		"ssh -t node-a 'systemctl restart kubelet'":                false,
		"ssh -v node-a systemctl restart kubelet":                  false,
		"ssh -o ConnectTimeout=5 node-a uptime":                    true,
		"ssh node-a sudo mount -a":                                 false,
		"ssh node-a mount":                                         true,
		"ssh node-a sudo ss -K dst 10.0.0.1":                       false,
		"ssh node-a sudo multipath -F":                             false,
		"ssh node-a sudo multipath -ll":                            true,
		"curl -XPOST https://hub.example":                          false,
		"curl -sko /dev/null https://hub.example":                  true,
		"curl -so /etc/hosts https://hub.example":                  false,
		"ssh node-a sudo ip r a default via 10.0.0.1":              false,
		"ssh node-a sudo ip l s eth0 mtu 1400":                     false,
		"ssh node-a ip -br addr show eth0":                         true,
		"ssh node-a 'sudo ip xfrm policy; sudo ip -s xfrm state'":  true,
		"ssh node-a ip -d link show vxlan.calico":                  true,
		"ssh node-a 'timeout 10 ip monitor route'":                 true,
		"ssh node-a sudo ip -batch /tmp/x":                         false,
		"ssh node-a \"awk 'BEGIN{system(\\\"id\\\")}'\"":           false,
		"ssh node-a sort -o /etc/hosts /tmp/x":                     false,
		"ssh node-a sudo date 11270300":                            false,
		"ssh node-a date -u":                                       true,
		"sudo unheard-of --help":                                   false,
		"kubectl get pods '":                                       false, // no command at all
	} {
		if got := readsOnly(command); got != want {
			t.Errorf("readsOnly(%q) = %v, want %v", command, got, want)
		}
	}
}
