package ask

import (
	"fmt"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// TestRefuses names foreign chains that drop or reject forwarded packets, and ignores Calico's.
func TestRefuses(t *testing.T) {
	t.Parallel()
	w := wallsOf(4, []kernel.Chain{
		{Table: "firewalld", Name: "filter_FORWARD", Forward: true, Refuses: true},
		{Family: 4, Table: "calico", Name: "filter-cali-FORWARD", Forward: true, Refuses: true},
		{Table: "kube-proxy", Name: "filter-forward", Forward: true, Refuses: true},
		{Table: "mine", Name: "forward", Forward: true},
	}, []kernel.Chain{{Family: 4, Table: "filter", Name: "FORWARD", Forward: true, Refuses: true}})
	if got := fmt.Sprint(w.refuses); got != "[FORWARD of legacy iptables filter_FORWARD of nftables' table firewalld]" {
		t.Error(got)
	}
}

// TestForeignTables names each foreign table once, for the families that it sees.
func TestForeignTables(t *testing.T) {
	t.Parallel()
	chains := []kernel.Chain{
		{Table: "hardening", Name: "input"}, {Table: "hardening", Name: "output"}, {Table: "filter", Name: "input"},
		{Family: 4, Table: "filter", Name: "FORWARD", Forward: true}, {Family: 4, Table: "nat", Name: "KUBE-SERVICES"},
		{Family: 4, Table: "calico", Name: "filter-cali-FORWARD"}, {Family: 4, Table: "kube-proxy", Name: "services"},
		{Family: 6, Table: "six", Name: "input"}, {Table: "cni_hostport", Name: "hostports"},
	}
	if got := fmt.Sprint(wallsOf(4, chains, nil).foreign); got != "[inet hardening inet filter]" {
		t.Error(got)
	}
	if got := fmt.Sprint(wallsOf(6, chains, nil).foreign); got != "[inet hardening inet filter ip6 six]" {
		t.Error(got)
	}
}

func TestWalls(t *testing.T) {
	t.Parallel()
	calico := kernel.Chain{Family: 4, Table: "filter", Name: "cali-FORWARD"}
	forward := kernel.Chain{Family: 4, Table: "filter", Name: "FORWARD", Forward: true,
		Jumps: []string{"DOCKER-USER", "cali-FORWARD"}}
	docker := kernel.Chain{Family: 4, Table: "filter", Name: "FORWARD", Forward: true, Drops: true,
		Jumps: []string{"DOCKER-USER"}}
	both := forward
	both.Drops = true
	unread := fmt.Errorf("16 MB: %w", probe.ErrNotVisible)
	for name, c := range map[string]struct {
		nft, legacy []kernel.Chain
		unread      error
		pods        int
		known       bool
		want        probe.Status
		saw         string
	}{
		"nft": {[]kernel.Chain{calico, forward}, nil, nil, 3, true, probe.OK,
			"in use only in iptables-nft"},
		"nft and docker": {[]kernel.Chain{calico, both}, nil, nil, 3, true, probe.OK, "only in"},
		"docker beside": {[]kernel.Chain{docker}, []kernel.Chain{calico, forward}, nil, 3, true, probe.Warn,
			"FORWARD of iptables-nft drops"},
		"docker beside, no pods": {[]kernel.Chain{docker}, []kernel.Chain{calico, forward}, nil, 0, true, probe.Info,
			"dropped by the default policy of FORWARD of iptables-nft"},
		"by hand": {[]kernel.Chain{calico, forward,
			{Table: "filter", Name: "forward", Forward: true, Drops: true}}, nil, nil, 3, true, probe.Info,
			"dropped by the default policy of forward of nftables' table filter"},
		"two": {[]kernel.Chain{calico, forward}, []kernel.Chain{calico, forward}, nil, 0, false, probe.Fail,
			"legacy iptables and in iptables-nft"},
		"one in use": {[]kernel.Chain{calico, forward}, []kernel.Chain{calico}, nil, 1, true, probe.Info,
			"unused chains remain in legacy"},
		"none in use":             {[]kernel.Chain{calico}, nil, nil, 1, true, probe.Fail, "no FORWARD rule jumps to them"},
		"none":                    {nil, nil, nil, 2, true, probe.Fail, "2 pod interfaces"},
		"none, settings unknown":  {nil, nil, nil, 2, false, probe.Info, "2 pod interfaces"},
		"none and no pods":        {nil, nil, nil, 0, true, probe.Info, "0 pod interfaces"},
		"none, legacy unread":     {nil, nil, unread, 2, true, probe.Skip, "16 MB"},
		"unhooked, legacy unread": {[]kernel.Chain{calico}, nil, unread, 2, true, probe.Skip, "16 MB"},
		"nft, legacy unread":      {[]kernel.Chain{calico, forward}, nil, unread, 2, true, probe.Info, "cannot check other"},
		"other family": {[]kernel.Chain{{Family: 6, Table: "filter", Name: "cali-FORWARD"}}, nil, nil, 0, true,
			probe.Info, "no firewall has Calico's chains"},
	} {
		w := wallsOf(4, c.nft, c.legacy)
		w.unread = c.unread
		got := judgeWalls(w, c.pods, c.known)
		t.Run(name, func(t *testing.T) { checktest.Want(t, []probe.Result{got}, "", c.want, c.saw) })
	}
}

// TestRefusedBelow has the chains that a removed kube-router leaves behind (k3s-io/k3s#7244), and Docker's.
func TestRefusedBelow(t *testing.T) {
	t.Parallel()
	chain := func(name string, refuses bool, jumps ...string) kernel.Chain {
		return kernel.Chain{Family: 4, Table: "filter", Name: name, Forward: name == "FORWARD", Refuses: refuses,
			Jumps: jumps}
	}
	w := wallsOf(4, []kernel.Chain{
		chain("FORWARD", false, "KUBE-ROUTER-FORWARD", "DOCKER-ISOLATION-STAGE-1", "cali-FORWARD", "KUBE-FORWARD"),
		chain("KUBE-ROUTER-FORWARD", false, "KUBE-POD-FW-ABC", "KUBE-ROUTER-FORWARD"),
		chain("KUBE-POD-FW-ABC", true), chain("KUBE-POD-FW-UNUSED", true),
		chain("DOCKER-ISOLATION-STAGE-1", true), chain("cali-FORWARD", true), chain("KUBE-FORWARD", true),
	}, nil)
	if got, want := fmt.Sprint(w.refuses), "[KUBE-POD-FW-ABC of iptables-nft]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
