package injector

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// changedKey is OpenSSH 9.2's message about a changed host key. It is longer than the kept output of a program.
const changedKey = `@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:Yd9fVxVrGqmCfJuvJ5n3sHbBqGk5u1J7c0b0o2n8b3E.
Please contact your system administrator.
Add correct host key in /home/ops/.ssh/known_hosts to get rid of this message.
Offending ED25519 key in /home/ops/.ssh/known_hosts:3
  remove with:
  ssh-keygen -f "/home/ops/.ssh/known_hosts" -R "10.0.0.7"
Host key for 10.0.0.7 has changed and you have requested strict checking.
Host key verification failed.
`

// TestSSH checks ssh's arguments and the parsing of its messages, from OpenSSH 9.2.
func TestSSH(t *testing.T) {
	t.Parallel()
	o := options
	o.Destination, o.SSHConfig = "-oProxyCommand=id", "my config"
	args := strings.Join(sshArgs(o, "echo 'x'"), "|")
	if want := `|-F|my config|--|-oProxyCommand=id|sh -c 'echo '\''x'\'''`; !strings.HasSuffix(args, want) || !strings.Contains(args, "BatchMode=yes") || !strings.Contains(args, "|StrictHostKeyChecking=yes|") {
		t.Error(args)
	}
	for _, off := range []string{"ControlMaster=no", "ControlPath=none", "PermitLocalCommand=no", "SetEnv=LC_ALL=C"} {
		if !strings.Contains(args, "|-o|"+off+"|") {
			t.Errorf("%s is missing: %s", off, args)
		}
	}
	if strings.Contains(args, "ProxyJump") || strings.Contains(args, "ProxyCommand=n") {
		t.Errorf("how the node is reached is the user's: %s", args)
	}
	if !strings.Contains(args, "|ConnectTimeout=10|") {
		t.Errorf("a usual connection's time: %s", args)
	}
	o.Patience = 90 * time.Second
	if patient := strings.Join(sshArgs(o, "id"), "|"); !strings.Contains(patient, "|ConnectTimeout=90|") {
		t.Errorf("the user's own time is not given to ssh: %s", patient)
	}
	var words lastOutput
	_, _ = io.WriteString(&words, changedKey) // never fails
	exit := func(code string) error { return exec.Command("sh", "-c", "exit "+code).Run() }
	onUnix(t)
	for said, c := range map[string]struct {
		code   string
		reason facts.Reason
		says   string
	}{
		"Host key verification failed.": {"255", facts.ReasonLogin, "accept it once with 'ssh -o StrictHostKeyChecking=ask -- n'"},
		"No ED25519 host key is known for 10.0.0.7 and you have requested strict checking.\nHost key verification failed.": {"255", facts.ReasonLogin, "unknown host key"},
		words.String(): {"255", facts.ReasonLogin, "differs from the known one"},
		"root@10.0.0.7: Permission denied (publickey,password).":        {"255", facts.ReasonLogin, "--ssh USER@{ip}"},
		"ssh: connect to host 10.0.0.7 port 22: Connection refused":     {"255", facts.ReasonReach, "sshd is not listening"},
		"ssh: connect to host 10.0.0.7 port 22: Connection timed out":   {"255", facts.ReasonReach, "within 10s"},
		"Connection timed out during banner exchange":                   {"255", facts.ReasonReach, "within 10s"},
		"ssh: connect to host 10.0.0.7 port 22: No route to host":       {"255", facts.ReasonReach, "no route"},
		"ssh: Could not resolve hostname n: Name or service not known":  {"255", facts.ReasonReach, "--ssh {ip}"},
		"kex_exchange_identification: Connection closed by remote host": {"255", facts.ReasonReach, "closed by remote host"},
		"bash: line 1: sh: command not found":                           {"127", facts.ReasonShell, "cannot run sh"},
		"This account is currently not available.":                      {"1", facts.ReasonShell, "not available"},
	} {
		pe := sshReason(Options{Destination: "n"}, &uploadError{exit(c.code), said})
		if pe.Reason != c.reason || !strings.Contains(pe.Text, c.says) {
			t.Errorf("%s: %s: %s", said, pe.Reason, pe.Text)
		}
	}
	hostile := sshReason(Options{Destination: "-oProxyCommand=id;x"},
		&uploadError{exit("255"), "Host key verification failed."})
	if !strings.Contains(hostile.Text, " -- '-oProxyCommand=id;x''") {
		t.Errorf("not safe to paste: %s", hostile.Text)
	}
	pe := sshReason(Options{Destination: "n"}, &uploadError{errStalled, ""})
	if !pe.Waited || pe.Reason != facts.ReasonReach {
		t.Errorf("%+v", pe)
	}
}

// TestUnsent requires that only variables that ssh would send to the node are removed. A ProxyCommand needs all others.
func TestUnsent(t *testing.T) {
	t.Parallel()
	environ := []string{
		"HOME=/root", "LANG=de", "LC_TIME=de", "TOKEN_1=a=b", "TOKEN_10=x\ny", "MY.PATH=x", "MYxPATH=x", "EMPTY=",
	}
	for patterns, want := range map[string]string{
		"":             "HOME=/root LANG=de LC_TIME=de TOKEN_1=a=b TOKEN_10=x\ny MY.PATH=x MYxPATH=x EMPTY=",
		"LANG LC_*":    "HOME=/root TOKEN_1=a=b TOKEN_10=x\ny MY.PATH=x MYxPATH=x EMPTY=",
		"TOKEN_? ANG":  "HOME=/root LANG=de LC_TIME=de TOKEN_10=x\ny MY.PATH=x MYxPATH=x EMPTY=",
		"MY.PATH [HE]": "HOME=/root LANG=de LC_TIME=de TOKEN_1=a=b TOKEN_10=x\ny MYxPATH=x EMPTY=",
		"*_* L*":       "HOME=/root MY.PATH=x MYxPATH=x EMPTY=",
	} {
		got, err := unsent(environ, strings.Fields(patterns))
		if text := strings.Join(got, " "); err != nil || text != want {
			t.Errorf("%s: %q (%v), want %q", patterns, text, err, want)
		}
	}
	for patterns, name := range map[string]string{
		"*": "HOME", "LANG H*": "HOME", "SSH_*": "SSH_AUTH_SOCK", "P?TH": "PATH", "USER": "USER",
		"SSH_ASKPASS": "SSH_ASKPASS",
	} {
		own := append(slices.Clone(environ), "PATH=/bin", "USER=me", "SSH_AUTH_SOCK=/agent", "SSH_ASKPASS=/ask")
		_, err := unsent(own, strings.Fields(patterns))
		if err == nil || !strings.Contains(err.Error(), "SendEnv") ||
			!strings.Contains(err.Error(), "would send "+name+" to the node") {
			t.Errorf("%s: %v, want a refusal that names %s", patterns, err, name)
		}
	}
}

// TestSSHConfig queries the real ssh, without a connection.
func TestSSHConfig(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip(err)
	}
	o := options
	o.Destination, o.SSHConfig = "me@10.0.0.7", filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(o.SSHConfig, []byte("Host 10.0.0.7\n  SendEnv TOKEN_* LANG\n  Port 2222\nHost *\n  SendEnv LC_*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := sshConfig(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(config["sendenv"], " "); got != "TOKEN_* LANG LC_*" || config["port"][0] != "2222" {
		t.Errorf("%q %v", got, config["port"])
	}
	o.SSHConfig = "/nowhere"
	_, err = sshConfig(t.Context(), o)
	if failed, ok := errors.AsType[*uploadError](err); !ok ||
		!strings.Contains(sshReason(Options{Destination: "n"}, failed).Text, "/nowhere") {
		t.Error(err)
	}
}
