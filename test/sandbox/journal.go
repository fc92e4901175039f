package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// journald is systemd's log daemon. It runs without systemd. It takes a line's unit from the opener of the stream, if
// the process is in the root of its cgroup namespace, as a node's daemons are.
const journald = "/usr/lib/systemd/systemd-journald"

const journalSockets = "/run/systemd/journal/"

// journalTime is how long journald may take to accept a line, or a stream.
const journalTime = 5 * time.Second

// journaldConf leaves out the machine's kernel log and audit.
const journaldConf = `[Journal]
Storage=persistent
ReadKMsg=no
Audit=no
ForwardToSyslog=yes
RateLimitIntervalSec=0
SystemMaxUse=64M
`

// nodeJournal is the journal of a node's services.
type nodeJournal struct{ node string }

// startJournal starts a node's journald; daemons that start later write to it.
func (f *family) startJournal(m member) error {
	for _, dir := range []string{"/etc/systemd", "/var/log/journal", journalSockets} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the journal's folders: %w", err)
		}
	}
	if err := writeFile("/etc/systemd/journald.conf", journaldConf); err != nil {
		return err
	}
	if err := writeFile(journalSockets+"flushed", ""); err != nil { // /var exists: no need for /run
		return err
	}
	if err := f.copyJournal(m.Name + "-journal"); err != nil {
		return err
	}
	f.keep(m.Name+"-journald", journald)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := waitSocket(ctx, journalSockets+"stdout"); err != nil {
		return err
	}
	f.journal = &nodeJournal{m.Name}
	return nil
}

// copyJournal copies journald's output to a log outside the node, for a cluster that does not come up.
func (f *family) copyJournal(component string) error {
	log, err := os.OpenFile(f.layout.log(component), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the journal's copy: %w", err)
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: journalSockets + "syslog", Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("taking the journal's copy: %w", err)
	}
	go func() {
		defer c.Close()
		defer log.Close()
		line := make([]byte, 64<<10)
		for {
			n, err := c.Read(line)
			if err == nil {
				_, err = log.Write(append(line[:n:n], '\n'))
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "copying the journal: %v\n", err)
				return
			}
		}
	}()
	return nil
}

// service returns a component's name in systemd.
func (j *nodeJournal) service(component string) string {
	return strings.TrimPrefix(component, j.node+"-")
}

// stream returns an output to the journal, opened as systemd does for a service.
func (j *nodeJournal) stream(component string) (*os.File, error) {
	c, err := net.DialTimeout("unix", journalSockets+"stdout", journalTime)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(journalTime)); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	name := j.service(component)
	// The header: identifier, unit, priority info, level prefixes, and no forwarding.
	if _, err := fmt.Fprintf(c, "%s\n%s.service\n6\n1\n0\n0\n0\n", name, name); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	file, err := c.(*net.UnixConn).File()
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	// A service must block when there is no room, as on a file.
	if err := syscall.SetNonblock(int(file.Fd()), false); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	return file, nil
}

// say writes systemd's line about a service, as the node's first process, which is normally systemd.
func (j *nodeJournal) say(component, format string, args ...any) {
	name := j.service(component)
	c, err := net.DialTimeout("unixgram", journalSockets+"socket", journalTime)
	if err == nil {
		defer c.Close()
		err = c.SetDeadline(time.Now().Add(journalTime))
	}
	if err == nil {
		_, err = fmt.Fprintf(c, "MESSAGE=%s\nUNIT=%s.service\nSYSLOG_IDENTIFIER=systemd\nPRIORITY=6\n",
			fmt.Sprintf(format, args...), name)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "writing to the journal: %v\n", err)
	}
}

// ended writes systemd's lines about the end of a service.
func (j *nodeJournal) ended(component string, st syscall.WaitStatus, stopped bool) {
	name := j.service(component) + ".service"
	switch {
	case stopped:
		j.say(component, "Stopping %s - %s...", name, j.service(component))
		j.say(component, "%s: Deactivated successfully.", name)
		j.say(component, "Stopped %s - %s.", name, j.service(component))
		return
	case st.Signaled():
		j.say(component, "%s: Main process exited, code=killed, status=%d/%s", name, st.Signal(),
			strings.TrimPrefix(unix.SignalName(st.Signal()), "SIG"))
		j.say(component, "%s: Failed with result 'signal'.", name)
	case st.ExitStatus() != 0:
		j.say(component, "%s: Main process exited, code=exited, status=%d/FAILURE", name, st.ExitStatus())
		j.say(component, "%s: Failed with result 'exit-code'.", name)
	default:
		j.say(component, "%s: Deactivated successfully.", name)
	}
	j.say(component, "%s: Scheduled restart job.", name)
}
