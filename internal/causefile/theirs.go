package causefile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// Limits for a folder of an operator's causes.
const (
	maxFiles  = 200
	maxFaults = 20 // maximum number of listed mistakes
)

// Theirs returns the causes in an operator's folder. They contain only data. The linter and the rules for foreign texts
// check them. The error has a line for each mistake.
func Theirs(dir string, shared Shared, known Known) ([]*diagnose.Rule, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := markdownIn(root, dir)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	var bad []error
	ours := known.Causes
	for _, name := range names {
		text, err := readFile(root, name)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		texts[name] = text
		known.Causes = append(known.Causes[:len(known.Causes):len(known.Causes)], strings.TrimSuffix(name, ".md"))
	}
	var rules []*diagnose.Rule
	for _, name := range names {
		text, was := texts[name]
		if !was {
			continue
		}
		rule, faults := their(strings.TrimSuffix(name, ".md"), text, shared, known, ours)
		for _, fault := range faults {
			bad = append(bad, fmt.Errorf("%s: %s", probe.OneLine(name), brief(fault)))
		}
		if len(faults) == 0 {
			rule.Source = dir
			rules = append(rules, rule)
		}
	}
	if n := len(bad); n > maxFaults {
		bad = append(bad[:maxFaults], fmt.Errorf("and %d more faults", n-maxFaults))
	}
	if len(bad) == 0 && len(rules) == 0 {
		return nil, fmt.Errorf("%s has no file with a cause: ID.md", dir)
	}
	return rules, errors.Join(bad...)
}

// brief formats a mistake as one line of limited length, without terminal control characters.
func brief(fault error) string {
	const most = 200
	line := probe.OneLine(fault.Error())
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return line
}

// their reads one of an operator's files.
func their(id, text string, shared Shared, known Known, ours []string) (*diagnose.Rule, []error) {
	if slices.Contains(ours, id) {
		return nil, []error{fmt.Errorf("%s is a cause of this program: choose another name", id)}
	}
	rule, err := readCause(id, text, shared, nil)
	if err != nil {
		return nil, []error{err}
	}
	return rule, append(lintForeign(text, rule), Lint(rule, known)...)
}

// markdownIn lists the cause files in a folder: all Markdown files except README.md.
func markdownIn(root *os.Root, dir string) ([]string, error) {
	folder, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	entries, err := folder.ReadDir(maxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("cannot read the folder %s: %w", dir, err)
	}
	if len(entries) > maxFiles {
		return nil, fmt.Errorf("%s has more than %d files", dir, maxFiles)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".md") && !strings.EqualFold(e.Name(), "README.md") {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names, nil
}

// readFile reads a regular file within the folder, up to maxFile.
func readFile(root *os.Root, name string) (string, error) {
	info, err := root.Stat(name) // before opening the file, because opening a pipe would block
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return "", fmt.Errorf("%.80q: %w", name, err)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("%.80q: %w", name, err)
	}
	return string(b), nil
}
