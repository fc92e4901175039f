package ask

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// maxFlushers is the maximum number of processes to report.
const maxFlushers = 4

var (
	// flushes matches a command that removes rules of other owners: nft flush or delete, iptables -F or -X, and a
	// command that restores a whole ruleset. In a shell loop, the command is part of a longer text.
	flushes = regexp.MustCompile(`\bnft\b[^;|&]*\b(?:flush|delete table|destroy table)\b|\bnft (?:-\S+ )*-f\b|` +
		`\bip6?tables(?:-nft|-legacy)?\b[^;|&]* (?:-F|--flush|-X|--delete-chain)\b|\bip6?tables(?:-nft|-legacy)?-restore\b`)
	// keepsOthers matches a restore command that keeps the rules of other owners. Felix and
	// kube-proxy use such commands.
	keepsOthers = regexp.MustCompile(` (?:--noflush|-n)\b`)
)

// firewallFlushers lists processes on the node that flush the node's firewall or load a whole firewall. Scripts that
// belong to agents and hardening tools do so repeatedly. If processes are not visible, it returns an empty list.
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
