package tools

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/calico-probe/calico-probe/probe"
)

// Sh is the one tool that changes nothing by itself and lets its user change
// everything: a shell on the node.
var Sh = &probe.Tool{
	Name: "sh", Usage: "[--toolbox] [-c COMMAND | -- PROGRAM ARGUMENT...]", Short: "a shell on the node, as root",
	Doc: `Starts root's shell of the node, in the node's own files, and gives it the terminal: what
is typed there is not read-only. Ctrl-D or exit comes back, and ends what still runs in
the background there. Where it hangs, Enter ~ . leaves it, as with ssh, and Enter ~ ~ is one
~ in it. --toolbox takes the shell of the toolbox image instead, which has tools that the
node may lack; so does sh on a node that has no shell.

By pod and ephemeral, and in the toolbox, what you mount or unmount there is so for this
shell only, whose mount namespace is its own. 'nsenter -t 1 -m umount -l /mnt/dead' does
it to the node, with the node's program; by ssh and local so does the shell itself.

With a command it is run and that is all; so it can stand in a script. It is ok when the
command's exit code is 0, and otherwise fails and says the code. What it writes is shown
without what would steer the terminal: for a full-screen program, take sh alone. Behind |
every byte arrives as it is.

  sh
  sh -c 'journalctl -u kubelet | tail -50'
  sh -- crictl ps
  sh --toolbox -c 'tcpdump -c 20 -nni any port 179'`,
	Check: check(ParseSh), Reads: true,
}

// FactExit is the exit code of a shell or a command.
const FactExit probe.Fact = "exit_code"

// Why there is no shell of the node's: another one can still be had.
const (
	ReasonNoShell = "no-shell" // the node has none
	ReasonNoRoot  = "no-root"  // its root directory cannot be seen, or not be made the shell's
)

// ShArgs say which shell is wanted.
type ShArgs struct {
	Own     bool     // that of the image this probe came in
	Quiet   bool     // say nothing first
	Term    string   // the kind of terminal
	Command []string // arguments after the shell's own name; none = it reads the terminal
}

// terminals are what a kind of terminal is called, in terminfo's files.
var terminals = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

// ParseSh reads what the user types, and --term TERM and --quiet, which the client adds.
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
