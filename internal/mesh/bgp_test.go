package mesh

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestSessions has nodes report sessions with each other and with an external peer, changes the reports, and requires
// that failed sessions are named.
func TestSessions(t *testing.T) {
	t.Parallel()
	const count = 6
	nodes, at := cluster(count, 1), map[netip.Addr]int{}
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }
	for i := range nodes {
		at[addr(i)] = i
	}
	tor := netip.MustParseAddr("10.9.9.9")
	for name, c := range map[string]struct {
		drop  func(SessionReport) bool // sessions that are not reported
		down  func(SessionReport) bool
		quiet int // a node that tells nothing, 0 = none
		want  []string
	}{
		"nothing": {},
		"a pair": {down: func(s SessionReport) bool {
			return s.Node == 1 && s.Peer == addr(2) || s.Node == 2 && s.Peer == addr(1)
		},
			want: []string{"pair n001 n002 2/2 Idle"}},
		"one side is down": {down: func(s SessionReport) bool { return s.Node == 4 && s.Peer == addr(3) },
			want: []string{"pair n004 n003 1/2 Idle"}},
		"one side is not configured, and the other down": {
			drop: func(s SessionReport) bool { return s.Node == 4 && s.Peer == addr(3) },
			down: func(s SessionReport) bool { return s.Node == 3 && s.Peer == addr(4) },
			want: []string{"pair n003 n004 1/1 Idle; n004 has no session with it"}},
		"one side is not there, and the other up": {drop: func(s SessionReport) bool { return s.Node == 4 && s.Peer == addr(3) },
			want: []string{"pair n004 n003 1/2 it has no session with n003, which reports up"}},
		"a node": {down: func(s SessionReport) bool { return s.Node == 2 || s.Peer == addr(2) },
			want: []string{"node n002 11/11 Idle"}}, // five of its sessions at both ends, and one with the switch
		"a node that does not tell": {quiet: 2, down: func(s SessionReport) bool { return s.Peer == addr(2) },
			want: []string{"node n002 5/5 Idle"}},
		"the switch": {down: func(s SessionReport) bool { return s.Peer == tor }, want: []string{"peer 10.9.9.9 6/6 Idle"}},
		"the switch at one node": {down: func(s SessionReport) bool { return s.Peer == tor && s.Node == 5 },
			want: []string{"pair n005 10.9.9.9 1/1 Idle"}},
	} {
		var told []SessionReport
		whole := map[int]bool{}
		for i := range nodes {
			if c.quiet > 0 && i == c.quiet {
				continue
			}
			whole[i] = true
			peers := []netip.Addr{tor}
			for j := range nodes {
				if j != i {
					peers = append(peers, addr(j))
				}
			}
			for _, peer := range peers {
				s := SessionReport{Node: i, Peer: peer, Up: true, Saw: "up"}
				if c.drop != nil && c.drop(s) {
					continue
				}
				if c.down != nil && c.down(s) {
					s.Up, s.Saw = false, "Idle"
				}
				told = append(told, s)
			}
		}
		plane := Sessions(nodes, told, at, whole)
		var got []string
		for _, f := range plane.Findings {
			text := fmt.Sprintf("%s %s %d/%d", f.Kind, strings.Join(f.Names, " "), f.Failed, f.Of)
			i := slices.IndexFunc(plane.Trials, func(t Trial) bool {
				return t.Failed && slices.Contains(f.Names, t.From) && (len(f.Names) == 1 || t.To == f.Names[1]) ||
					t.Failed && len(f.Names) == 1 && t.To == f.Names[0]
			})
			got = append(got, text+" "+plane.Trials[i].Saw)
		}
		if !slices.Equal(got, c.want) || !slices.Equal(plane.Outside, []string{tor.String()}) {
			t.Errorf("%s: %q, want %q, peers outside %q", name, got, c.want, plane.Outside)
		}
	}
}
