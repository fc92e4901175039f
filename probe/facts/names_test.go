package facts

import "testing"

func TestNameServerSilent(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`Head "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on 10.0.0.2:53: read udp 10.88.0.11:41000->10.0.0.2:53: i/o timeout`: "10.0.0.2:53",
		`dial tcp: lookup quay.io on 127.0.0.53:53: server misbehaving`:                                                                                      "127.0.0.53:53",
		`dial tcp: lookup registry.k8s.io on [::1]:53: read udp [::1]:34567->[::1]:53: read: connection refused`:                                             "[::1]:53",
		`dial tcp: lookup quay.io: Temporary failure in name resolution`:                                                                                     "a resolver",
		`dial tcp: lookup regstry.example on 10.0.0.2:53: no such host`:                                                                                      "",
		`dial tcp 34.1.2.3:443: i/o timeout`:                                                                                                                 "",
	} {
		if got := NameServerSilent(message); got != want {
			t.Errorf("%s: %q", message, got)
		}
	}
}
