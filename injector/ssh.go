package injector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// SSH is the way of the user's own ssh, with their own configuration, keys and known
// hosts: it takes neither a kubelet nor a container runtime. It never asks for a
// password and never learns a host key, whatever that configuration says.
func SSH() Way {
	return func(ctx context.Context, o Options) (*Session, error) {
		if o.Destination == "" {
			return nil, refuse(ReasonSupport, "no address of node %s is known to reach it by ssh: name one with --ssh USER@HOST", o.Node)
		}
		program, err := exec.LookPath("ssh")
		if err != nil {
			return nil, refuse(ReasonSupport, "there is no program ssh here: install OpenSSH's client")
		}
		s, err := carry(ctx, o, "ssh", "over ssh on "+o.Destination, view{root: "/", proc: "/proc"}, func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
			return run(exec.CommandContext(ctx, program, sshArgs(o, script)...), in, out, errs)
		})
		if failed, ok := errors.AsType[*lineError](err); ok {
			return nil, sortSSH(o.Destination, failed)
		}
		return s, err
	}
}

// sshArgs are ssh's arguments. The destination comes after --, so that none is ever
// taken for an option; everything the conversation does not need is off: a broken
// node is given neither the user's keys and tickets nor a way back. What stands here
// goes before the user's configuration, which may let ssh take any host key.
func sshArgs(o Options, script string) []string {
	args := []string{"-T", "-a", "-x", "-k"}
	for _, option := range []string{
		"BatchMode=yes", "ConnectTimeout=10", "LogLevel=ERROR",
		"StrictHostKeyChecking=yes", "UpdateHostKeys=no",
		"ClearAllForwardings=yes", "Tunnel=no", "RemoteCommand=none",
	} {
		args = append(args, "-o", option)
	}
	if o.SSHConfig != "" {
		args = append(args, "-F", o.SSHConfig)
	}
	return append(args, "--", o.Destination, "sh -c "+quote(script))
}

// run runs a program to its end. It does not wait for a stdin nobody closes.
func run(cmd *exec.Cmd, in io.Reader, out, errs io.Writer) error {
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, errs, time.Second
	apart(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	go func() { // ends with in
		_, _ = io.Copy(stdin, in) // the program says why it no longer reads
		_ = stdin.Close()
	}()
	return cmd.Wait()
}

// sortSSH makes one line that says what to do of what OpenSSH says. Its messages are
// the same in every language.
func sortSSH(to string, failed *lineError) *PlacementError {
	has := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(failed.said, text) })
	}
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](failed.err); ok {
		code = exit.ExitCode()
	}
	const own = 255 // ssh's own failure; anything else comes from the other end
	switch {
	case errors.Is(failed.err, errStill):
		return waited(ReasonReach, "ssh to %s: %v: its sshd, or what it logs in with, hangs", to, failed.err)
	case errors.Is(failed.err, errNoise):
		return refuse(ReasonShell, "ssh to %s: %v: a login file or a forced command there prints without end", to, failed.err)
	// The line before the last: of the warning in capitals no more than the end is kept.
	case code == own && has("has changed and you have requested strict checking", "was revoked and you have requested strict checking"):
		return refuse(ReasonLogin, "ssh to %s: its host key is not the one known here: find out why (a node made anew?) before 'ssh-keygen -R'", to)
	case code == own && has("Host key verification failed", "host key is known"):
		return refuse(ReasonLogin, "ssh to %s: its host key is not known here, and none is ever accepted unseen: compare and accept it once with 'ssh -o StrictHostKeyChecking=ask %s'", to, to)
	case code == own && has("Permission denied", "Too many authentication failures"):
		return refuse(ReasonLogin, "ssh to %s: permission denied: load a key ('ssh-add'), or name the user with --ssh USER@{ip}", to)
	case code == own && has("Connection refused"):
		return refuse(ReasonReach, "ssh to %s: connection refused: no sshd listens there; another port or a jump host goes into a file for --ssh-config", to)
	case code == own && has("timed out"):
		return refuse(ReasonReach, "ssh to %s: no answer within 10s: the node is off, cut off, or not to be reached from here; a jump host goes into a file for --ssh-config", to)
	case code == own && has("No route to host", "Network is unreachable"):
		return refuse(ReasonReach, "ssh to %s: no route to it from here; a jump host goes into a file for --ssh-config", to)
	case code == own && has("Could not resolve"):
		return refuse(ReasonReach, "ssh to %s: that name does not resolve here: name an address with --ssh {ip}", to)
	case code == own:
		return refuse(ReasonReach, "ssh to %s failed%s", to, saying(failed.said))
	case code == 127:
		return refuse(ReasonShell, "ssh to %s: no sh is run there%s", to, saying(failed.said))
	}
	return refuse(ReasonShell, "ssh to %s: the login ended before a shell ran (%v)%s", to, failed.err, saying(failed.said))
}

// hostKeyKnown reads where ssh would go and which files it would look into, and has
// ssh-keygen, which reads hashed names too, look there.
func hostKeyKnown(ctx context.Context, o Options) error {
	args := []string{"-G"}
	if o.SSHConfig != "" {
		args = append(args, "-F", o.SSHConfig)
	}
	ssh := exec.CommandContext(ctx, "ssh", append(args, "--", o.Destination)...)
	ssh.WaitDelay = time.Second // what the configuration has it run may hold on to its output
	out, err := ssh.Output()
	if err != nil {
		return fmt.Errorf("asking ssh how it would reach %s: %w", o.Destination, err)
	}
	config := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		config[name] = value
	}
	host := config["hostname"]
	switch {
	case config["hostkeyalias"] != "":
		host = config["hostkeyalias"]
	case config["port"] != "22":
		host = "[" + host + "]:" + config["port"]
	}
	for file := range strings.FieldsSeq(config["userknownhostsfile"] + " " + config["globalknownhostsfile"]) {
		if rest, ok := strings.CutPrefix(file, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				continue
			}
			file = filepath.Join(home, rest)
		}
		if exec.CommandContext(ctx, "ssh-keygen", "-F", host, "-f", file).Run() == nil {
			return nil
		}
	}
	return fmt.Errorf("the host key of %s is not known here: compare and accept it once with 'ssh -o StrictHostKeyChecking=ask %s'", host, o.Destination)
}
