//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What an agent may need for one of the incidents of the field.
const (
	mostCalls  = 3
	mostTokens = 6000
	callTokens = 2000 // of the text of one answer
)

// tokens is how many a text is for a language model.
func tokens(t testing.TB, text string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), file(".cache/bin/tokens"))
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// agent is a client of 'calico-probe mcp', as an agent's program starts it.
func agent(t testing.TB, args ...string) *mcp.ClientSession {
	t.Helper()
	cmd := client(t, append([]string{"mcp"}, args...)...)
	cmd.Stderr = os.Stderr
	if !testing.Verbose() {
		cmd.Stderr = nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	c, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(ctx,
		&mcp.CommandTransport{Command: cmd, TerminateDuration: 20 * time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// skillCalls are the calls that a skill prescribes, as its text has them.
func skillCalls(t testing.TB, name string) [][3]string {
	t.Helper()
	b, err := client(t, "runbook", "skill", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	var out [][3]string
	line := regexp.MustCompile("(?m)^[0-9]+\\. `([a-z]+)` with `([^`]*)`(?:, if (.*))?$")
	for _, m := range line.FindAllStringSubmatch(string(b), -1) {
		out = append(out, [3]string{m[1], m[2], m[3]})
	}
	return out
}

var (
	answerID   = regexp.MustCompile(`(?m)^id: (\S+)`)
	firstCause = regexp.MustCompile(`(?m)^causes, the likeliest first: ([a-z0-9-]+) \((\w+)\)`)
	firstCheck = regexp.MustCompile(`(?m)^checks that are not good: ([a-z0-9-]+) `)
)

// bySkill follows the skill of a runbook literally, without a model. It reports the first cause that it reaches, and
// the number of calls and of answered tokens.
func bySkill(t testing.TB, c *mcp.ClientSession, name, node string) (cause string, calls, read int) {
	t.Helper()
	id, confidence, check := "", "", ""
	for _, call := range skillCalls(t, name) {
		switch {
		case call[2] == "run reports a cause" && cause == "",
			call[2] == "its confidence is not high" && (confidence == "high" ||
				check == ""):
			continue
		}
		var args map[string]any
		filled := strings.NewReplacer(`"NODE"`, `"`+node+`"`, `"RUN"`, `"`+id+`"`, `"CAUSE"`, `"`+cause+`"`,
			`"CHECK"`, `"`+check+`"`).Replace(call[1])
		if err := json.Unmarshal([]byte(filled), &args); err != nil {
			t.Fatal(err)
		}
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: call[0], Arguments: args})
		if err != nil {
			t.Fatalf("%s %s: %v", call[0], filled, err)
		}
		text := r.Content[0].(*mcp.TextContent).Text
		if r.IsError {
			t.Fatalf("%s %s: %s", call[0], filled, text)
		}
		n := tokens(t, text)
		if n > callTokens {
			t.Errorf("%s %s answers %d tokens:\n%s", call[0], filled, n, text)
		}
		calls, read = calls+1, read+n
		if call[0] == "run" {
			first := func(r *regexp.Regexp, i int) string {
				if m := r.FindStringSubmatch(text); m != nil {
					return m[i]
				}
				return ""
			}
			id, cause, confidence, check = first(answerID, 1), first(firstCause, 1), first(firstCause, 2), first(firstCheck, 1)
		}
	}
	return cause, calls, read
}

// followsSkill requires that the skill of the fault's runbook leads an agent to the cause, and returns the cost.
func followsSkill(t *testing.T, f fault) string {
	t.Helper()
	want := f.Shows
	args := append([]string{"--allow-probes"}, bySSH(t)...)
	if !want.Machine { // others keep the machine busy: a true cause, and not this one
		args = append(args, "--skip", "node-load")
	}
	c := agent(t, args...)
	for began := time.Now(); ; time.Sleep(time.Second) {
		cause, calls, read := bySkill(t, c, want.Runbook, f.Node)
		switch {
		case cause == want.Cause && calls <= mostCalls && read <= mostTokens:
			return fmt.Sprintf("`%s` | %d | %d", cause, calls, read)
		case time.Since(began) > unfolds || calls > mostCalls || read > mostTokens:
			t.Errorf("the skill of %s comes to %q by %d calls and %d tokens", want.Runbook, cause, calls, read)
			return ""
		}
	}
}
