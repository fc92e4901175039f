package ask

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// maxFlushers is the maximum number of processes in a report.
const maxFlushers = 4

var (
	// flushes matches a command that removes foreign rules: nft flush or delete, iptables -F or -X, and the restore of
	// a whole ruleset. A shell loop contains it as text.
	flushes = regexp.MustCompile(`\bnft\b[^;|&]*\b(?:flush|delete table|destroy table)\b|\bnft (?:-\S+ )*-f\b|` +
		`\bip6?tables(?:-nft|-legacy)?\b[^;|&]* (?:-F|--flush|-X|--delete-chain)\b|\bip6?tables(?:-nft|-legacy)?-restore\b`)
	// keepsOthers matches a restore that keeps foreign rules, as Felix and kube-proxy run it.
	keepsOthers = regexp.MustCompile(` (?:--noflush|-n)\b`)
)

// firewallFlushers lists processes of the node that flush its firewall or load a whole one. Scripts of agents and
// hardening tools do so repeatedly. It returns an empty list if processes are not visible.
func firewallFlushers(h *probe.Host) []string {
	if !node.SeesProcesses(h) {
		return nil
	}
	all, err := node.ProcessesOf(h, node.InNodesNetwork, func(string) bool { return true })
	if err != nil {
		return nil
	}
	out := []string{}
	for _, p := range all {
		line := strings.Join(p.Args, " ")
		if flushes.MatchString(line) && !keepsOthers.MatchString(line) {
			out = append(out, probe.Cut(probe.OneLine(probe.Masked("process "+strconv.Itoa(p.PID)+": "+line)), node.MaxText))
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxFlushers)]
}
