// Command probe is the part of calico-probe that runs on a node. It inspects the node directly and writes its findings
// to stdout. It does not change the node. You can also run it by hand on a node.
//
//	probe session [--root DIR] [--only PATHS] [--proc DIR] [--node NAME] [--method METHOD] [--life DURATION] [--not-after TIME] [--unlink]
//	probe run [--root DIR] [--proc DIR] [--checks LIST | --plan JSON...] [--summary FILE] [--text | --plugin]
//	probe version
//
// # Wire format, version 1
//
// A session reads requests on stdin and writes events on stdout, one JSON object per line. Empty lines are ignored.
// Requests:
//
//	{"type":"plan","id":1,"plan":{"run":"7f3a09c1","node":"worker-3","checks":["bgp-session"],"targets":[...]}}
//	{"type":"call","id":2,"call":{"tool":"ping","args":["worker-4"],"size":{"rows":40,"cols":120},"key":"...","hosts":{"worker-4":["10.0.0.4"]}}}
//	{"type":"typed","id":2,"typed":"bHMK","size":{"rows":50,"cols":120}}
//	{"type":"stop","id":2}
//	{"type":"resume","seq":17}
//	{"type":"beat"}
//	{"type":"end"}
//
// The answer to a plan is a start event, any number of results, and an end event. The answer to a tool call is a start
// event, the tool's output in out events, and an end event with the outcome. The probe handles requests one at a time,
// in the order in which they arrive. IDs increase. A client that lost its connection repeats its requests. The probe
// therefore ignores an ID that is not higher than all earlier IDs. A request without an ID, or with ID 0, is always
// treated as new.
//
// stop ends the request with that ID, even if the request has not started yet. The probe still sends the results that
// it has, and the end event has "stopped":true. typed belongs to the running call with that ID. It contains input bytes
// (base64), the new size of the terminal, or both. If the ID belongs to any other request, the probe drops typed. After
// end, the probe finishes its requests and exits. Events:
//
//	{"seq":0,"type":"start","start":{"v":1,"version":"0.1.0","run":"7f3a09c1","node":"worker-3","way":"ssh","id":1,"time":"...","checks":[...],"access":[...]}}
//	{"seq":1,"type":"result","result":{"check":"bgp-session","target":"10.0.0.2","status":"ok","saw":"...","facts":{...},"lines":[...],"elapsed_ns":1200000}}
//	{"seq":2,"type":"log","text":"..."}
//	{"seq":3,"type":"beat"}
//	{"seq":4,"type":"end","end":{"results":1,"counts":{"ok":1},"elapsed_ns":1500000}}
//	{"seq":5,"type":"start","start":{"v":1,"version":"0.1.0","id":2,"node":"worker-3","time":"...","tool":"ping"}}
//	{"seq":6,"type":"out","text":"..."}
//	{"seq":7,"type":"out","data":"/w=="}
//	{"seq":7,"type":"out","data":"...","sealed":true}
//	{"seq":8,"type":"end","end":{"results":0,"counts":{},"elapsed_ns":90000,"outcome":{"check":"ping","status":"ok","saw":"..."}}}
//	{"seq":6,"type":"resume"}
//
// Every event is one line of less than 4096 bytes, written with a single write. seq starts at 0 and has no gaps while
// the process runs, so a reader of two copies can drop duplicates. An out event is a piece of a tool's output,
// including newlines. It has text, or data (base64) if the bytes are not text.
//
// If the call has a key (32 bytes, base64, new for each call), every piece is sealed. Its data then consists of a
// 12-byte nonce, the output encrypted with AES-256-GCM, and the 16-byte tag. Therefore, people who can read a
// container's log cannot read a tool's output. Output is not encrypted if the call has no key or the probe does not
// support keys. The results of a plan are never encrypted.
//
// A stream without an end event is incomplete. If a plan has no checks, the answer is a start event that lists the
// tools ("tools"). A probe that lists no tools predates tools and does not accept calls. A start event has the ID of
// the request that it answers. Readers ignore unknown event types and fields. v rises only when the meaning of an
// existing field changes. Statuses are ok, info, warn, fail, skip and unknown. Durations are in nanoseconds.
//
// A client rejects longer lines. For each request, it accepts at most 20,000 events or 8 MiB of memory. A tool's
// output does not count. It drops results of checks that it did not request. An answer is incomplete if it has such
// results, or if a requested check is missing.
//
// If a client's connection is lost but the probe's stdin stays open, the client continues over a new connection.
// First, it ends a line that may be unfinished. With resume, it requests all events starting at number seq. It repeats
// every request that has no end event. The resume event is not numbered: its seq is the number of the next event. The
// probe keeps the last 4 MiB of its events. If the probe no longer has the requested events, seq is higher than
// requested. Older requests might then never get an end event.
//
// The probe exits if stdin is closed, after the request end, after 30 seconds without a request, or after --life. When
// the connection to a container is lost, stdin may stay open. If the client is gone, the probe finishes a running plan
// but stops a running call. Clients send a beat every 5 seconds.
//
// # Exit codes
//
// 0: the probe answered every request, whatever the results. 1: the probe could not answer a request. 2: invalid
// arguments. With --plugin, the probe uses the exit codes of node-problem-detector's custom plugins: 0: the checks
// found no fault. 1: a check failed. 2: the result is unknown, or the arguments are invalid.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/suite/ask"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/netns"
	"github.com/calico-probe/calico-probe/probe/tools/do"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	var ended exit
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
	case errors.As(err, &ended):
		os.Exit(int(ended))
	case errors.As(err, new(usageError)):
		fmt.Fprintf(os.Stderr, "probe: error: %v; see 'probe --help'\n", err)
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "probe: error: %v\n", err)
		os.Exit(1)
	}
}

const usage = `The part of calico-probe that runs on a node. It changes nothing.

  probe run [--checks LIST] [--text]   run all checks on this machine once
  probe run --plugin                   the same in one line, for node-problem-detector
  probe session                        answer plans and calls from stdin (for calico-probe)
  probe version                        print the version
  probe VERB --help                    list a verb's flags
`

// usageError reports invalid input. It is printed as one line, and the exit code is 2.
type usageError struct{ error }

func command(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return usageError{errors.New("no verb; use run, session or version")}
	}
	switch args[0] {
	case "session":
		return session(ctx, args[1:], in, out)
	case "run":
		return run(ctx, args[1:], out)
	case "version":
		_, err := fmt.Fprintf(out, "probe %s (%s/%s, wire format %d)\n", probe.Release, runtime.GOOS, runtime.GOARCH, probe.Version)
		return err
	case "-h", "-help", "--help", "help":
		return flag.ErrHelp
	}
	return usageError{fmt.Errorf("unknown verb %q; use run, session or version", args[0])}
}

// options holds the flags that both verbs share.
type options struct {
	*flag.FlagSet
	root, only, proc, node *string
}

func flags(verb string, out io.Writer) options {
	f := flag.NewFlagSet("probe "+verb, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {
		f.SetOutput(out)
		f.PrintDefaults()
	}
	return options{
		f,
		f.String("root", "/", "where the node's root directory is mounted"),
		f.String("only", "", "comma-separated paths of the node that are visible below it (empty: all)"),
		f.String("proc", "/proc", "a proc file system"),
		f.String("node", "", "the node's name in Kubernetes"),
	}
}

func (o options) parse(args []string) error {
	switch err := o.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return usageError{err}
	case o.NArg() > 0:
		return usageError{fmt.Errorf("unexpected argument %q", o.Arg(0))}
	}
	return nil
}

func (o options) runner() *probe.Runner {
	h := &probe.Host{Node: *o.node, Root: *o.root, Proc: *o.proc}
	if *o.only != "" {
		h.Only = strings.Split(*o.only, ",")
	}
	args := []string{"session", "--root", h.Root, "--only", *o.only, "--proc", h.Proc, "--node", h.Node}
	entry := netns.Entry{Host: h, Args: args}
	return &probe.Runner{
		Suite: ask.All(), Host: h, Version: probe.Release, Access: held(),
		Tools: do.All(), Enter: entry.Run,
	}
}

// session answers plans and calls until the client disconnects or --life has passed.
func session(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	o := flags("session", out)
	o.String("method", "", "the access method; shown in the process list")
	life := o.Duration("life", 10*time.Minute, "exit after this time")
	notAfter := o.String("not-after", "", "do not start later than this (RFC 3339), by this machine's clock")
	unlink := o.Bool("unlink", false, "first remove this program's own file and its folder")
	if err := o.parse(args); err != nil {
		return err
	}
	if *unlink {
		if err := removeSelf(); err != nil {
			return err
		}
	}
	if *life <= 0 {
		return usageError{errors.New("--life must be positive")}
	}
	if *notAfter != "" {
		at, err := time.Parse(time.RFC3339, *notAfter)
		if err != nil {
			return usageError{fmt.Errorf("--not-after: %w", err)}
		}
		if now := time.Now(); now.After(at) {
			return fmt.Errorf("too late: this probe must not start after %s, and this machine's clock shows %s", *notAfter, now.UTC().Format(time.RFC3339))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, *life)
	defer cancel()
	in, out, done := guarded(in, out, *life, func() {
		cancel()
		time.Sleep(parting)
		fmt.Fprintln(os.Stderr, "probe: error: its output is not read, exiting")
		os.Exit(1)
	})
	defer done()
	return o.runner().Serve(ctx, in, out)
}

// guarded calls abandon if a session does not end after the client has disconnected or --life has passed. If the
// client no longer reads, or the runtime is frozen, a write blocks and the session cannot end. A client that still
// sends requests counts as alive, even if it does not read the output.
func guarded(in io.Reader, out io.Writer, life time.Duration, abandon func()) (io.Reader, io.Writer, func()) {
	over := time.AfterFunc(life+blocked, abandon)
	silence := time.AfterFunc(probe.Silence+blocked, abandon)
	alive := func() { silence.Reset(probe.Silence + blocked) }
	return readWatcher{in, alive}, writeWatcher{out, alive}, func() { over.Stop(); silence.Stop() }
}

// uploadPrefix is the prefix of the folder that the client creates for this program.
const uploadPrefix = "calico-probe-"

// removeSelf removes this program's file from the node immediately, so no exit can leave it behind. The kernel keeps
// the file's data while the program runs, and can start the program again inside pods.
func removeSelf() error {
	file, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program's own file: %w", err)
	}
	if !strings.HasPrefix(filepath.Base(filepath.Dir(file)), uploadPrefix) {
		return usageError{fmt.Errorf("--unlink: %s is not in a folder %s*, where the client puts temporary probes", file, uploadPrefix)}
	}
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("removing this program's own file: %w", err)
	}
	if err := os.Remove(filepath.Dir(file)); err != nil {
		return fmt.Errorf("removing this program's folder: %w", err)
	}
	return nil
}

// blocked is the maximum time that a session with a blocked write may run past its end.
const blocked = 2 * time.Second

// parting is the maximum time that a tool's processes have to exit after the output is blocked.
const parting = time.Second

// writeWatcher reports each successful write.
type writeWatcher struct {
	io.Writer
	wrote func()
}

func (t writeWatcher) Write(b []byte) (int, error) {
	n, err := t.Writer.Write(b)
	if err == nil {
		t.wrote()
	}
	return n, err
}

// readWatcher reports each read that returned data.
type readWatcher struct {
	io.Reader
	alive func()
}

func (l readWatcher) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	if n > 0 {
		l.alive()
	}
	return n, err
}

// run answers a plan once. If it gets no plan, it runs the checks that need no targets.
func run(ctx context.Context, args []string, out io.Writer) error {
	o := flags("run", out)
	want := o.String("checks", "", "run only these checks: IDs, prefixes, globs or tags, separated by commas (empty: all)")
	var given []string
	o.Func("plan", "answer this plan instead, as JSON or packed (gzip, base64); repeat the flag for each piece",
		func(piece string) error { given = append(given, piece); return nil })
	summary := o.String("summary", "", "write a summary of the complete answer to this file")
	text := o.Bool("text", false, "write text instead of JSON")
	asPlugin := o.Bool("plugin", false, "write one line and exit with 0, 1 or 2, as a custom plugin of node-problem-detector")
	if err := o.parse(args); err != nil {
		return err
	}
	if *asPlugin && (*text || *summary != "") {
		return usageError{errors.New("--plugin writes one line: leave out --text and --summary")}
	}
	plan, err := planOf(given, *want)
	if err != nil {
		return usageError{err}
	}
	if plan.Node == "" {
		plan.Node = *o.node
	}
	came := probe.Summary{V: probe.Version, Run: plan.Run, Checks: map[string]probe.Status{}}
	enc := probe.NewEncoder(out)
	emit := func(ev probe.Event) {
		came.Summarize(ev)
		enc.Encode(ev)
	}
	var failed error
	if *text {
		emit = func(ev probe.Event) {
			if r := ev.Result; r != nil && failed == nil {
				_, failed = fmt.Fprintf(out, "%-8s%-20s%s\n", r.Status, r.Check, strings.TrimPrefix(r.Target+": "+r.Saw, ": "))
			}
		}
	}
	if *asPlugin {
		var p plugin
		o.runner().Run(ctx, plan, p.add)
		return p.end(out)
	}
	o.runner().Run(ctx, plan, emit)
	if err := errors.Join(failed, enc.Err()); err != nil || *summary == "" {
		return err
	}
	b, err := json.Marshal(came)
	if err != nil {
		return err
	}
	return os.WriteFile(*summary, b, 0o600)
}

// planOf returns the given plan, or creates a plan from the selected checks.
func planOf(given []string, want string) (probe.Plan, error) {
	plan := probe.Plan{Method: "hand"}
	if len(given) > 0 {
		if want != "" {
			return plan, errors.New("--plan names its checks: leave out --checks")
		}
		plan, err := probe.UnpackPlan(given)
		if err != nil {
			return plan, fmt.Errorf("--plan: %w", err)
		}
		plan.Method = cmp.Or(plan.Method, "hand")
		return plan, nil
	}
	var patterns []string
	if want != "" {
		patterns = strings.Split(want, ",")
	}
	picked, err := probe.Select(ask.All(), patterns, nil)
	for _, c := range picked {
		plan.Checks = append(plan.Checks, c.ID)
	}
	return plan, err
}
