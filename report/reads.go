package report

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Programs that only read, whatever their arguments.
var readers = []string{"awk", "cat", "cut", "date", "df", "dmesg", "du", "echo", "egrep", "false", "file",
	"findmnt", "free", "getent", "grep", "head", "hostname", "id", "iostat", "iptables-legacy-save",
	"iptables-nft-save", "iptables-save", "ip6tables-save", "ldd", "ls", "lsattr", "lsblk", "lsmod", "lsof",
	"mokutil", "nc", "nmap", "nproc", "nslookup", "dig", "namei", "pgrep", "pidof", "ping", "ping6", "printf",
	"ps", "pwd", "read", "readelf", "readlink", "sha256sum", "sleep", "sort", "ss", "stat", "strace", "tail",
	"test", "[", "top", "tr", "traceroute", "tracepath", "true", "uname", "uniq", "uptime", "virt-what",
	"vmstat", "wc", "who", "arping", "openssl", "curl", "mpstat", "ethtool", "tcpdump", "modinfo",
	"getenforce", "base64", "basename", "birdcl", "dirname", "ip6tables-legacy-save", "ip6tables-nft-save",
	"nstat", "resolvectl", "runc", "containerd-shim-runc-v2", "systemd-analyze", "which", "ausearch",
	"sestatus", "bridge", "chronyc", "capsh", "getcap", "lscpu"}

// Programs that only read with some words, by the words of which one must be there.
var readersWith = map[string][]string{
	"kubectl": {"get", "describe", "logs", "events", "explain", "version", "can-i", "whoami", "top", "diff",
		"status", "history", "cluster-info", "api-resources", "api-versions", "--list", "--dry-run=server"},
	"oc":        {"get", "describe", "logs"},
	"calicoctl": {"get", "show", "check", "status", "version"},
	"calico-probe": {"run", "explain", "drops", "mesh", "checks", "causes", "preflight", "analyze", "diff",
		"manifests"},
	"systemctl": {"status", "is-system-running", "cat", "show", "is-active", "is-enabled", "is-failed",
		"list-units", "list-timers", "list-unit-files", "list-dependencies"},
	"journalctl":      {"-u", "-k", "--disk-usage", "-b", "-t", "-n", "--since"},
	"timedatectl":     {"", "status", "timesync-status", "show"},
	"nft":             {"list", "monitor"},
	"iptables":        {"-S", "-L", "-nL", "-nvL", "-vnL"},
	"iptables-nft":    {"-S", "-L", "-nL"},
	"iptables-legacy": {"-S", "-L", "-nL"},
	"tc":              {"show", "-s", "qdisc", "filter"},
	"crictl":          {"ps", "pods", "info", "images", "inspect", "inspectp", "logs", "version", "imagefsinfo", "stats"},
	"ctr":             {"plugins", "version", "images ls", "ls"},
	"docker":          {"info", "ps", "version", "inspect", "images", "logs", "ls"},
	"firewall-cmd":    {"--list-all", "--state", "--get-active-zones", "--list-all-zones"},
	"ufw":             {"status"},
	"fail2ban-client": {"status"},
	"cscli":           {"list"},
	"tailscale":       {"status"},
	"networkctl":      {"status", "list"},
	"virsh":           {"net-list", "list", "dumpxml"},
	"fuser":           {"-v"},
	"modprobe":        {"-n"},
	"mount":           {""},
	"sysctl":          {""},
	"nmcli":           {"show", "status"},
	"wg":              {"show"},
	"bpftool":         {"show", "list"},
	"conntrack":       {"-L", "-S", "-C"},
	"ipset":           {"list"},
	"snap":            {"list", "services", "logs"},
	"multipath":       {"-ll"},
	"find":            {""},
	"sed":             {"-n", "-E", "-e"},

	"ip": {"show", "", "get"},
}

// Words with which one of those programs changes something all the same.
var changing = map[string][]string{
	"kubectl": {"delete", "patch", "apply", "annotate", "label", "set", "restart", "edit", "create",
		"replace", "scale", "undo"},
	"calicoctl":  {"apply", "delete", "patch", "replace", "release", "create"},
	"nft":        {"add", "delete", "flush", "insert", "replace"},
	"ip":         {"add", "del", "delete", "set", "flush", "change", "replace"},
	"tc":         {"add", "del", "delete", "replace", "change"},
	"journalctl": {"--vacuum-size", "--vacuum-time", "--rotate"},
	"mount":      {"-o", "-t", "--bind"},
	"sysctl":     {"-w", "-p", "--system"},
	"find":       {"-delete", "-exec"},
	"sed":        {"-i"},
	"crictl":     {"rm", "rmp", "rmi", "stop", "stopp"},
	"fuser":      {"-k"},
	"iptables":   {"-D", "-I", "-A", "-F", "-P", "-X"},
	"ufw":        {"default", "allow", "disable"},
	"conntrack":  {"-D", "-F"},
}

// readsOnly reports whether a shell command changes nothing: every program that it starts, also by ssh, sudo or
// kubectl exec, is known to read only. A command that the shell cannot parse counts as one that changes something.
func readsOnly(command string) bool {
	file, err := syntax.NewParser().Parse(strings.NewReader(command), "")
	if err != nil {
		return false
	}
	reads := true
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Redirect:
			writes := n.Op == syntax.RdrOut || n.Op == syntax.AppOut || n.Op == syntax.RdrAll || n.Op == syntax.ClbOut
			reads = reads && (!writes || n.Word.Lit() == "/dev/null")
		case *syntax.CallExpr:
			reads = reads && (len(n.Args) == 0 || wordsRead(texts(n.Args)))
		}
		return reads
	})
	return reads
}

// texts are words without their quotes. What the shell would put in stands as it is written.
func texts(words []*syntax.Word) []string {
	var out []string
	for _, w := range words {
		var b strings.Builder
		for _, part := range w.Parts {
			switch p := part.(type) {
			case *syntax.Lit:
				b.WriteString(p.Value)
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				for _, inner := range p.Parts {
					if lit, ok := inner.(*syntax.Lit); ok {
						b.WriteString(strings.NewReplacer(`\$`, "$", `\"`, `"`, "\\`", "`").Replace(lit.Value))
						continue
					}
					b.WriteString("X")
				}
			default:
				b.WriteString("X")
			}
		}
		out = append(out, b.String())
	}
	return out
}

// wordsRead reports whether a program with its arguments reads only.
func wordsRead(words []string) bool {
	if len(words) == 0 {
		return true
	}
	name, args := words[0][strings.LastIndex(words[0], "/")+1:], words[1:]
	switch name {
	case "sudo", "timeout", "nice", "watch", "time":
		for len(args) > 0 && (strings.HasPrefix(args[0], "-") || strings.Trim(args[0], "0123456789smh.") == "") {
			args = args[1:]
		}
		return wordsRead(args)
	case "ssh":
		for len(args) > 0 && strings.HasPrefix(args[0], "-") {
			args = args[min(2, len(args)):]
		}
		return len(args) < 2 || readsOnly(strings.Join(args[1:], " "))
	case "sh", "bash":
		at := slices.Index(args, "-c")
		return at >= 0 && at+1 < len(args) && readsOnly(args[at+1])
	case "kubectl", "oc":
		if at := slices.Index(args, "--"); at >= 0 && slices.Contains(args[:at], "exec") {
			return wordsRead(args[at+1:])
		}
	case "xargs":
		for len(args) > 0 && strings.HasPrefix(args[0], "-") {
			args = args[1:]
		}
		return wordsRead(args)
	}
	if slices.Contains(readers, name) {
		return true
	}
	if name == "kubectl" && (slices.Contains(args, "--list") || slices.Contains(args, "can-i")) {
		return true
	}
	wanted, known := readersWith[name]
	if !known || slices.ContainsFunc(args, func(a string) bool {
		word, _, _ := strings.Cut(a, "=")
		return slices.Contains(changing[name], word)
	}) {
		return false
	}
	return slices.Contains(wanted, "") ||
		slices.ContainsFunc(args, func(a string) bool { return slices.Contains(wanted, a) })
}
