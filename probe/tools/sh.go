package tools

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/calico-probe/calico-probe/probe"
)

// Sh starts a shell on the node. It is the only tool that lets a user change the node.
var Sh = &probe.Tool{
	Name: "sh", Usage: "[--toolbox] [-c COMMAND | -- PROGRAM ARGUMENT...]", Short: "a shell on the node, as root",
	Doc: `Starts root's shell in the node's own file system, on your terminal. What you type there is
not read-only. Ctrl-D or exit returns, and kills the shell's background processes. If it
hangs, Enter ~ . leaves it, as with ssh; Enter ~ ~ sends one ~. --toolbox starts the shell
of the toolbox image instead, which has tools that the node may lack. On a node without a
shell, sh does that automatically.

With the access methods pod and ephemeral, and in the toolbox, the shell has its own mount
namespace: what you mount or unmount there affects this shell only. To change the node, run
'nsenter -t 1 -m umount -l /mnt/dead', which uses the node's program. With ssh and local,
the shell itself changes the node.

With a command, sh runs it and returns, so you can use it in a script. It is ok when the
command exits 0. Otherwise it fails and prints the exit code. Its output is shown without
control sequences: for a full-screen program, use sh alone. Behind |, every byte arrives
unchanged.

  sh
  sh -c 'journalctl -u kubelet | tail -50'
  sh -- crictl ps
  sh --toolbox -c 'tcpdump -c 20 -nni any port 179'`,
	Check: check(ParseSh), Reads: true,
}

// FactExit is the exit code of a shell or a command.
const FactExit probe.Fact = "exit_code"

// Why the node's own shell is not available. Another shell may still be available.
const (
	ReasonNoShell = "no-shell" // the node has no shell
	ReasonNoRoot  = "no-root"  // the node's root directory is not visible, or cannot become the shell's root
)

// ShArgs holds the options that select the shell.
type ShArgs struct {
	Own     bool     // use the shell of the probe's own image
	Quiet   bool     // do not print an introduction
	Term    string   // the type of the terminal
	Command []string // arguments after the shell's own name; none = an interactive shell
}

// terminals matches the name of a terminal type in terminfo.
var terminals = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

// ParseSh parses what the user types. It also parses --term TERM and --quiet, which the client adds.
func ParseSh(args []string) (*ShArgs, error) {
	s := &ShArgs{Term: "dumb"}
	for ; len(args) > 0; args = args[1:] {
		switch {
		case args[0] == "--toolbox":
			s.Own = true
		case args[0] == "--quiet":
			s.Quiet = true
		case args[0] == "--term" && len(args) > 1:
			if args = args[1:]; terminals.MatchString(args[0]) {
				s.Term = args[0]
			}
		case args[0] == "-c" && len(args) == 2:
			s.Command = args
			return s, nil
		case args[0] == "-c":
			return s, errors.New("-c takes one command, in quotes: sh -c 'ip -s link | grep -A5 eth0'")
		case args[0] == "--" && len(args) > 1:
			s.Command = append([]string{"-c", `exec "$@"`, "sh"}, args[1:]...)
			return s, nil
		default:
			return s, fmt.Errorf("sh does not take %q: it takes --toolbox, and -c COMMAND or -- PROGRAM ARGUMENT",
				args[0])
		}
	}
	return s, nil
}
