package tally

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestTallyForms reads the formats of counters in /proc, and rejects others.
func TestTallyForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parse func(table, text string) ([]Tally, error)
		text  string
		want  map[string]uint64
	}{
		"snmp": {byPairs, "Ip: Forwarding InDiscards\nIp: 1 7\nTcp: MaxConn InErrs\nTcp: -1 3\n",
			map[string]uint64{"IpForwarding": 1, "IpInDiscards": 7, "TcpInErrs": 3}},
		"snmp6":     {byName, "Ip6InNoRoutes   \t4\n", map[string]uint64{"Ip6InNoRoutes": 4}},
		"conntrack": {byCPU, "entries drop\n00000002 0000000a\n00000002 00000001\n", map[string]uint64{"entries": 4, "drop": 11}},
		"softnet": {ofSoftnet, "0f 02 00 00 00 00 00 00 00 00 03 00\n0f 01 00 00 00 00 00 00 00 00 00 00\n",
			map[string]uint64{"dropped": 3, "flow_limit_count": 3}},
		"other names":   {byPairs, "Ip: InDiscards\nTcp: 1\n", nil},
		"a word":        {byName, "Ip6InNoRoutes many\n", nil},
		"fewer numbers": {byCPU, "entries drop\n00000002\n", nil},
		"no number":     {ofSoftnet, "0f xx\n", nil},
	} {
		got, err := c.parse("t", c.text)
		if c.want == nil {
			if !errors.Is(err, errTally) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			continue
		}
		read := map[string]uint64{}
		for _, one := range got {
			read[one.Name] = one.N
		}
		if err != nil || !maps.Equal(read, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, read, err, c.want)
		}
	}
}

// TestTalliesInPart checks that a table in an unknown format is named, and the others are read.
func TestTalliesInPart(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(root, "net"), 0o755))
	for name, text := range map[string]string{"snmp": "nonsense\n", "snmp6": "nonsense\n", "netstat": "TcpExt: ListenDrops\nTcpExt: 5\n"} {
		must.Do(t, os.WriteFile(filepath.Join(root, "net", name), []byte(text), 0o600))
	}
	got, err := All(&probe.Host{Proc: root})
	if !slices.Contains(got, Tally{Table: Netstat, Name: "TcpExtListenDrops", N: 5}) {
		t.Error("what can be read is not")
	}
	if err == nil || !strings.Contains(err.Error(), "net/snmp6") {
		t.Errorf("%v", err)
	}
}
