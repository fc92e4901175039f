package runbook

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

func (l *linter) action(at string, s *Step, in *scope) {
	if s.Name == "" {
		l.find(at, "an action needs a name, for --allow-actions NAME")
	}
	at += ".action"
	a := s.Action
	l.want(at+".says", a.Says)
	l.text(at+".says", a.Says, in)
	l.want(at+".touches", a.Touches)
	l.text(at+".touches", a.Touches, in)
	if len(a.DryRun) == 0 {
		l.find(at, "an action needs a dryRun that shows what it would do")
	}
	if len(a.Command) == 0 {
		l.find(at, "an action needs a command")
	}
	l.command(at+".dryRun", a.DryRun, in)
	for i, keep := range a.Keep {
		here := fmt.Sprintf("%s.keep[%d]", at, i)
		if len(keep) == 0 {
			l.find(here, "the command has no name")
		}
		l.command(here, keep, in)
		if len(keep) > 0 && isProgram(keep[0], "kubectl") && !slices.ContainsFunc(keep, func(w string) bool {
			return slices.Contains([]string{"logs", "get", "describe", "top"}, w)
		}) {
			l.find(here, "what is kept is only read: kubectl logs, get, describe or top")
		}
	}
	l.command(at+".command", a.Command, in)
	if len(a.DryRun) > 0 && isProgram(a.DryRun[0], "kubectl") && !slices.ContainsFunc(a.DryRun, func(w string) bool {
		return slices.Contains([]string{"--dry-run=server", "--dry-run=client", "diff", "get", "describe"}, w)
	}) {
		l.find(at+".dryRun", "a dry run changes nothing: give kubectl --dry-run=server")
	}
}

// command lints the words of a command. What a node said must be no part of a script.
func (l *linter) command(at string, words []string, in *scope) {
	for i, w := range words {
		here := fmt.Sprintf("%s[%d]", at, i)
		if w == "" && i == 0 {
			l.find(here, "the command has no name")
		}
		switch {
		case !l.holdsValues(w):
		case i > 1 && strings.HasPrefix(words[i-1], "-") && strings.HasSuffix(words[i-1], "c") && slices.ContainsFunc(words[:i-1], isShell):
			l.find(here, "a value in a script can be a command: pass it as an argument, and write \"$1\" in the script")
		case i > sshHost(words):
			l.find(here, "ssh makes a script of its words for a shell of the other host, and a value in it can be a command")
		}
		l.text(here, w, in)
	}
}

func isShell(name string) bool { return isProgram(name, "sh", "bash", "dash", "ash", "zsh", "ksh") }

func isProgram(word string, names ...string) bool { return slices.Contains(names, path.Base(word)) }

// sshHost is where an ssh among the words of a command has its host: what comes after is
// put together there. Without one it is beyond the last word.
func sshHost(words []string) int {
	at := slices.IndexFunc(words, func(w string) bool { return isProgram(w, "ssh") })
	if at < 0 {
		return len(words)
	}
	for at++; at < len(words) && strings.HasPrefix(words[at], "-"); at++ {
		if len(words[at]) == 2 && strings.Contains("BbcDEeFIiJLlmOopPQRSWw", words[at][1:]) { // its value is the next word
			at++
		}
	}
	return at
}

// holdsValues tells whether values are put into a text.
func (*linter) holdsValues(text string) bool {
	parts, err := pieces(text)
	return err == nil && slices.ContainsFunc(parts, func(p piece) bool { return p.expression != "" })
}
