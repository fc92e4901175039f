package cause

import (
	"regexp"
	"strings"
	"testing"
)

// What takes root on a node: programs, and what others are asked to do.
var (
	takesRoot = regexp.MustCompile(`^(journalctl|crictl|ctr|docker|nft|ip6?tables\S*|fuser|dmesg|kill|pkill|mv|rm|` +
		`swapoff|firewall-cmd|openssl .*-in /|kubeadm|du|sed -i|ss -\w*p|sysctl -w|ip link set|` +
		`systemctl (restart|start|stop|mask|reboot|status|edit))\b`)
	// What is run at the administrator's own place, or says itself where it runs.
	atHome = regexp.MustCompile(`^(kubectl|calicoctl|calico-probe|oc|ssh|ping|nc|grep|head|tail|sort|base64|openssl)\b`)
	parts  = regexp.MustCompile(`\s*(;|\|\||&&|\|)\s*`)
	// What grep looks for is no command.
	pattern = regexp.MustCompile(`(grep [^'|;]*)'[^']*'`)
	// A command in a comment.
	quoted = regexp.MustCompile(`'([a-z][^']*)'`)
)

// needing is what of a command is not as it has to be typed: without sudo on a node, or on no node at all.
func needing(line string) string {
	command, comment, _ := strings.Cut(line, "  #")
	if strings.HasPrefix(line, "#") {
		command, comment = "", line
	}
	for _, found := range quoted.FindAllStringSubmatch(comment, -1) {
		if takesRoot.MatchString(found[1]) {
			return found[1]
		}
	}
	remote := strings.HasPrefix(command, "ssh ")
	if remote && !strings.HasPrefix(command, "ssh {") {
		return command
	}
	for _, part := range parts.Split(pattern.ReplaceAllString(command, "$1"), -1) {
		part, there := strings.Trim(part, `"' `), remote
		if _, after, is := strings.Cut(part, "} "); is && strings.HasPrefix(part, "ssh {") {
			part, there = strings.Trim(after, `"' `), true
		}
		if there && takesRoot.MatchString(strings.TrimPrefix(part, "timeout 5 ")) ||
			!there && part != "" && !atHome.MatchString(part) {
			return part
		}
	}
	return ""
}

// TestRoot wants each command of a fix that runs on a node to say on which, and to be allowed there: one that takes
// root has sudo.
func TestRoot(t *testing.T) {
	t.Parallel()
	for name, fix := range fixesOf(t) {
		lines := append(append([]string{}, fix.Manifest...), fix.Operator...)
		for _, only := range fix.OnlyIf {
			lines = append(append(lines, only.Manifest...), only.Operator...)
		}
		for _, line := range lines {
			if bad := needing(line); bad != "" {
				t.Errorf("%s: %q in %q", name, bad, line)
			}
		}
	}
	for _, line := range []string{"ssh {node} journalctl -u x", "sudo systemctl restart x", "ssh {node} 'sudo ls; nft list'",
		"ssh {node} ls  # then 'systemctl mask NAME'", "# on a node: 'ctr images import x'", "ssh NODE ls"} {
		if needing(line) == "" {
			t.Errorf("let through: %s", line)
		}
	}
	for _, line := range []string{"ssh {node} ip route get x", "kubectl get nodes | grep x", "ssh {node} sudo timeout 5 crictl version; ssh {node} sudo ls"} {
		if bad := needing(line); bad != "" {
			t.Errorf("%s: %q", line, bad)
		}
	}
}
