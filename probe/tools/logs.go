package tools

import (
	"cmp"
	"errors"
	"flag"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Logs prints the output of a container.
var Logs = &probe.Tool{
	Name: "logs", Usage: "[-f] [-n LINES] [--since TIME] [-t] [-p | --previous] [POD/]CONTAINER",
	Short: "a container's log, through its runtime",
	Doc: `Finds the container through the container runtime and prints the end of its log file, as
the container wrote it. Works without the API server, and for containers that have exited.
The name is a container, a pod, POD/CONTAINER, NAMESPACE/POD/CONTAINER or the beginning of
an ID. If several match, it lists them.

  -n LINES      50 by default, 100000 at most
  --since TIME  only lines of the last 5m, 2h, ...; all of them, unless -n limits them
  -f            follow the log until you stop it (Ctrl-C) or the container exits
  -t            with the time of each line
  --previous    of the previous container (-p)

  logs calico-node
  logs -f -n 10 kube-system/coredns-5ddf468bdc-lwdfv/coredns
  logs --previous calico-node

It lists files that the kubelet has compressed, but does not read them.`,
	Check:   check(ParseLogs),
	Endless: func(args []string) bool { l, err := ParseLogs(args); return err == nil && l.Follow },
}

// LogsArgs holds the arguments of logs.
type LogsArgs struct {
	Name                  string
	Lines                 int
	Follow, Times, Before bool
	Since                 time.Duration // 0 = unlimited
}

// maxLines is the maximum number of log lines to print.
const maxLines = 100_000

// ParseLogs parses the arguments of logs.
func ParseLogs(args []string) (*LogsArgs, error) {
	l := &LogsArgs{}
	f := options("logs")
	f.IntVar(&l.Lines, "n", 50, "")
	f.BoolVar(&l.Follow, "f", false, "")
	f.BoolVar(&l.Times, "t", false, "")
	f.BoolVar(&l.Before, "previous", false, "")
	f.BoolVar(&l.Before, "p", false, "")
	seconds(f, &l.Since, "since", 0)
	rest, err := words(f, args)
	named := false
	f.Visit(func(o *flag.Flag) { named = named || o.Name == "n" })
	if l.Since > 0 && !named {
		l.Lines = maxLines
	}
	if err == nil {
		err = cmp.Or(within("-n", l.Lines, 0, maxLines), within("--since", l.Since, 0, 365*24*time.Hour))
	}
	switch {
	case err != nil:
		return l, err
	case len(rest) != 1 || rest[0] == "":
		return l, errors.New("logs takes one container: logs calico-node; 'ps' lists them")
	case l.Follow && l.Before:
		return l, errors.New("-f and --previous exclude each other: the previous container has exited")
	}
	l.Name = rest[0]
	return l, nil
}
