// Command liar is a hostile probe, which tries to mislead or exhaust its client. The end-to-end tests run it on a node
// in place of the probe. The first request chooses its lie. On any node but its target, it acts as the real probe.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/calico-probe/calico-probe/probe"
)

// Where the probe is in the image of this one, and the node that is lied about.
const (
	honest = "/honest"
	victim = "node-a"
)

func main() {
	if i := slices.Index(os.Args, "--node"); i < 0 || os.Args[i+1] != victim {
		err := syscall.Exec(honest, os.Args, os.Environ())
		fmt.Fprintln(os.Stderr, "liar:", err)
		os.Exit(1)
	}
	l := &liar{out: bufio.NewWriterSize(os.Stdout, 1<<20)}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var request probe.Request
		if json.Unmarshal(in.Bytes(), &request) != nil {
			continue
		}
		switch {
		case request.Plan != nil && len(request.Plan.Checks) == 0:
			l.greets()
		case request.Plan != nil:
			l.answers(request.Plan.Checks)
		case request.Call != nil:
			l.calls(request.Call.Tool)
		}
		if l.out.Flush() != nil {
			return
		}
	}
}

// liar writes events without any of the limits a probe has.
type liar struct {
	out *bufio.Writer
	seq int
}

// says writes an event of a type, with whatever is to be in it.
func (l *liar) says(kind, rest string) error {
	_, err := fmt.Fprintf(l.out, "{\"seq\":%d,\"type\":%q%s}\n", l.seq, kind, rest)
	l.seq++
	return err
}

func (l *liar) result(check, rest string) error {
	return l.says("result", fmt.Sprintf(`,"result":{"check":%q,%s}`, check, rest))
}

const (
	begins = `,"start":{"v":1,"version":"0"}`
	fine   = `"status":"ok","saw":"all is well"`
	// As JSON has them: clear the screen, a title, the clipboard, letters turned round, a new line.
	escapes = `x\u001b[2J\u001b]0;owned\u0007\u001b]52;c;ZXZpbA==\u0007\u009b2J\u202egnp.exe\nforged: all is well\u001b[32m`
)

// answers lies in the way that the first check chooses.
func (l *liar) answers(checks []string) {
	_ = l.says("start", begins) // who does not read it does not read the rest
	if len(checks) >= 8 {       // as much as one request lets through
		l.fills(checks)
		return
	}
	switch checks[0] {
	case "node-swap": // answers without end
		for i := 0; ; i++ {
			if l.result("node-swap", fmt.Sprintf(`%s,"target":"%d","lines":["%s"]`, fine, i, strings.Repeat("y", 100))) != nil {
				break
			}
		}
	case "node-clock": // a line without end
		for {
			if _, err := l.out.WriteString(strings.Repeat("x", 4096)); err != nil {
				break
			}
		}
	case "node-memory": // one text too long
		_ = l.result("node-memory", fine+`,"from":"`+strings.Repeat("x", 6000)+`"`)
		_ = l.result("node-memory", fine+`,"from":"`+strings.Repeat("x", 3800)+`"`)
		_ = l.result("node-memory", fine)
		_ = l.says("end", `,"end":{"results":1}`)
	default:
		l.forges(checks)
	}
}

// fills answers so much, and comes to its end.
func (l *liar) fills(checks []string) {
	lines := `"` + strings.Join(slices.Repeat([]string{strings.Repeat("y", 200)}, 16), `","`) + `"`
	for _, id := range checks {
		for i := range 900 {
			_ = l.result(id, fmt.Sprintf(`%s,"target":"%d","lines":[%s]`, fine, i, lines))
		}
	}
	_ = l.says("end", `,"end":{}`)
}

// forges sends answers in the name of the API, the client and pods, with terminal colours.
func (l *liar) forges(checks []string) {
	for _, id := range checks {
		_ = l.result(id, `"status":"warn","saw":"`+escapes+`","target":"`+escapes+`","lines":["`+escapes+`"],"facts":{"`+
			escapes+`":"`+escapes+`"}`)
	}
	for _, id := range []string{"calico-pod", "node-ready", "probe-placed", "probe-answered", "ip-registered"} {
		_ = l.result(id, `"status":"fail","saw":"it is dead","target":"prod/--all","facts":{"reason":"CrashLoopBackOff","pod":"prod/--all","namespace":"prod"}`)
	}
	_ = l.says("verdict", `,"verdict":{"verdict":"healthy"}`)
	_ = l.says("cause", `,"cause":{"cause":"calico-pod-crashes","fix":{"manifest":["kubectl delete pod -n prod --all"]}}`)
	_ = l.says("log", `,"text":"`+escapes+`"`)
	_ = l.says("end", fmt.Sprintf(`,"end":{"results":%d,"counts":{"ok":%d}}`, len(checks), len(checks)))
}

// greets says more of itself than a line of ours has room for, once it is stamped and counted.
func (l *liar) greets() {
	_ = l.says("start", fmt.Sprintf(`,"start":{"v":1,"version":"%s","tools":["ping","ps"],"access":["%s"]}`, strings.Repeat("<", 500), strings.Repeat("<", 2500)))
	_ = l.says("end", `,"end":{}`)
}

// calls answers a tool with too much of everything, and in a later format, or without end.
func (l *liar) calls(tool string) {
	_ = l.says("start", `,"start":{"v":1,"tool":"x","access":["`+strings.Repeat("<", 3500)+`"]}`)
	for tool == "ping" {
		if l.says("out", `,"text":"`+strings.Repeat(strings.Repeat("z", 99)+`\n`, 30)+`"`) != nil {
			break
		}
	}
	_ = l.says("out", `,"data":"`+strings.Repeat("/w==", 1)+`"`)
	_ = l.says("out", `,"text":"`+strings.Repeat("<", 3500)+`"`)
	_ = l.says("result", `,"result":{"check":"node-ready","status":"fail","saw":"it is dead"}`)
	_ = l.says("start", `,"start":{"v":99}`)
	_ = l.says("end", `,"end":{"counts":{"`+strings.Repeat("<", 3000)+`":1},"outcome":{"check":"`+
		strings.Repeat("x", 500)+`","status":"ok","saw":"`+escapes+`"}}`)
}
