//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// enters starts the client and a shell on the node.
func (p *screen) enters(node string, args ...string) {
	p.t.Helper()
	p.client("shell --node " + node + " " + strings.Join(args, " "))
	p.wantsLast(node + ">")
	p.enter("sh")
	p.wants("your commands are not read-only; exit or Ctrl-D returns, Enter ~ . leaves a hung shell")
}

// unmade returns the modes that full-screen programs left set in the terminal.
func (p *screen) unmade() string {
	return strings.TrimSpace(p.must("display-message", "-p", "other=#{alternate_on} cursor=#{cursor_flag} mouse=#{mouse_any_flag} keys=#{keypad_cursor_flag}"))
}

// makes makes of the terminal what full-screen programs make of it.
const (
	shMakes = `printf '\033[?1049h\033[?25l\033[?2004h\033[?1002h\033[?1006h\033[?1h\033[3;9r'`
	shMade  = "other=1 cursor=0 mouse=1 keys=1"
	shPlain = "other=0 cursor=1 mouse=0 keys=0"
)

// isMade waits until the terminal is in a state.
func (p *screen) isMade(want string) {
	p.t.Helper()
	eventually(p.t, 60*time.Second, func() string {
		if is := p.unmade(); is != want {
			return fmt.Sprintf("the terminal is %s, not %s:\n%s", is, want, p.shows())
		}
		return ""
	})
}

// TestSh opens a shell on the node by every access method. The shell must be the node's, use the user's terminal with
// its size and keys, and restore it.
func TestSh(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		way, node string
		args      []string
	}{
		{"pod", "node-a", nil}, {"ephemeral", "node-b", nil}, {"ssh", "node-a", bySSH(t)}, {"local", host, nil},
	} {
		t.Run(c.way, func(t *testing.T) {
			p := newScreen(t)
			p.enters(c.node, append([]string{"--via", c.way}, c.args...)...)
			p.enter("echo on=$(hostname) size=$(stty size) $TERM, id=$(id -u) $(tty)")
			p.wants("on=" + c.node + " size=30 110 tmux-256color, id=0 /dev/pts/")
			if c.way == "pod" {
				shAudited(t)
				shUnlogged(t, "id=0 /dev/pts/")
			}
			p.resize(90, 20)
			p.enter(`until [ "$(stty size)" = "20 90" ]; do sleep .1; done; echo re''sized`)
			p.wants("resized")
			// A full-screen program must place the cursor, and receive every key unchanged, including Ctrl-C.
			p.enter(`clear; stty raw -echo; printf '\033[5;10Hrow''5'; k=$(dd bs=1 count=5 2>/dev/null | od -An -c | tr -d ' \n'); stty sane; printf '\r\n%s\n' "keys=$k"`)
			p.wants("row5")
			if line := strings.Split(p.must("capture-pane", "-p"), "\n")[4]; !strings.HasPrefix(line,
				strings.Repeat(" ", 9)+"row5") {
				t.Errorf("the fifth row is %q", line)
			}
			p.press("C-c", "Up", "C-d")
			p.wants(`keys=003033[A004`)
			p.enter("sh -c \"echo slee''ping; exec sleep 300\"; echo in''terrupted=$?")
			p.wants("sleeping")
			p.press("C-c")
			p.enter("echo al''ive")
			p.wants("alive")
			p.resize(110, 30)
			p.enter("exit 3")
			p.wantsLast(c.node + ">")
			// The first key after it is the prompt's.
			p.enter("sh -c 'echo out; exit 4'")
			p.wants("the command ended with exit code 4")
			p.wantsLast(c.node + ">")
			p.enter(`sh -c 'printf "said\033[2J\033]0;title\007\n"; echo term=$TERM $(tty)'`)
			p.wants("said?[2J?]0;title?\nterm=dumb /dev/pts/") // one line below the other, though the terminal is raw
			p.wantsLast(c.node + ">")
			p.enter("exit")
			p.left(0)
			nothingLeft(t)
		})
	}
}

// shAudited requires that a shell's pod states its purpose.
func shAudited(t *testing.T) {
	t.Helper()
	pods, err := kube(t).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"})
	if err != nil {
		t.Fatal(err)
	}
	plain, able := 0, 0
	for _, pod := range pods.Items {
		c := pod.Spec.Containers[0]
		switch {
		case pod.Annotations["calico-probe.io/shell"] == "" && c.VolumeMounts[0].ReadOnly &&
			c.SecurityContext.Privileged == nil:
			plain++
		case pod.Annotations["calico-probe.io/shell"] != "" && !c.VolumeMounts[0].ReadOnly && *c.SecurityContext.Privileged:
			able++
		}
	}
	if plain != 1 || able != 1 || len(pods.Items) != 2 {
		t.Errorf("%d pods, %d that only look, %d for a shell", len(pods.Items), plain, able)
	}
}

// shUnlogged requires that no log of a probe's container contains a text.
func shUnlogged(t *testing.T, text string) {
	t.Helper()
	pods, err := kube(t).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"})
	if err != nil {
		t.Fatal(err)
	}
	sealed := 0
	for _, pod := range pods.Items {
		log, err := kube(t).CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), text) {
			t.Errorf("%q is in the log of %s", text, pod.Name)
		}
		sealed += strings.Count(string(log), `"sealed":true`)
	}
	if sealed == 0 {
		t.Error("nothing sealed is in any log: this looks in the wrong place")
	}
}

// TestShLeft leaves shells by Enter ~ . while a hanging program controls the terminal, even if the connection is cut.
// It leaves a shell whose probe does not start by Ctrl-C.
func TestShLeft(t *testing.T) {
	relay := newRelay(t)
	p := newScreen(t, "KUBECONFIG="+relay.kubeconfig(t))
	p.enters("node-a", "--via", "pod")
	p.enter(shMakes + "; trap '' INT HUP TERM; sleep 31234")
	p.isMade(shMade)
	p.press("C-c")
	p.press("Enter")
	p.types("~.")
	p.wants("left the shell: ending the programs in it")
	p.wantsLast("node-a>")
	p.isMade(shPlain)
	if shRuns(t, "node-a", "31234") {
		t.Error("it still runs")
	}

	p.enter("sh")
	p.wantsLast("root@node-a:/root#")
	p.enter("echo si''tting")
	p.wants("sitting")
	relay.away(true)
	p.press("Enter")
	p.types("~.")
	p.wants("left the shell: ending the programs in it")
	relay.away(false)
	p.wantsLast("node-a>")
	p.enter("exit")
	p.left(0)
	nothingLeft(t)
}

// TestShToolboxOnce requires one toolbox container in calico-node's pod, regardless of how often a session uses it:
// ephemeral containers cannot be removed.
func TestShToolboxOnce(t *testing.T) {
	slow(t)
	mustSandbox(t, "load", file(".cache/toolbox-here.tar"))
	count := func() int {
		pods, err := kube(t).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=node-b"})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, pod := range pods.Items {
			n += len(pod.Spec.EphemeralContainers)
		}
		return n
	}
	before := count()
	a := call(t, "shell", "--node", "node-b", "--via", "ephemeral", "-c", "sh --toolbox -- echo one; sh --toolbox -- echo two; sh --toolbox -- echo three")
	if a.exit != 0 || a.stdout != "one\ntwo\nthree\n" {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	if made := count() - before; made != 2 {
		t.Errorf("%d containers were made, not the probe's and the toolbox's", made)
	}
	nothingLeft(t)
}

// TestShMounts checks what is documented about mounts in a shell: which access methods show the node's mounts.
func TestShMounts(t *testing.T) {
	slow(t)
	for way, here := range map[string]bool{"pod": false, "ephemeral": false, "ssh": true} {
		at := "/run/sh-" + way
		t.Cleanup(func() {
			mustSandbox(t, "exec", "node-a", "--", "sh", "-c", "while umount "+at+"; do :; done 2>/dev/null; rmdir "+at)
		})
		args := []string{"shell", "--node", "node-a", "--via", way, "-c", "sh -c 'mkdir -p " + at + "; mount -t tmpfs shells " + at + "; nsenter -t 1 -m mount -t tmpfs nodes " + at + "'"}
		if way == "ssh" {
			args = append(args, bySSH(t)...)
		}
		if a := call(t, args...); a.exit != 0 {
			t.Errorf("%s: exit %d\n%s%s", way, a.exit, a.stdout, a.stderr)
		}
		mounts := mustSandbox(t, "exec", "node-a", "--", "nsenter", "-t", "1", "-m", "cat", "/proc/mounts")
		if got := strings.Contains(mounts, "shells "+at+" "); got != here {
			t.Errorf("by %s a mount of the shell is the node's: %v", way, got)
		}
		if !strings.Contains(mounts, "nodes "+at+" ") {
			t.Errorf("by %s nsenter does not mount on the node:\n%s", way, mounts)
		}
	}
}

// TestShBrought stops, by Ctrl-C, a shell whose probe was lost and does not return.
func TestShBrought(t *testing.T) {
	slow(t)
	p := newScreen(t)
	p.enters("node-a", append([]string{"--via", "ssh"}, bySSH(t)...)...)
	p.enter("exit")
	p.wantsLast("node-a>")
	mustSandbox(t, "exec", "node-a", "--", "sh", "-c", "kill -STOP $(pgrep -o -x sshd)")
	t.Cleanup(func() { mustSandbox(t, "exec", "node-a", "--", "sh", "-c", "kill -CONT $(pgrep -o -x sshd)") })
	shell(t, "node-a", "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline) in *session*way\\ ssh*) kill -9 ${p#/proc/};; esac; done 2>/dev/null; true")
	p.enter("sh")
	if p.finds(`placing another|broke off`)[0] == "broke off" { // it was asked before its end was seen
		p.enter("sh")
		p.wants("placing another")
	}
	p.press("C-c")
	p.finds(`node-a( \(no probe\))?>\s*$`) // the latter once it was tried
	p.enter("exit")
	p.left(0)
}

// TestShCommand runs commands in scripts, with their exit codes.
func TestShCommand(t *testing.T) {
	for script, want := range map[string]answer{
		"sh -- hostname":                     {exit: 0, stdout: "node-a\n"},
		"sh -c 'seq 3 | tail -1; tty'":       {exit: 3, stdout: "3\nnot a tty\n", stderr: "exit code 1"},
		"sh -c 'seq 100000' | tail -1":       {exit: 0, stdout: "100000\n"},
		"sh -c 'exit 7'; sh -- echo goes on": {exit: 3, stdout: "goes on\n", stderr: "exit code 7"},
		"sh":                                 {exit: 2, stderr: "needs a terminal"},
		"sh | cat":                           {exit: 2, stderr: "cannot be piped"},
		"sh uptime":                          {exit: 2, stderr: "sh does not take"},
	} {
		a := call(t, "shell", "--node", "node-a", "--via", "pod", "-c", script)
		if a.exit != want.exit || a.stdout != want.stdout || !strings.Contains(a.stderr, want.stderr) {
			t.Errorf("%s: exit %d\n%s%s", script, a.exit, a.stdout, a.stderr)
		}
	}
	nothingLeft(t)
}

// TestShToolbox uses the toolbox on a node without a shell.
func TestShToolbox(t *testing.T) {
	slow(t)
	mustSandbox(t, "load", file(".cache/toolbox-here.tar"))
	hidden := []string{"/usr/bin/bash", "/usr/bin/dash"} // in the node's own layer of /usr
	back := sync.OnceFunc(func() {
		for _, name := range hidden {
			mustSandbox(t, "exec", "node-b", "--", "mv", name+".away", name)
		}
	})
	t.Cleanup(back)
	for _, name := range hidden {
		mustSandbox(t, "exec", "node-b", "--", "mv", name, name+".away")
	}
	p := newScreen(t)
	p.enters("node-b", "--via", "pod")
	p.wants("no shell on node-b; using the toolbox instead")
	p.wants("in the toolbox on node-b, whose files are below /host")
	p.enter("echo $(hostname) $(stty size) $(cat /host/etc/hostname /etc/passwd | wc -l) $(command -v tcpdump)")
	p.wants("node-b 30 110 ")
	p.wants("/usr/bin/tcpdump")
	p.enter("exit")
	p.wantsLast("node-b>")
	p.enter("sh --toolbox -c 'ip -br link show lo; chroot /host uname -n'")
	p.wants("LOOPBACK")
	p.wantsLast("node-b>")
	p.enter("exit")
	p.left(0)
	a := call(t, "shell", "--node", "node-b", "--via", "pod", "--toolbox-image", "ghcr.io/calico-probe/toolbox:none", "-c", "sh -- true")
	if a.exit != 5 || !strings.Contains(a.stderr, "name another image with --toolbox-image") {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	back()
	nothingLeft(t)
}

// shTools is how the main program of each package of the toolbox says that it can run.
var shTools = map[string]string{
	"base-files": "grep -q debian /etc/os-release && grep -q base-files /var/lib/dpkg/status", // what scanners read
	"bash":       "bash --version", "busybox-static": "busybox true", "ca-certificates": "test -s /etc/ssl/certs/ca-certificates.crt",
	"conntrack": "conntrack --version", "coreutils": "ls --version", "curl": "curl --version",
	"ethtool": "ethtool --version",
	"ipset":   "ipset list -n", "iproute2": "ip -br link", "iptables": "iptables -V",
	"iputils-ping":  "ping -c 1 127.0.0.1",
	"knot-dnsutils": "dig -V", "less": "less --version", "lsof": "lsof -v",
	"nftables": "nft list tables", "procps": "ps -ef",
	"strace": "strace -V", "tcpdump": "tcpdump --version", "util-linux": "nsenter -t 1 -m true",
	"vim-tiny": "vi --version",
}

// TestShTools runs the main program of every package of the toolbox there.
func TestShTools(t *testing.T) {
	mustSandbox(t, "load", file(".cache/toolbox-here.tar"))
	packages, err := os.ReadFile(file("images/toolbox.packages"))
	if err != nil {
		t.Fatal(err)
	}
	script := ""
	for name := range strings.FieldsSeq(string(packages)) {
		run := shTools[name]
		if run == "" {
			t.Errorf("nothing is known that %s should run", name)
			continue
		}
		script += fmt.Sprintf("out=$(%s 2>&1) && echo %s runs || echo %s: exit code $?, $out; ", run, name, name)
	}
	a := call(t, "shell", "--node", "node-a", "--via", "pod", "-c",
		`sh --toolbox -c "`+strings.ReplaceAll(script, "$", `\$`)+`"`)
	for name := range strings.FieldsSeq(string(packages)) {
		if !strings.Contains(a.stdout, name+" runs\n") {
			t.Errorf("%s does not run", name)
		}
	}
	if t.Failed() || a.exit != 0 {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
}

// TestShCut cuts every connection of the client during a shell, which must continue where it was.
func TestShCut(t *testing.T) {
	slow(t)
	relay := newRelay(t)
	p := newScreen(t, "KUBECONFIG="+relay.kubeconfig(t))
	p.enters("node-a", "--via", "pod")
	p.enter("echo pid=$$.; x=kept")
	pid := p.finds(`pid=(\d+)\.`)[1]
	p.enter("for i in 1 2 3 4 5 6 7 8 9; do echo tick$i; sleep .3; done; echo all''ticks")
	p.wants("tick2")
	relay.cut()
	p.wants("is back")
	p.wants("allticks")
	if screen := p.shows(); !strings.Contains(screen, "tick1") || strings.Count(screen, "tick5\n") != 1 ||
		strings.Count(screen, "tick9\n") != 1 {
		t.Errorf("something was lost, or came twice:\n%s", screen)
	}
	p.enter("echo again=$$. $x")
	p.wants("again=" + pid + ". kept")
	p.enter("clear; echo clea''red")
	p.wants("cleared")
	relay.away(true)
	p.resize(90, 20) // as a laptop that leaves its dock
	p.wants("is lost")
	relay.away(false)
	p.wants("is back")
	p.enter("clear; echo size=$(stty size)")
	p.wants("size=20 90")
	p.resize(110, 30)
	p.enter("exit")
	p.wantsLast("node-a>")
	p.enter("exit")
	p.left(0)
	nothingLeft(t)
}

// TestShLost removes a shell's probe, leaves a shell idle for too long, and ends the client during a shell. The
// terminal must be usable afterwards, and one line must state the reason.
func TestShLost(t *testing.T) {
	slow(t)
	p := newScreen(t)
	p.enters("node-a", "--via", "pod")
	p.enter(shMakes)
	p.isMade(shMade)
	shell(t, "node-a", "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline) in */probe\\ session*way\\ shell*) kill -9 ${p#/proc/};; esac; done 2>/dev/null; true")
	p.wants("lost the shell")
	p.isMade(shPlain)
	p.wantsLast("node-a>")
	p.enter("exit")
	p.left(0)

	p.enters("node-a", "--via", "pod", "--idle", "3s")
	p.wants("no input for 3s")
	p.left(0)

	p.enters("node-a", "--via", "pod")
	p.signal(syscall.SIGTERM)
	p.wants("stopping: removing all created objects")
	p.left(143)
	nothingLeft(t)
}

// shRuns tells whether a program of a shell still runs on a node.
func shRuns(t testing.TB, node, arg string) bool {
	t.Helper()
	for line := range strings.Lines(processes(t, node)) {
		if strings.HasPrefix(line, "sleep "+arg) {
			return true
		}
	}
	return false
}

// TestShKilled kills clients during a shell with a program that survives the loss of its terminal. A minute later,
// nothing may remain on the node.
func TestShKilled(t *testing.T) {
	slow(t)
	type one struct{ way, node, arg string }
	all := []one{{"pod", "node-a", "31231"}, {"ephemeral", "node-b", "31232"}, {"ssh", "node-a", "31233"}}
	for _, c := range all {
		p := newScreen(t)
		flags := []string{"--via", c.way}
		if c.way == "ssh" {
			flags = append(flags, bySSH(t)...)
		}
		p.enters(c.node, flags...)
		p.enter("trap '' HUP; sleep " + c.arg + " & sleep " + c.arg)
		eventually(t, time.Minute, func() string {
			if shRuns(t, c.node, c.arg) {
				return ""
			}
			return "nothing runs in the shell by " + c.way
		})
		p.signal(syscall.SIGKILL) // nobody says goodbye
	}
	eventually(t, 60*time.Second, func() string {
		for _, c := range all {
			if shRuns(t, c.node, c.arg) {
				return "what ran in the shell by " + c.way + " still does"
			}
		}
		return left(t)
	})
}
