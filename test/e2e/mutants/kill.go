package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Time limits of one mutant. The test's own limit is shorter, so that it prints its stacks.
const (
	testLimit  = 10 * time.Minute
	wholeLimit = 20 * time.Minute
)

// run reports whether the test kills the mutant, and why, or why not. scratch is a folder that does not exist yet.
func (m mutant) run(ctx context.Context, scratch string) (killed bool, why string) {
	ctx, cancel := context.WithTimeout(ctx, wholeLimit)
	defer cancel()
	source, err := os.ReadFile(m.file)
	if err != nil {
		return false, err.Error()
	}
	mutated, err := m.apply(string(source))
	if err == nil {
		err = os.Mkdir(scratch, 0o700)
	}
	if err != nil {
		return false, err.Error()
	}
	args := []string{"-count=1", "-vet=off", "-json", "-timeout", testLimit.String(), "-run", "^" + m.test + "$"}
	if m.lane == laneE2E {
		args = append(args, "-tags", "e2e")
	}
	dir := "."
	if m.pkg == "./test/e2e" {
		dir, err = m.build(ctx, mutated, scratch)
	} else {
		var overlay string
		overlay, err = m.overlay(mutated, scratch)
		args = append(args, "-overlay", overlay)
	}
	if err != nil {
		return false, err.Error()
	}
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test"}, args, []string{m.pkg})...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Minute // for the cluster to go
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return false, err.Error()
	}
	return judge(&out, m.test)
}

// overlay returns the file that has go build take the mutated source.
func (m mutant) overlay(mutated, scratch string) (string, error) {
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	replacement := filepath.Join(scratch, filepath.Base(m.file))
	b, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(scratch, "overlay.json")
	return name, errors.Join(os.WriteFile(replacement, []byte(mutated), 0o600), os.WriteFile(name, b, 0o600))
}

// build copies the tree, mutates the copy, and builds its client and probe. It returns the folder of the copy.
func (m mutant) build(ctx context.Context, mutated, scratch string) (string, error) {
	list, err := exec.CommandContext(ctx, "git", "ls-files", "-co", "--exclude-standard", "-z").Output()
	if err != nil {
		return "", fmt.Errorf("listing the tree: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if err := copyFile(name, filepath.Join(scratch, name)); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(scratch, m.file), []byte(mutated), 0o600); err != nil {
		return "", err
	}
	// What 'make' builds from the mutated source is not shared.
	if err := share(".cache", scratch, "build", "probe.tar", "probe.ref"); err != nil {
		return "", err
	}
	if err := share("bin", scratch, "calico-probe"); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "make", "build", "image")
	cmd.Dir = scratch
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building: %w: %s", err, lastLine(string(out)))
	}
	return scratch, nil
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) { // removed, and not committed yet
		return nil
	}
	if err != nil {
		return err
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, b, info.Mode().Perm()))
}

// share links to what a folder has from the same folder of a copy.
func share(folder, copied string, but ...string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("%w: 'make build image sandbox' makes it", err)
	}
	if err := os.Mkdir(filepath.Join(copied, folder), 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(but, e.Name()) {
			continue
		}
		name, err := filepath.Abs(filepath.Join(folder, e.Name()))
		if err == nil {
			err = os.Symlink(name, filepath.Join(copied, folder, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// control returns why tests fail in the tree as it is, by package and test. Such a test says nothing about its mutants.
func control(ctx context.Context, all []mutant) map[[2]string]string {
	tests := map[string][]string{}
	for _, m := range all {
		if !slices.Contains(tests[m.pkg], m.test) {
			tests[m.pkg] = append(tests[m.pkg], m.test)
		}
	}
	broken := map[[2]string]string{}
	for pkg, names := range tests {
		args := []string{"test", "-count=1", "-vet=off", "-json", "-timeout", wholeLimit.String(),
			"-run", "^(" + strings.Join(names, "|") + ")$", "-tags", all[0].lane, pkg}
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.WaitDelay = time.Minute
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		out, err := cmd.Output()
		for _, name := range names {
			if !passes(out, name) {
				_, why := judge(bytes.NewReader(out), name)
				broken[[2]string{pkg, name}] = fmt.Sprintf("without the mutant the test fails too (%v): %s", err, why)
			}
		}
	}
	return broken
}

// passes reports whether a test passed in the output of 'go test -json'.
func passes(output []byte, test string) bool {
	for line := range bytes.Lines(output) {
		var event struct{ Action, Test string }
		if json.Unmarshal(line, &event) == nil && event.Test == test && event.Action == "pass" {
			return true
		}
	}
	return false
}

// judge reads the output of 'go test -json' and reports whether the test failed, and its first words. A test that timed
// out has not noticed.
func judge(output io.Reader, test string) (killed bool, why string) {
	text, err := io.ReadAll(output)
	if err != nil {
		return false, err.Error()
	}
	ran, said, last := false, "", ""
	for line := range strings.Lines(string(text)) {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal([]byte(line), &event) != nil {
			last = line
			continue
		}
		own := event.Test == test || strings.HasPrefix(event.Test, test+"/")
		switch {
		case own && event.Action == "run":
			ran = true
		case own && strings.HasPrefix(event.Output, "panic: test timed out"): // the machine may be too slow for it
			return false, "the test timed out"
		case own && said == "" && failure.MatchString(event.Output):
			said = probe.Cut(strings.TrimSpace(event.Output), longestWhy)
		case event.Action == "fail" && (event.Test == test || event.Test == "" && ran): // the latter: it crashed
			return true, said
		case event.Test == test && event.Action == "pass":
			return false, "the test passes"
		case event.Test == test && event.Action == "skip":
			return false, "the test was skipped"
		case event.Test == "" && strings.TrimSpace(event.Output) != "":
			last = event.Output
		}
	}
	return false, "the test did not run: " + strings.TrimSpace(last)
}

// failure is a line of a test that fails.
var failure = regexp.MustCompile(`^\s+\w+_test\.go:\d+: |^panic: `)

// longestWhy bounds what is shown of such a line, in bytes.
const longestWhy = 200

// lastLine is the last line of a text that has something on it.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}
