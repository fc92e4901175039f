package ask

import (
	"maps"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

func TestCheckLinks(t *testing.T) {
	t.Parallel()
	conf := "proc/sys/net/ipv4/conf/"
	well := map[string]string{"proc/sys/net/ipv4/ip_forward": "1\n", conf + "all/proxy_arp": "0\n",
		conf + "cali1/proxy_arp": "1\n", conf + "cali1/forwarding": "1\n", conf + "eth0/forwarding": "1\n",
		"proc/sys/net/ipv6/conf/cali1/disable_ipv6": "0\n", "proc/sys/net/ipv6/conf/eth0/disable_ipv6": "0\n"}
	for name, c := range map[string]struct {
		set  map[string]string
		want string // the target of the failure, "" = none
	}{
		"well":             {nil, ""},
		"no ARP":           {map[string]string{conf + "cali1/proxy_arp": "0\n"}, "proxy_arp of cali*"},
		"ARP by all":       {map[string]string{conf + "cali1/proxy_arp": "0\n", conf + "all/proxy_arp": "1\n"}, ""},
		"no way out":       {map[string]string{conf + "cali1/forwarding": "0\n"}, "forwarding of cali*"},
		"no way in":        {map[string]string{conf + "eth0/forwarding": "0\n"}, "forwarding of eth0"},
		"forwards nothing": {map[string]string{conf + "eth0/forwarding": "0\n", "proc/sys/net/ipv4/ip_forward": "0\n"}, ""},
		"no IPv6":          {map[string]string{"proc/sys/net/ipv6/conf/cali1/disable_ipv6": "1\n"}, "disable_ipv6 of cali*"},
	} {
		files := maps.Clone(well)
		maps.Copy(files, c.set)
		got := checkLinks(checktest.Node(t, files), []string{"cali1"}, []string{"eth0"}, true)
		if len(got) != 1 || (got[0].Status == probe.OK) != (c.want == "") || got[0].Target != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}
