package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// machine is what the machine this program runs on says of its own name.
type machine struct {
	hostname string
	nodename string // as calico-node wrote it here; "" = there is none
	unsure   string // why a name that is not here proves nothing; "" = it does
	has      func(name string) bool
}

// here looks at this machine under root.
func here(root string) (machine, error) {
	host, err := os.Hostname()
	if err != nil {
		return machine{}, fmt.Errorf("asking for this host's name: %w", err)
	}
	m := machine{hostname: host, has: addressHere}
	const file = "/var/lib/calico/nodename"
	text, err := os.ReadFile(filepath.Join(root, file))
	m.nodename = strings.TrimSpace(string(text))
	if _, kubelet := os.Stat(filepath.Join(root, "/var/lib/kubelet")); m.nodename == "" && kubelet == nil {
		m.unsure = "a kubelet has been at work here, and " + file + " does not say under which name"
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.unsure = file + " cannot be read"
	}
	return m, nil
}

// is tells whether the machine is the node: nil where something says so. unsure is why
// nobody can tell, "" where they can.
func (m machine) is(node string) (unsure string, err error) {
	short, _, _ := strings.Cut(m.hostname, ".")
	bare, _, _ := strings.Cut(node, ".")
	switch {
	case strings.EqualFold(node, m.hostname), strings.EqualFold(node, m.nodename), // of which the latter knows of --hostname-override
		strings.EqualFold(short, bare) && (short == m.hostname || bare == node):
		return "", nil
	case m.has(node):
		return "", nil
	case m.unsure != "":
		return m.unsure, nil
	}
	name := m.hostname
	if m.nodename != "" && m.nodename != m.hostname {
		name += ", node " + m.nodename + " to Calico"
	}
	return "", badUsage("--via local asks the machine it runs on, which is %s and not %s: run it on %s itself, or ask by another way", name, node, node)
}

// isHere refuses the way local of a node that is not this machine.
func (o *runOptions) isHere() (unsure string, err error) {
	if o.via != wayLocal {
		return "", nil
	}
	m, err := here("/")
	if err != nil {
		return "", err
	}
	return m.is(o.node)
}

// lookupLimit is how long a name may take: on a node whose DNS is broken too, somebody waits.
const lookupLimit = time.Second

// addressHere tells whether a name is or leads to an address of this machine.
func addressHere(name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, address := range found {
		ip := net.ParseIP(address)
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok && ip != nil && !ip.IsLoopback() && n.IP.Equal(ip) {
				return true
			}
		}
	}
	return false
}
