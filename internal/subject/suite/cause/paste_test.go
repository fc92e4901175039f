//go:build unix

package cause

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// hostile are values that a node, or an object of the API, may have in place of a name, an
// address or a file. Each has the word "hurt", which is a program here.
var hostile = []string{
	"00;hurt x.conf", "/etc/cni/net.d/00;hurt x.conf", "$(hurt x)", "`hurt x`", `a'b"; hurt x #`,
	"x'; hurt x; '", `x"; hurt x; "`, "x\nhurt x\n", "x\r\nhurt x", "--hurt", "-ohurt=1", "prod/--hurt",
	"hurt --all", "../hurt", "/../hurt", "/hurt*", "~hurt", "{namespace}hurt", "{pod}", "hurt|hurt x",
	"x&hurt x&", "x>hurt", "${IFS}hurt", "hurt\\", "x,metadata.name=hurt", `hurt","hurt":"x`,
	"h\u00e9hurt\u540d", "\x1b[31mhurt\x1b[0m", "hurt\u202ex", "fe80::1%hurt;hurt x", "10.0.0.0/24;hurt x",
	"interface=^x';hurt x;'$", "cidr=10.0.0.0/8;hurt x",
	// One character that a shell does not take literally, and no blank, which no argument may have.
	"x;hurt", "x|hurt", "/x&hurt", "/x$(hurt)", "x`hurt`", `/x"hurt`, "x'hurt", "x(hurt",
}

// recorded are the streams of testdata.
func recorded(t *testing.T) map[string]diagnose.Findings {
	t.Helper()
	streamsOnce.Do(func() {
		for _, name := range nightfile.All() {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, section := range txtar.Parse(b).Files {
				if section.Name == "stream" {
					streams[strings.TrimSuffix(filepath.Base(name), ".txtar")] = read(t, section.Data)
				}
			}
		}
	})
	if len(streams) == 0 {
		t.Fatal("no recorded streams")
	}
	return streams
}

// streams are what was seen in each recorded night; tests share it and change nothing of it.
var (
	streamsOnce sync.Once
	streams     = map[string]diagnose.Findings{}
)

// replaced is what was seen with another text in place of one, wherever that stands.
func replaced(t *testing.T, f diagnose.Findings, old, with string) diagnose.Findings {
	t.Helper()
	swap := func(s string) string { return strings.ReplaceAll(s, old, with) }
	var deep func(any) any
	deep = func(v any) any {
		switch v := v.(type) {
		case string:
			return swap(v)
		case []any:
			out := slices.Clone(v)
			for i := range out {
				out[i] = deep(out[i])
			}
			return out
		case map[string]any:
			out := map[string]any{}
			for key, value := range v {
				out[swap(key)] = deep(value)
			}
			return out
		}
		return v
	}
	out := diagnose.Findings{Node: swap(f.Node)}
	for _, r := range f.All {
		r.Node, r.Target, r.From, r.Saw = swap(r.Node), swap(r.Target), swap(r.From), swap(r.Saw)
		facts := probe.Facts{}
		for key, value := range r.Facts {
			facts[key] = deep(value)
		}
		r.Facts = facts
		out.All = append(out.All, r)
	}
	return out
}

// values are the texts of a run that fixes put into their commands, by the rule and the name
// they have there.
func values(f diagnose.Findings) map[[2]string][]string {
	out := map[[2]string][]string{}
	add := func(rule, name, value string) {
		if value != "" {
			out[[2]string{rule, name}] = append(out[[2]string{rule, name}], value)
		}
	}
	add("", "node", f.Node)
	for _, r := range f.Of(facts.CheckCalicoPod) {
		namespace, pod, _ := strings.Cut(r.Facts.Str(facts.Pod), "/")
		add("", "namespace", namespace)
		add("", "pod", pod)
		add("", "daemonset", r.Facts.Str(facts.Owner))
	}
	f = diagnose.Ready(f, All())
	for _, rule := range All().Rules {
		for _, c := range rule.Match(f) {
			for name, arg := range c.Args {
				add(rule.ID, name, arg.Said())
				if method, value, ok := strings.Cut(arg.Said(), "="); name == "method" && ok {
					add(rule.ID, method, strings.Trim(value, "^$"))
				}
			}
		}
	}
	return out
}

// TestPaste feeds every value that a fix may name with hostile ones, in the nights that were
// recorded, and pastes each command into a shell whose programs only say what they were
// given: none runs that the fix does not name, and no value becomes another word or an
// option, on this machine or behind ssh.
func TestPaste(t *testing.T) {
	t.Parallel()
	nights := recorded(t)
	commands, tried := map[string]bool{}, map[[2]string]int{}
	for _, night := range slices.Sorted(maps.Keys(nights)) {
		for _, command := range explained(t, nights[night]) {
			commands[command] = true
		}
		for name, texts := range values(nights[night]) {
			if tried[name]++; tried[name] > 1 { // the same value by the same rule, again
				continue
			}
			for _, text := range texts {
				for _, bad := range hostile {
					for _, command := range explained(t, replaced(t, nights[night], text, bad)) {
						commands[command] = true
					}
				}
			}
		}
	}
	for _, rule := range All().Rules {
		for _, name := range rule.Args() {
			if tried[[2]string{rule.ID, name}] == 0 && tried[[2]string{"", name}] == 0 {
				t.Errorf("no recorded night has a value for {%s} of %s", name, rule.ID)
			}
		}
	}
	shell := newShell(t, slices.Collect(maps.Keys(commands)))
	for _, command := range slices.Sorted(maps.Keys(commands)) {
		wrong := shell.paste(t, command)
		if strings.Contains(command, "${MTU:?") { // which is for the reader to set, and nothing runs before
			if !slices.Contains(wrong, "it runs nothing") {
				t.Errorf("it runs without an MTU: %q", command)
			}
			wrong = shell.paste(t, "MTU=1400; "+command)
		}
		if strings.Contains(command, evidence.MethodToSet) {
			if !slices.Contains(wrong, "it runs nothing") {
				t.Errorf("it runs without a method: %q", command)
			}
			wrong = shell.paste(t, "METHOD=can-reach=10.0.0.1; "+command)
		}
		for _, wrong := range wrong {
			t.Errorf("%s: %q", wrong, command)
		}
	}
	t.Logf("%d commands", len(commands))
}

// explained are all commands that causes of a run name; no sentence of theirs breaks a line.
func explained(t *testing.T, f diagnose.Findings) []string {
	t.Helper()
	var out []string
	for _, c := range diagnose.Explain(f, All()).Causes {
		for _, text := range []string{c.Says, c.Fix.Says, c.Fix.Radius} {
			if probe.Line(text) != text {
				t.Errorf("%s is more than a line, or moves the cursor: %q", c.ID, text)
			}
		}
		out = slices.Concat(out, c.Fix.Manifest, c.Fix.Operator)
		for _, only := range c.Fix.OnlyIf {
			out = slices.Concat(out, only.Manifest, only.Operator)
		}
	}
	return out
}

// shell pastes commands where every program only writes down what it was given; ssh and
// sudo go on with that as they would.
type shell struct{ sh, dir, log, programs string }

// word is what may be the name of a program.
var word = regexp.MustCompile(`[A-Za-z][A-Za-z0-9_-]*`)

func newShell(t *testing.T, commands []string) shell {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	s := shell{sh: sh, dir: t.TempDir(), log: filepath.Join(t.TempDir(), "log"), programs: t.TempDir()}
	says := "#!" + sh + "\n" + `printf '%s\0' "${0##*/}" "$@" >> "$LOG"; printf '\n\0' >> "$LOG"` + "\n"
	goesOn := map[string]string{".says": "", "ssh": "shift; exec " + sh + ` -c "$*"`, "sudo": `exec "$@"`}
	for name, then := range goesOn {
		if err := os.WriteFile(filepath.Join(s.programs, name), []byte(says+then+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range append(commands, "hurt") {
		for _, name := range word.FindAllString(command, -1) {
			if err := os.Symlink(".says", filepath.Join(s.programs, name)); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
		}
	}
	return s
}

// paste tells what is wrong with a command.
func (s shell) paste(t *testing.T, command string) []string {
	t.Helper()
	if strings.ContainsAny(command, "\n\r") || probe.Line(command) != command {
		return []string{"it is more than a line, or moves the cursor"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.sh, "-c", command)
	cmd.Dir, cmd.Env = s.dir, []string{"PATH=" + s.programs, "LOG=" + s.log}
	said, _ := cmd.CombinedOutput() // how a program ends that does nothing is no matter
	var wrong []string
	if strings.Contains(string(said), "yntax error") || strings.Contains(string(said), "nterminated quoted string") {
		return []string{"it is no command: " + string(said)} // of which a shell runs nothing
	}
	if ctx.Err() != nil || strings.Contains(string(said), "not found") {
		wrong = append(wrong, "it runs a program that there is not, or does not end: "+string(said))
	}
	log, err := os.ReadFile(s.log)
	if err != nil && !strings.HasPrefix(command, "#") {
		wrong = append(wrong, "it runs nothing")
	}
	for ran := range bytes.SplitSeq(log, []byte("\n\x00")) {
		words := strings.Split(strings.TrimSuffix(string(ran), "\x00"), "\x00")
		if words[0] == "hurt" {
			wrong = append(wrong, "it runs a value")
		}
		for _, w := range words[1:] {
			whole := slices.ContainsFunc(hostile, func(value string) bool { return strings.Contains(w, value) })
			if strings.Contains(w, "hurt") && (strings.HasPrefix(w, "-") || !whole) {
				wrong = append(wrong, words[0]+" is given a part of a value, or an option: "+w)
			}
		}
	}
	_ = os.Remove(s.log)
	left, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range left {
		if file.Name() != "kubelet.conf" || !strings.HasSuffix(command, "> kubelet.conf") {
			wrong = append(wrong, "it writes "+file.Name())
		}
		if err := os.Remove(filepath.Join(s.dir, file.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return wrong
}

// TestPasteSees wants the shell of TestPaste to see what it is there for.
func TestPasteSees(t *testing.T) {
	t.Parallel()
	bad := []string{
		"kubectl get pod x; hurt x", "ssh node-a df -h '$(hurt x)'",
		"ssh node-a sudo mv '/etc/cni/net.d/00;hurt x.conf' /root/", "kubectl delete pod --hurt",
		"kubectl get pod $(hurt x)", "kubectl get pod 'x", "kubectl get pod x>hurt",
		"kubectl get pod x\nhurt x", "ssh -ohurt=1 ls", "kubectl get pod 00\\;hurt", "nothing-such",
	}
	s := newShell(t, bad[:len(bad)-1])
	for _, command := range bad {
		if len(s.paste(t, command)) == 0 {
			t.Errorf("let through: %q", command)
		}
	}
	if wrong := s.paste(t, "kubectl get pod '00;hurt x.conf'"); len(wrong) != 0 {
		t.Errorf("a value that arrives whole: %v", wrong)
	}
}
