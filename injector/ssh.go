package injector

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// bySSH is the access method that uploads the probe through the user's own ssh, with their configuration, keys and
// known hosts. It does not need a kubelet or a container runtime. It never prompts for a password and never accepts an
// unknown host key, even if the user's configuration allows that. The machine must be the node in the API.
func bySSH(*Client) Open {
	return func(ctx context.Context, o Options) (*Session, error) {
		return overSSH(ctx, o, func(id string) *PlacementError { return notTheNode(o, id) })
	}
}

// RehearseSSH logs in as bySSH does, reads the machine-id, and logs out. It does not create anything.
func RehearseSSH(ctx context.Context, o Options) error {
	enough := &PlacementError{}
	_, err := overSSH(ctx, o, func(id string) *PlacementError { return cmp.Or(notTheNode(o, id), enough) })
	if errors.Is(err, enough) {
		return nil
	}
	return err
}

func overSSH(ctx context.Context, o Options, verify verifyMachine) (*Session, error) {
	if o.Destination == "" {
		return nil, refuse(facts.ReasonSupport, noAddress, o.Node)
	}
	program, err := exec.LookPath("ssh")
	if err != nil {
		return nil, refuse(facts.ReasonSupport, "no ssh program on this machine: install the OpenSSH client")
	}
	config, err := sshConfig(ctx, o)
	if err != nil {
		return nil, sshFailed(o, err)
	}
	environ, err := unsent(os.Environ(), config["sendenv"])
	if err != nil {
		return nil, refuse(facts.ReasonSupport, "ssh to %s: %v", o.Destination, err)
	}
	shell := func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
		cmd := exec.CommandContext(ctx, program, sshArgs(o, script)...)
		cmd.Env = environ
		return run(cmd, in, out, errs)
	}
	s, err := upload(ctx, o, "ssh", "over ssh on "+o.Destination, view{root: "/", proc: "/proc"}, shell, verify)
	if err != nil {
		return nil, sshFailed(o, err)
	}
	return s, nil
}

// noAddress is the message for a node without an address in the API.
const noAddress = "node %s has no valid InternalIP in the API: name the host with --ssh USER@HOST"

// sshFailed returns why the probe could not be uploaded over ssh.
func sshFailed(o Options, err error) error {
	if failed, ok := errors.AsType[*uploadError](err); ok {
		return sshReason(o, failed)
	}
	return err
}

// notTheNode returns why the machine with this machine-id cannot be the node, or nil if it can.
func notTheNode(o Options, id string) *PlacementError {
	want := machineID(o.Machine)
	lacks := ""
	switch {
	case want == "":
		lacks = "the API has no unique machine-id for " + o.Node
	case id == "":
		lacks = "its machine-id is not readable"
	case id == want:
		return nil
	default:
		return refuse(facts.ReasonMachine, "ssh reached another machine: its machine-id is not that of %s: "+
			"see where %s leads, or run calico-probe on %s itself with --via local", o.Node, o.Destination, o.Node)
	}
	if !o.Named {
		return refuse(facts.ReasonMachine, "ssh to %s: %s, so it cannot be identified as %s: name the host with --ssh USER@HOST",
			o.Destination, lacks, o.Node)
	}
	o.Note(fmt.Sprintf("%s: only your --ssh identifies %s as %s", lacks, o.Destination, o.Node))
	return nil
}

// sshArgs returns ssh's arguments. They override the user's configuration, which may accept any host key. The
// destination follows --, so it cannot act as an option. Unneeded features are turned off: a broken node does not get
// keys, tickets or forwarded connections. A shared connection is not reused, because its host key was not checked by
// these rules. The user's settings for reaching the node (ProxyCommand, ProxyJump) still apply.
func sshArgs(o Options, script string) []string {
	args := []string{"-T", "-a", "-x", "-k"}
	for _, option := range []string{
		"BatchMode=yes", fmt.Sprintf("ConnectTimeout=%.0f", o.connectLimit().Seconds()), "LogLevel=ERROR",
		"StrictHostKeyChecking=yes", "UpdateHostKeys=no",
		"ControlMaster=no", "ControlPath=none", "PermitLocalCommand=no",
		"ClearAllForwardings=yes", "Tunnel=no", "RemoteCommand=none",
		"SetEnv=LC_ALL=C", // replaces the variables in the user's configuration
	} {
		args = append(args, "-o", option)
	}
	if o.SSHConfig != "" {
		args = append(args, "-F", o.SSHConfig)
	}
	return append(args, "--", o.Destination, "sh -c "+probe.Quote(script))
}

// sshNeeds lists the variables that ssh needs to find its agent and other programs.
var sshNeeds = []string{"PATH", "HOME", "USER", "SSH_AUTH_SOCK", "SSH_ASKPASS"}

// unsent returns an environment without the variables that ssh would send to the node. Arguments cannot turn off
// SendEnv, because ssh adds the patterns in its configuration. It returns an error if ssh would send a variable that
// ssh itself needs.
func unsent(environ, patterns []string) ([]string, error) {
	for _, p := range patterns {
		match := regexp.MustCompile("(?is)^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(p)) + "$")
		var kept []string
		for _, v := range environ {
			name, _, _ := strings.Cut(v, "=")
			switch {
			case !match.MatchString(name):
				kept = append(kept, v)
			case slices.Contains(sshNeeds, name):
				return nil, fmt.Errorf("'SendEnv %s' in its configuration would send %s to the node: "+
					"list fewer variables there, or use another file with --ssh-config", p, name)
			}
		}
		environ = kept
	}
	return environ, nil
}

// run runs a program until the program exits. It does not wait until in is closed.
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
	crashed := make(chan error, 2)
	report := func(err error) { crashed <- err }
	probe.Detach(func() error { // ends when in ends
		defer stdin.Close() // runs after a crash is reported: closing stdin ends the program
		if crash := probe.Recovered(func() error {
			_, _ = io.Copy(stdin, in) // the program reports why it stopped reading
			return nil
		}); crash != nil {
			report(crash)
		}
		return nil
	}, report)
	err = cmd.Wait()
	select {
	case crash := <-crashed:
		return errors.Join(crash, err)
	default:
		return err
	}
}

// sshReason turns OpenSSH's message, which is never translated, into one line with advice.
func sshReason(o Options, failed *uploadError) *PlacementError {
	to := o.Destination
	has := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(failed.output, text) })
	}
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](failed.err); ok {
		code = exit.ExitCode()
	}
	const own = 255 // ssh's own failure; other codes are the remote command's
	switch {
	case errors.Is(failed.err, errStalled):
		return waited(facts.ReasonReach, "ssh to %s: %v: its sshd or the login there hangs", to, failed.err)
	case errors.Is(failed.err, errConfigSlow):
		return waited(facts.ReasonReach, "ssh to %s: %v", to, failed.err)
	case errors.Is(failed.err, errNoise):
		return refuse(facts.ReasonShell, "ssh to %s: %v: a login file or a forced command there prints endlessly", to, failed.err)
	// This text is in the second-to-last line. Only the end of ssh's long warning is kept.
	case code == own && has("has changed and you have requested strict checking", "was revoked and you have requested strict checking"):
		return refuse(facts.ReasonLogin, "ssh to %s: its host key differs from the known one: find out why (was the node reinstalled?) before 'ssh-keygen -R'", to)
	case code == own && has("Host key verification failed", "host key is known"):
		return refuse(facts.ReasonLogin, "ssh to %s: unknown host key, which calico-probe never accepts: compare and accept it once with '%s'", to, accepting(to))
	case code == own && has("Permission denied", "Too many authentication failures"):
		return refuse(facts.ReasonLogin, "ssh to %s: permission denied: load a key ('ssh-add'), or name the user with --ssh USER@{ip}", to)
	case code == own && has("Connection refused"):
		return refuse(facts.ReasonReach, "ssh to %s: connection refused: sshd is not listening; configure another port or a jump host in a file for --ssh-config", to)
	case code == own && has("timed out"):
		return refuse(facts.ReasonReach, "ssh to %s: no answer within %v: the node is off, cut off, or unreachable from here; configure a jump host in a file for --ssh-config", to, o.connectLimit())
	case code == own && has("No route to host", "Network is unreachable"):
		return refuse(facts.ReasonReach, "ssh to %s: no route to it from here; configure a jump host in a file for --ssh-config", to)
	case code == own && has("Could not resolve"):
		return refuse(facts.ReasonReach, "ssh to %s: the name does not resolve on this machine: use an address with --ssh {ip}", to)
	case code == own:
		return refuse(facts.ReasonReach, "ssh to %s failed%s", to, withOutput(failed.output))
	case code == 127:
		return refuse(facts.ReasonShell, "ssh to %s: cannot run sh there%s", to, withOutput(failed.output))
	}
	return refuse(facts.ReasonShell, "ssh to %s: the login ended before a shell ran (%v)%s", to, failed.err, withOutput(failed.output))
}

// usualConnect is the maximum time that ssh waits for a connection, unless the user set a longer limit
// (Options.Patience).
const usualConnect = 10 * time.Second

func (o Options) connectLimit() time.Duration { return max(usualConnect, o.Patience) }

// accepting returns the command for viewing and accepting a host key. It quotes the destination, because the
// destination may come from the Node object, which the kubelet writes.
func accepting(to string) string { return "ssh -o StrictHostKeyChecking=ask -- " + probe.Quote(to) }

// configLimit is the time limit for 'ssh -G'.
const configLimit = 10 * time.Second

// errConfigSlow is the error of an 'ssh -G' that takes longer.
var errConfigSlow = fmt.Errorf("'ssh -G' did not print its configuration within %v: "+
	"a Match exec in its configuration hangs", configLimit)

// sshConfig returns the user's ssh configuration for the destination, with lower-case keywords as keys. It does not
// open a connection.
func sshConfig(ctx context.Context, o Options) (map[string][]string, error) {
	limited, cancel := context.WithTimeout(ctx, configLimit)
	defer cancel()
	args := []string{"-G"}
	if o.SSHConfig != "" {
		args = append(args, "-F", o.SSHConfig)
	}
	ssh := exec.CommandContext(limited, "ssh", append(args, "--", o.Destination)...)
	ssh.WaitDelay = time.Second // a program started by the configuration may keep the output open
	var out bytes.Buffer
	words := &lastOutput{}
	ssh.Stdout, ssh.Stderr = &out, words
	err := ssh.Run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil:
		return nil, &uploadError{errConfigSlow, words.String()}
	case err != nil:
		return nil, &uploadError{err, words.String()}
	}
	config := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		config[name] = append(config[name], strings.Fields(value)...)
	}
	return config, nil
}

// hostKeyKnown searches ssh's known_hosts files with ssh-keygen, which also finds hashed names.
func hostKeyKnown(ctx context.Context, o Options) error {
	config, err := sshConfig(ctx, o)
	if err != nil {
		return fmt.Errorf("reading ssh's configuration for %s: %w", o.Destination, err)
	}
	first := func(name string) string {
		if len(config[name]) == 0 {
			return ""
		}
		return config[name][0]
	}
	host := first("hostname")
	switch {
	case first("hostkeyalias") != "":
		host = first("hostkeyalias")
	case first("port") != "22":
		host = "[" + host + "]:" + first("port")
	}
	for _, file := range slices.Concat(config["userknownhostsfile"], config["globalknownhostsfile"]) {
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
	return fmt.Errorf("unknown host key of %s: compare and accept it once with '%s'", host, accepting(o.Destination))
}
