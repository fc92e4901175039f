package main

import "github.com/calico-probe/calico-probe/test/sandbox/pki"

// makePKI creates the cluster's certificate authority and a certificate for each component.
func makePKI(l layout) error {
	a, err := pki.New(l.state("pki"))
	if err != nil {
		return err
	}
	all := []pki.Identity{
		{File: "apiserver", Name: "kube-apiserver", Hosts: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"127.0.0.1", fabric4, fabric6, "10.96.0.1",
		}},
		{File: "apiserver-kubelet", Name: "kube-apiserver-kubelet-client", Group: "system:masters"},
		{File: "admin", Name: "sandbox-admin", Group: "system:masters"},
		{File: "controller-manager", Name: "system:kube-controller-manager"},
		{File: "scheduler", Name: "system:kube-scheduler"},
		{File: "kube-proxy", Name: "system:kube-proxy"},
		{File: "service-accounts", Name: "service-accounts"},
	}
	for _, m := range members() {
		all = append(all, pki.Identity{File: m.Name, Name: "system:node:" + m.Name, Group: "system:nodes",
			Hosts: []string{m.Name, m.IP4.String(), m.IP6.String()}})
	}
	for _, id := range all {
		if err := a.Issue(id); err != nil {
			return err
		}
	}
	return nil
}
