package causefile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// own is an operator's cause; the test inserts a command and a sentence.
func own(says, command string) string {
	return fmt.Sprintf("---\nlayer: routes\nfind:\n  lost: route-rules fail\ncases:\n- if: lost\n  says: %q\n  for: proof lost\n---\n"+
		"# our agent removed table 220\n\nDoc.\n\n## Fix\n\nRestart it.\n\n```sh\n%s\n```\n\nTouches: this node\n", says, command)
}

func TestTheirs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	known := Known{Checks: []string{"route-rules"}, Causes: []string{"main-rule-missing"}}
	if _, err := Theirs(dir, shared, known); err == nil {
		t.Error("an empty folder is no error")
	}
	write("agent-table.md", own("the agent of {node} removed it: {lost.saw}", "ssh {node} systemctl restart agent"))
	write("README.md", "notes")
	rules, err := Theirs(dir, shared, known)
	if err != nil || len(rules) != 1 || rules[0].Source != dir {
		t.Fatalf("%v, %v", rules, err)
	}
	for name, text := range map[string]string{
		"main-rule-missing.md": own("x", "true"),
		"escape.md":            own("x", "true") + "\x1b[2J",
		"yaml-escape.md":       strings.Replace(own("x", "true"), `says: "x"`, `says: "x\x1b[2J"`, 1),
		"own-command.md":       strings.Replace(own("x", "ssh {node} {what}"), "  for:", "  args: {what: 'own $(reboot)'}\n  for:", 1),
		"word-command.md": strings.Replace(own("x", "ssh {node} {what}"), "  for:",
			"  args: {what: 'name:$(reboot) {lost.saw}'}\n  for:", 1),
		"line.md":         strings.Replace(own("x", "true"), "Doc.", "Doc \u2028.", 1),
		"bidi.md":         strings.Replace(own("x", "true"), "Doc.", "Doc \u202e.", 1),
		"substitution.md": own("x", "kubectl delete pod $(cat /etc/passwd)"),
		"backtick.md":     own("x", "kubectl delete pod `cat /etc/passwd`"),
		"quote.md":        own("x", "kubectl get 'pods"),
		"verb.md":         own("x", "kubectl obliterate pods"),
		"template.md":     own("{lost.saw:nonsense}", "true"),
		"placeholder.md":  own("x", "ssh {nothere} true"),
		"check.md":        strings.Replace(own("x", "true"), "route-rules", "no-such-check", 1),
		"large.md":        own("x", "true") + strings.Repeat("x", maxFile),
		"Odd Name.md":     own("x", "true"),
		"long.md":         strings.Replace(own("x", "true"), "lost: route", strings.Repeat("x", 2000)+" y: route", 1),
		"binary.md":       "---\nlayer: \x00\xff\n",
	} {
		write(name, text)
		_, err := Theirs(dir, shared, known)
		id := strings.TrimSuffix(name, ".md")
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: %v, want one line that names it", name, err)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\x1b\u202e\u2028\x00") || len(err.Error()) > 300) {
			t.Errorf("%s: the error has what controls a terminal", name)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheirsBounds checks that a folder with any content gives a one-line error, and that no file outside it is read.
func TestTheirsBounds(t *testing.T) {
	t.Parallel()
	many := t.TempDir()
	for i := range 10_000 {
		if err := os.WriteFile(filepath.Join(many, fmt.Sprintf("c%d.md", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bad := t.TempDir()
	for i := range maxFiles {
		if err := os.WriteFile(filepath.Join(bad, fmt.Sprintf("c%d.md", i)), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	links := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(links, "passwd.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(links, "folder.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	for dir, lines := range map[string]int{
		many: 1, bad: maxFaults + 1, links: 2, filepath.Join(many, "c0.md"): 1, "/nonexistent": 1,
	} {
		_, err := Theirs(dir, shared, Known{})
		if err == nil {
			t.Errorf("%s is taken", dir)
			continue
		}
		if n := 1 + strings.Count(err.Error(), "\n"); n != lines || strings.Contains(err.Error(), "root:") {
			t.Errorf("%s: %d lines, want %d: %v", dir, n, lines, err)
		}
	}
}
