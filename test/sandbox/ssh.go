package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Every node has a real sshd with its own host key. It admits two users with one key: root, and ops, who may not become
// root. The state folder has what a client needs.

const (
	sshUser    = "ops"
	sshHostKey = "/etc/ssh/host_key"
	sshUserKey = "/etc/ssh/authorized_keys"
)

// makeSSHKeys creates the users' key and the nodes' host keys.
func makeSSHKeys(l layout) error {
	if err := os.MkdirAll(l.state("ssh"), 0o700); err != nil {
		return fmt.Errorf("making the keys for ssh: %w", err)
	}
	var known strings.Builder
	for _, name := range append([]string{"id"}, memberNames()...) {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sandbox", "-f",
			l.state("ssh", name)).CombinedOutput(); err != nil {
			return fmt.Errorf("making the keys for ssh: %w: %s", err, out)
		}
	}
	for _, m := range members() {
		key, err := os.ReadFile(l.state("ssh", m.Name+".pub"))
		if err != nil {
			return fmt.Errorf("making the keys for ssh: %w", err)
		}
		fmt.Fprintf(&known, "%s,%s %s", m.IP4, m.IP6, key)
	}
	return writeFile(l.state("ssh", "known_hosts"), known.String())
}

// sshd is the daemon's configuration. Accounts come from /etc/passwd only.
const sshd = `ListenAddress 0.0.0.0
ListenAddress ::
HostKey ` + sshHostKey + `
AuthorizedKeysFile ` + sshUserKey + `
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile none
`

// writeSSH writes the files that sshd needs on a node, without its keys.
func writeSSH() error {
	for _, dir := range []string{"/etc/ssh", "/run/sshd", "/home/" + sshUser} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("preparing sshd: %w", err)
		}
	}
	passwd, err := os.OpenFile("/etc/passwd", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("preparing sshd: %w", err)
	}
	_, err = fmt.Fprintf(passwd, "%s:x:61000:61000::/home/%s:/bin/sh\nclosed:x:61001:61001::/:/usr/sbin/nologin\nsshd:x:61002:65534::/run/sshd:/usr/sbin/nologin\n", sshUser, sshUser)
	return errors.Join(err, passwd.Close(),
		os.Chown("/home/"+sshUser, 61000, 61000),
		os.Chmod("/tmp", 0o1777),
		os.WriteFile("/etc/shadow", []byte("root:*:::::::\n"), 0o600), // without it, sshd treats root as locked
		os.WriteFile("/etc/ssh/sshd_config", []byte(sshd), 0o600),
	)
}

// sshConfig prints a configuration for ssh -F.
func sshConfig(l layout) error {
	if supervisorPID(l) == 0 {
		return fmt.Errorf("cluster %s is not up: run 'sandbox up --name %s'", l.name, l.name)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	for _, m := range members() {
		fmt.Printf("Host %s %s %s\n  HostName %s\n", m.Name, m.IP4, m.IP6, m.IP4)
	}
	fmt.Printf("Host *\n  User root\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile none\n  ProxyCommand %s dial --name %s %%h %%p\n",
		l.state("ssh", "id"), l.state("ssh", "known_hosts"), exe, l.name)
	return nil
}

// dial connects stdin and stdout to an address, from the network of the API server.
func dial(l layout, args []string) error {
	if len(args) != 2 {
		return badUsage("dial takes an address and a port")
	}
	pid, err := clusterPID(l)
	if err != nil {
		return err
	}
	conn, err := dialInside(pid, net.JoinHostPort(args[0], args[1]))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

// clusterPID returns the first process of the cluster's namespaces.
func clusterPID(l layout) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if pid, err := strconv.Atoi(filepath.Base(p)); err == nil && isOurs(pid, verbCluster, l.name) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("cluster %s is not up: run 'sandbox up --name %s'", l.name, l.name)
}
