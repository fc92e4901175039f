package tools

import (
	"cmp"
	"errors"
	"flag"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Logs prints what a container wrote.
var Logs = &probe.Tool{
	Name: "logs", Usage: "[-f] [-n LINES] [--since TIME] [-t] [-p | --previous] [POD/]CONTAINER",
	Short: "a container's log, through its runtime",
	Doc: `Finds the container through the container runtime and prints the end of its log file, as
the container wrote it: works while the API server is away, and for containers that have
ended. The name is a container's, a pod's, POD/CONTAINER, NAMESPACE/POD/CONTAINER or the
beginning of an ID; where several fit, they are listed.

  -n LINES      50 by default, 100000 at most
  --since TIME  only lines of the last 5m, 2h ...; all of them, or the last of -n
  -f            go on with what is written from now on, until it is stopped (Ctrl-C) or the
                container ends
  -t            with the time of each line
  --previous    of the attempt before (-p)

  logs calico-node
  logs -f -n 10 kube-system/coredns-5ddf468bdc-lwdfv/coredns
  logs --previous calico-node

Files that the kubelet has compressed are named and not read.`,
	Check:   check(ParseLogs),
	Endless: func(args []string) bool { l, err := ParseLogs(args); return err == nil && l.Follow },
}

// LogsArgs are the arguments of logs.
type LogsArgs struct {
	Name                  string
	Lines                 int
	Follow, Times, Before bool
	Since                 time.Duration // 0 = of all times
}

// maxLines is how many lines of a log are shown at most.
const maxLines = 100_000

// ParseLogs reads the arguments of logs.
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
		return l, errors.New("the attempt before has ended: -f and --previous do not go together")
	}
	l.Name = rest[0]
	return l, nil
}
