package netpolicy

import (
	"net/netip"
	"testing"
)

// TestAbout checks each condition of a Calico rule.
func TestAbout(t *testing.T) {
	t.Parallel()
	p := Policies{Sets: []Set{{labels: map[string]string{"set": "a"},
		nets: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}},
		Names: map[string]map[string]string{"shop": {"team": "x"}}}
	pod := End{Namespace: "shop", Labels: withCalicos("shop", map[string]string{"app": "web"}),
		Addrs: []netip.Addr{netip.MustParseAddr("10.244.1.7")}, Ports: map[string]int{"TCP/http": 8080}}
	pod.Labels[labelAccount] = "robot"
	feed := End{Addrs: []netip.Addr{netip.MustParseAddr("203.0.113.5")}}
	f := Flow{Protocol: ProtocolTCP, Port: 8080, From: feed, To: pod}
	type m = map[string]any
	for name, one := range map[string]struct {
		rule m
		of   string
		want answer
	}{
		"nothing":                  {m{}, "", yes},
		"protocol":                 {m{"protocol": "UDP"}, "", no},
		"not protocol":             {m{"notProtocol": "TCP"}, "", no},
		"version":                  {m{"ipVersion": int64(6)}, "", no},
		"icmp":                     {m{"protocol": "TCP", "icmp": m{"type": int64(8)}}, "", no},
		"a range":                  {m{"destination": m{"ports": []any{"8000:8100"}}}, "", yes},
		"not a range":              {m{"destination": m{"notPorts": []any{"8000:8100"}}}, "", no},
		"a name":                   {m{"destination": m{"ports": []any{"http"}}}, "", yes},
		"another name":             {m{"destination": m{"ports": []any{"https"}}}, "", no},
		"source port":              {m{"source": m{"ports": []any{int64(53)}}}, "", maybe},
		"set":                      {m{"source": m{"selector": "set == 'a'"}}, "", yes},
		"set of no namespace":      {m{"source": m{"selector": "set == 'a'", "namespaceSelector": "global()"}}, "", yes},
		"set in a namespace":       {m{"source": m{"selector": "set == 'a'"}}, "shop", no},
		"not set":                  {m{"source": m{"notSelector": "set == 'a'"}}, "", no},
		"team":                     {m{"destination": m{"namespaceSelector": "team == 'x'"}}, "", yes},
		"all namespaces":           {m{"destination": m{"namespaceSelector": "all()"}}, "", yes},
		"its own namespace":        {m{"destination": m{"selector": "app == 'web'"}}, "other", no},
		"account":                  {m{"destination": m{"serviceAccounts": m{"names": []any{"robot"}}}}, "", yes},
		"account by label":         {m{"destination": m{"serviceAccounts": m{"selector": "a == 'b'"}}}, "", maybe},
		"an address that may be a": {m{"source": m{"selector": "has(role)"}}, "", maybe},
		"Service":                  {m{"destination": m{"services": m{"name": "web", "namespace": "shop"}}}, "", maybe},
		"unreadable network":       {m{"source": m{"nets": []any{"203.0.113.0/24", "x"}}}, "", maybe},
	} {
		r := calicoRule(one.of, one.rule)
		if got := p.about(&r, &f); got != one.want {
			t.Errorf("%s: %v, want %v", name, got, one.want)
		}
	}
}
