package report

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// readers lists programs that only read, whatever their arguments are.
var readers = []string{"[", "arping", "base64", "basename", "cat", "cut", "df", "dig", "dirname", "du",
	"echo", "egrep", "false", "file", "findmnt", "free", "getcap", "getenforce", "getent", "grep", "head", "id", "iostat",
	"ip6tables-legacy-save", "ip6tables-nft-save", "ip6tables-save", "iptables-legacy-save", "iptables-nft-save",
	"iptables-save", "ls", "lsattr", "lsblk", "lscpu", "lsmod", "lsof", "modinfo", "mokutil", "mpstat", "namei",
	"nproc", "nslookup", "nstat", "pgrep", "pidof", "ping", "ping6", "printf", "ps", "pwd", "read", "readelf",
	"readlink", "sestatus", "sha256sum", "sleep", "stat", "systemd-analyze", "tail", "test", "top", "tr",
	"tracepath", "traceroute", "true", "uname", "uniq", "uptime", "virt-what", "vmstat", "wc", "which", "who"}

// rulesChanged lists the options of iptables that change rules.
var rulesChanged = []string{"-A", "-D", "-I", "-R", "-F", "-Z", "-N", "-X", "-P", "-E", "--a", "--d", "--i", "--f",
	"--z", "--r", "--p"}

// readersUnless lists programs that only read, unless an argument is one of these words or begins with one of these
// long options.
var readersUnless = map[string][]string{
	"bridge":    {"add", "del", "delete", "set", "replace", "flush", "append", "-b", "-batch"},
	"conntrack": {"-D", "--delete", "-F", "--flush", "-I", "-U", "--update", "--create"},
	"curl":      {"--request", "--data", "--upload", "--form", "--json", "--remote", "--output", "--config"},
	"dmesg":     {"-C", "-c", "--clear", "--read-clear", "-n", "-E", "-D", "--console"},
	"ethtool": {"-K", "-s", "-G", "-C", "-A", "-L", "-X", "-E", "-N", "-U", "-p", "-r", "-W", "--set", "--reset",
		"--change"},
	"find":            {"-delete", "-exec", "-ok", "-fprint", "-fls"},
	"fuser":           {"-k", "--kill"},
	"hostname":        {"-F", "--file", "-b"},
	"iptables":        rulesChanged,
	"iptables-legacy": rulesChanged,
	"iptables-nft":    rulesChanged,
	"journalctl":      {"--vacuum", "--rotate", "--flush", "--sync", "--relinquish", "--setup", "--update"},
	"nc":              {"-e", "-c", "-l", "--exec", "--sh-exec", "--lua-exec", "--listen"},
	"sort":            {"-o", "--output"},
	"ss":              {"-K", "--kill"},
	"sysctl":          {"-w", "-p", "--system", "-f", "--load", "--write"},
	"tc":              {"add", "del", "delete", "replace", "change", "-b", "-batch"},
	"tcpdump":         {"-w", "-z", "-C", "-G"},
}

// readersWith lists programs that only read if their first words, without options, are these.
var readersWith = map[string][]string{
	"kubectl": {"get", "describe", "logs", "events", "explain", "version", "auth can-i", "auth whoami", "top", "diff",
		"rollout status", "rollout history", "cluster-info", "api-resources", "api-versions"},
	"oc":        {"get", "describe", "logs"},
	"calicoctl": {"get", "ipam show", "ipam check", "node status", "version"},
	"calico-probe": {"run", "explain", "mesh", "checks", "causes", "preflight", "analyze", "diff", "manifests",
		"shell"},
	"systemctl": {"status", "is-system-running", "cat", "show", "is-active", "is-enabled", "is-failed",
		"list-units", "list-timers", "list-unit-files", "list-dependencies"},
	"birdcl":                  {"show"},
	"bpftool":                 {"net show", "net list", "prog show", "prog list"},
	"chronyc":                 {"tracking", "sources"},
	"containerd-shim-runc-v2": {""},
	"crictl": {"ps", "pods", "info", "images", "inspect", "inspectp", "logs", "version", "imagefsinfo",
		"stats"},
	"cscli":           {"decisions list", "bouncers list"},
	"ctr":             {"plugins ls", "plugins list", "version", "images ls", "images check"},
	"docker":          {"info", "ps", "version", "inspect", "images", "logs", "network ls"},
	"fail2ban-client": {"status"},
	"ipset":           {"list"},
	"networkctl":      {"status", "list"},
	"nft":             {"list", "monitor"},
	"nmcli":           {"device show", "device status", "connection show", "general status"},
	"openssl":         {"x509", "s_client", "verify", "version"},
	"resolvectl":      {"status"},
	"runc":            {""},
	"snap":            {"list", "services", "logs"},
	"tailscale":       {"status"},
	"timedatectl":     {"", "status", "timesync-status", "show"},
	"ufw":             {"status"},
	"virsh":           {"net-list", "list", "dumpxml"},
	"wg":              {"show"},
}

// valued lists options whose value is in the next word, for the programs in readersWith.
var valued = []string{"-n", "--namespace", "-l", "-c", "-o", "-s", "-p", "-t", "--node", "--checks", "--context"}

// readsOnly reports whether a shell command changes nothing: every program that it starts, also through ssh, sudo or
// kubectl exec, is known to read only. If the shell parser cannot parse a command, it counts as a change.
func readsOnly(command string) bool {
	file, err := syntax.NewParser().Parse(strings.NewReader(command), "")
	if err != nil {
		return false
	}
	reads := true
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Redirect:
			toFile := strings.Contains(n.Op.String(), ">") && n.Word.Lit() != "/dev/null"
			reads = reads && (!toFile || n.Op == syntax.DplOut && strings.Trim(n.Word.Lit(), "0123456789") == "")
		case *syntax.DeclClause:
			reads = false // export PATH=...
		case *syntax.CallExpr:
			reads = reads && (len(n.Args) == 0 || len(n.Assigns) == 0 && wordsRead(texts(n.Args)))
		}
		return reads
	})
	return reads
}

// texts returns words without their quotes. It does not change shell expansions.
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

// wordsRead reports whether a program with these arguments only reads.
func wordsRead(words []string) bool {
	if len(words) == 0 {
		return true
	}
	folder, name := path.Split(words[0])
	if !slices.Contains([]string{"", "/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/opt/cni/bin/"}, folder) {
		return false
	}
	args := words[1:]
	if reads, starts := startsAnother(name, args); starts {
		return reads
	}
	if reads, known := readsBy(name, args); known {
		return reads
	}
	first := firstWords(args)
	if words, known := readersWith[name]; known {
		return slices.ContainsFunc(words, func(w string) bool {
			return w == first || w != "" && strings.HasPrefix(first+" ", w+" ")
		})
	}
	unless, known := readersUnless[name]
	return known && !slices.ContainsFunc(args, func(a string) bool {
		return slices.ContainsFunc(unless, func(w string) bool {
			return a == w || len(w) > 2 && w[0] == '-' && strings.HasPrefix(a, w)
		})
	})
}

// startsAnother reports whether a program starts the program in its arguments, and whether that program only reads.
func startsAnother(name string, args []string) (reads, starts bool) {
	switch name {
	case "sudo", "timeout", "nice", "watch", "time":
		duration := func(a string) bool { return name == "timeout" && strings.Trim(a, "0123456789smh.") == "" }
		for len(args) > 0 && (strings.HasPrefix(args[0], "-") || duration(args[0])) {
			args = args[1:]
		}
		return wordsRead(args), true
	case "ssh":
		for len(args) > 0 && strings.HasPrefix(args[0], "-") {
			if !slices.Contains(sshValued, args[0]) {
				return false, true // a flag, or an option with its value in one word: the next word may be the host
			}
			args = args[min(2, len(args)):]
		}
		return len(args) < 2 || readsOnly(strings.Join(args[1:], " ")), true
	case "sh", "bash":
		at := slices.Index(args, "-c")
		return at >= 0 && at+1 < len(args) && readsOnly(args[at+1]), true
	case "kubectl", "oc":
		if len(args) > 0 && strings.HasPrefix(args[0], "-") && !slices.Contains([]string{"-n", "--namespace"}, args[0]) {
			return false, true // its value may look like a verb
		}
		if at := slices.Index(args, "--"); at >= 0 && slices.Contains(args[:at], "exec") {
			return wordsRead(args[at+1:]), true
		}
	case "xargs":
		for len(args) > 0 && strings.HasPrefix(args[0], "-") {
			args = args[1:]
		}
		return wordsRead(args), true
	}
	return false, false
}

// readsBy reports whether a program only reads, for programs that need more than a list of words.
func readsBy(name string, args []string) (reads, known bool) {
	first := firstWords(args)
	has := func(part string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, part) })
	}
	switch {
	case slices.Contains(readers, name):
		return true, true
	case name == "kubectl" && strings.HasPrefix(first, "set env ") && slices.Contains(args, "--list"),
		name == "modprobe" && slices.Contains(args, "-n"),
		name == "firewall-cmd" && allBegin(args, "--list", "--state", "--get"):
		return true, true
	case name == "ip":
		return ipReads(args), true
	case name == "awk":
		return !has(">") && !has("|") && !has("system"), true
	case name == "mount", name == "multipath":
		return allBegin(args, "-l"), true
	case name == "date":
		return allBegin(args, "+", "-u", "-R", "-I", "--utc"), true
	case name == "sed":
		return len(args) > 1 && args[0] == "-n" && printsLines.MatchString(args[1]), true
	case name == "openssl" && slices.Contains(args, "-out"), name == "nft" && has(";"), name == "sysctl" && has("="),
		name == "hostname" && first != "", name == "curl" && curlWrites(args):
		return false, true
	}
	return false, false
}

// firstWords returns the arguments without options and their values.
func firstWords(args []string) string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case slices.Contains(valued, a):
			i++
		case !strings.HasPrefix(a, "-"):
			out = append(out, a)
		}
	}
	return strings.Join(out, " ")
}

// allBegin reports whether each argument begins with one of the words.
func allBegin(args []string, with ...string) bool {
	return !slices.ContainsFunc(args, func(a string) bool {
		return !slices.ContainsFunc(with, func(w string) bool { return strings.HasPrefix(a, w) })
	})
}

// printsLines matches scripts of sed that only print, by line number or by match.
var printsLines = regexp.MustCompile(`^(?:/[^/]*/|\d+|\$)(?:,(?:/[^/]*/|\d+|\$))?p$`)

// sshValued lists ssh's options whose value is in the next word.
var sshValued = []string{"-F", "-i", "-J", "-l", "-o", "-p"}

// ipReads reports whether an ip command only reads. ip accepts abbreviated verbs, so this lists the verbs that read.
func ipReads(args []string) bool {
	words := strings.Fields(firstWords(args))
	batch := func(a string) bool { return strings.HasPrefix(a, "-b") && !strings.HasPrefix(a, "-br") }
	if slices.ContainsFunc(args, batch) {
		return false
	}
	switch {
	case len(words) > 0 && words[0] == "monitor":
		return true
	case len(words) > 0 && words[0] == "xfrm":
		words = words[1:]
	}
	return len(words) < 2 || slices.Contains([]string{"show", "list", "ls", "get", "count", "identify", "pids"}, words[1])
}

// curlShort matches curl's short options that send or write, alone or combined in one word.
var curlShort = regexp.MustCompile(`^-[a-zA-Z0-9]*[XdTFOK]`)

// curlWrites reports whether a curl command sends more than a GET or writes a file.
func curlWrites(args []string) bool {
	for i, a := range args {
		if curlShort.MatchString(a) {
			return true
		}
		toFile := strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "o")
		if toFile && (!strings.HasSuffix(a, "o") || i+1 == len(args) || args[i+1] != "/dev/null") {
			return true
		}
	}
	return false
}
