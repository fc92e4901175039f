package runbook

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
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
		l.onlyReads(here, keep)
	}
	l.command(at+".command", a.Command, in)
	l.onlyReads(at+".dryRun", a.DryRun)
}

// kubectl's verbs, some with a subcommand, that only read or that change something. Any other verb, such as exec or a
// plugin, gets a warning.
var (
	kubectlReads = []string{"api-resources", "api-versions", "apply view-last-applied", "auth can-i", "auth whoami",
		"cluster-info", "config current-context",
		"config get-contexts", "config view", "describe", "diff", "events", "explain", "get", "help", "kustomize", "logs",
		"options", "rollout history",
		"rollout status", "top", "version", "wait"}
	kubectlChanges = []string{"annotate", "apply", "auth reconcile", "autoscale", "certificate approve",
		"certificate deny", "cordon", "create", "delete", "drain",
		"edit", "expose", "label", "patch", "replace", "rollout pause", "rollout restart", "rollout resume", "rollout undo",
		"run", "scale", "set", "taint", "uncordon"}
	// options with which kubectl changes nothing
	kubectlKeeps = []string{"--dry-run=server", "--dry-run=client", "--local", "--list", "--help", "-h"}
)

// onlyReads lints a command that runs before the user confirms anything.
func (l *linter) onlyReads(at string, words []string) {
	for _, i := range programs(words) {
		if !isProgram(words[i], "kubectl") {
			continue
		}
		own := words[i+1:]
		if dashes := slices.Index(own, "--"); dashes >= 0 {
			own = own[:dashes]
		}
		verb, rest := kubectlVerb(own)
		under, _ := kubectlVerb(rest)
		both := verb + " " + under
		switch {
		case verb == "", slices.Contains(kubectlReads, verb), slices.Contains(kubectlReads, both):
		case slices.ContainsFunc(own, func(w string) bool { return slices.Contains(kubectlKeeps, w) }):
		case slices.Contains(kubectlChanges, verb), slices.Contains(kubectlChanges, both):
			l.find(at, "kubectl %s changes something, but runs before the user confirms: use a command that only reads, or --dry-run=server", verb)
		default:
			l.warnAt(l.line(at), "kubectl %s may change something, but runs before the user confirms: make sure that it only reads", verb)
		}
	}
}

// kubectlVerb returns the verb as kubectl finds it (the first word that is neither an option nor an option's value),
// and the words after it.
func kubectlVerb(words []string) (verb string, rest []string) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "--":
			return "", nil
		case !strings.HasPrefix(w, "-"):
			return w, words[i+1:]
		case strings.Contains(w, "="), slices.Contains([]string{
			"-h", "--help", "--disable-compression", "--insecure-skip-tls-verify", "--match-server-version",
			"--warnings-as-errors",
		}, w):
		case len(w) == 2, strings.HasPrefix(w, "--"):
			i++ // skip the option's value
		}
	}
	return "", nil
}

// command lints a command. A text from a node must never be part of a script, because a shell could execute that text.
func (l *linter) command(at string, words []string, in *scope) {
	for i, w := range words {
		here := fmt.Sprintf("%s[%d]", at, i)
		if w == "" && i == 0 {
			l.find(here, "the command has no name")
		}
		l.text(here, w, in)
	}
	started := programs(words)
	for i := range words {
		isStarted := slices.Contains(started, i)
		for _, script := range scripts(words, i) {
			here := fmt.Sprintf("%s[%d]", at, script)
			switch {
			case !l.holdsValues(words[script]):
			case isStarted:
				l.find(here, "a shell could execute a value in its script: pass the value as an argument, and write \"$1\" in the script")
			default:
				l.warnAt(l.line(here), "if %s is a shell, it could execute a value in its script: pass the value as an argument, and write \"$1\" in the script", words[i])
			}
		}
		if isStarted && isProgram(words[i], "ssh") {
			l.ssh(at, words, i)
		}
	}
}

// starters are programs that start another program, which follows in their arguments. words is the number of their own
// arguments before that program. valued has the letters of options whose value is the next word.
var starters = map[string]struct {
	words  int
	valued string
}{
	"sudo": {0, "CDghpRrTtUu"}, "doas": {0, "Cu"}, "env": {0, "Cu"}, "nice": {0, "n"}, "nohup": {}, "setsid": {},
	"stdbuf":  {0, "eio"},
	"timeout": {1, "ks"}, "chroot": {1, ""}, "nsenter": {0, "GSt"}, "busybox": {},
}

// programs returns the indexes of the words that name a program: the first word, and the programs that this program
// starts in turn.
func programs(words []string) []int {
	var out []int
	for at := 0; at < len(words); {
		out = append(out, at)
		name := program(words[at])
		if name == "kubectl" { // exec POD -- PROGRAM
			verb, _ := kubectlVerb(words[at+1:])
			dashes := slices.Index(words[at:], "--")
			if dashes < 0 || !slices.Contains([]string{"exec", "debug", "run"}, verb) {
				break
			}
			at += dashes + 1
			continue
		}
		s, ok := starters[name]
		if !ok {
			break
		}
		at = behindOptions(words, at+1, s.valued)
		for range s.words {
			at = behindOptions(words, at+1, "")
		}
		for at < len(words) && envWord.MatchString(words[at]) {
			at++
		}
	}
	return out
}

var envWord = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// behindOptions returns the index of the first word that is neither an option nor an option's value.
func behindOptions(words []string, at int, valued string) int {
	for at < len(words) && (strings.HasPrefix(words[at], "-") || strings.HasPrefix(words[at], "+")) {
		w := words[at]
		at++
		// Otherwise the value is in the same word.
		if n := strings.IndexAny(w, valued); n > 0 && n == len(w)-1 && !strings.HasPrefix(w, "--") {
			at++
		}
		if w == "--" {
			break
		}
	}
	return at
}

// program returns a program's name without its folder, and without Windows' .exe.
func program(word string) string {
	return strings.TrimSuffix(path.Base(strings.ReplaceAll(word, `\`, "/")), ".exe")
}

func isProgram(word string, names ...string) bool { return slices.Contains(names, program(word)) }

var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"}

// scripts returns the indexes of the words that contain a script, if the word at index at is a shell.
func scripts(words []string, at int) []int {
	var out []int
	switch {
	case isProgram(words[at], shells...):
		script := behindOptions(words, at+1, "oO")
		for i := at + 1; i <= script && i < len(words); i++ {
			out = append(out, i)
		}
		if !slices.ContainsFunc(words[at+1:min(script, len(words))], func(w string) bool {
			return strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "c")
		}) {
			return nil
		}
	case isProgram(words[at], "su", "runuser"):
		if slices.Contains(words[at:], "-u") { // runuser -u USER PROGRAM does not start a shell
			return nil
		}
		for i := at + 1; i < len(words); i++ {
			if suScript.MatchString(words[i-1]) || suScriptWithin.MatchString(words[i]) {
				out = append(out, i)
			}
		}
	}
	return out
}

// The forms in which su takes a script: after an option, or in the same word.
var (
	suScript       = regexp.MustCompile(`^(-[flmpP]*c|--(session-)?command)$`)
	suScriptWithin = regexp.MustCompile(`^(-[flmpP]*c.|--(session-)?command=)`)
)

// ssh lints an ssh command. ssh joins the words after the host into a script for the remote shell. Some options take a
// command for the local shell.
func (l *linter) ssh(at string, words []string, name int) {
	const valued = "BbcDEeFIiJLlmOopPQRSWw"
	host := behindOptions(words, name+1, valued)
	command := behindOptions(words, host+1, valued)
	for i := name + 1; i < len(words); i++ {
		here := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case !l.holdsValues(words[i]):
		case i >= command:
			l.find(here, "ssh passes these words to a shell on the other host, which could execute a value in them")
		case sshCommand.MatchString(words[i]), sshOption.MatchString(words[i-1]) && sshCommand.MatchString("-o"+words[i]):
			l.find(here, "ssh passes this to a shell, which could execute a value in it")
		}
	}
}

// ssh's options whose value is the next word, and its options whose value is a command or an expression that may become
// one.
var (
	sshOption  = regexp.MustCompile(`^-[46AaCfGgKkMNnqsTtVvXxYy]*o$`)
	sshCommand = regexp.MustCompile(`^-[46AaCfGgKkMNnqsTtVvXxYy]*o\s*((?i:(proxy|local|remote|knownhosts)command\b)|\$\{)`)
)

// holdsValues reports whether a text has expressions.
func (*linter) holdsValues(text string) bool {
	parts, err := pieces(text)
	return err == nil && slices.ContainsFunc(parts, func(p piece) bool { return p.expression != "" })
}

// isHTTP reports whether a text is an http or https URL.
func isHTTP(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}
