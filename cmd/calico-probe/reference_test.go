package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestReference requires 'docs' to write a complete section for each cause, check and verb, the same on every machine
// and as kubectl's plugin.
func TestReference(t *testing.T) {
	t.Setenv("CALICO_PROBE_IMAGE", "elsewhere.example/probe")
	t.Setenv("CALICO_PROBE_TOOLBOX_IMAGE", "elsewhere.example/toolbox")
	pages := docsPages(t)
	ui.AsPlugin = true
	defer func() { ui.AsPlugin = false }()
	if !maps.Equal(pages, docsPages(t)) {
		t.Error("'kubectl calico-probe docs' writes other pages")
	}
	var codes []string
	for _, c := range report.ExitCodes() {
		codes = append(codes, fmt.Sprintf("\n| %d | ", c.Code))
	}
	a := &app{flags: genericclioptions.NewConfigFlags(true)}
	for name, want := range map[string]struct{ headings, has []string }{
		"causes.md": {cause.All().IDs(), []string{".\n", "\nFix: ", "\nTouches: "}},
		"checks.md": {examine.CheckIDs(examine.Suite()), []string{"?\n", "\n- runs from: ", "\n- deadline: "}},
		"cli.md":    {visible(a.documented(a.command())), []string{"\n### Options", "--help", "\n### SEE ALSO\n"}},
	} {
		text := pages[name]
		for _, heading := range want.headings {
			_, section, found := strings.Cut(text, "\n## "+heading+"\n")
			section, _, _ = strings.Cut(section, "\n## ")
			for _, has := range want.has {
				if !found || !strings.Contains(section, has) {
					t.Errorf("%s: the section %s has no %q:\n%s", name, heading, has, section)
				}
			}
			if strings.Count(section, "\n```")%2 != 0 {
				t.Errorf("%s: the section %s opens a block and does not close it", name, heading)
			}
		}
		if len(want.headings) < 30 || strings.Contains(text, "elsewhere.example") {
			t.Errorf("%s has %d sections, or depends on this machine", name, len(want.headings))
		}
	}
	for _, has := range append(codes, `(default "$HOME/.kube/cache")`) {
		if !strings.Contains(pages["cli.md"], has) {
			t.Errorf("cli.md lacks %q", has)
		}
	}
}

// TestReferenceStandsAlone requires exactly the documented files, with links inside their page only: copies are used
// without the repository.
func TestReferenceStandsAlone(t *testing.T) {
	t.Parallel()
	pages := docsPages(t)
	want := []string{"causes.md", "checks.md", "cli.md"}
	items, err := library(nil)
	if err != nil || len(items) < 10 {
		t.Fatalf("%d runbooks, %v", len(items), err)
	}
	for _, it := range items {
		want = append(want, "skills/"+runbook.SkillName(it.Name)+"/SKILL.md")
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(pages)); !slices.Equal(got, want) {
		t.Errorf("docs wrote %q, want %q", got, want)
	}
	for name, text := range pages {
		headings := anchors(text)
		for _, link := range links(text) {
			if anchor, inside := strings.CutPrefix(link, "#"); !inside || !slices.Contains(headings, anchor) {
				t.Errorf("%s: nothing is at %s", name, link)
			}
		}
	}
}

// TestDocsOverwritesNothing requires 'docs' to accept an absent or empty folder, and to reject any other argument with
// one line and without changing files.
func TestDocsOverwritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	full, file := filepath.Join(dir, "full"), filepath.Join(dir, "full", "cli.md")
	must.Do(t, os.Mkdir(full, 0o755))
	must.Do(t, os.WriteFile(file, []byte("mine"), 0o600))
	for _, c := range []struct {
		args []string
		exit int
		says string
	}{
		{nil, 2, "docs takes one new or empty folder"},
		{[]string{""}, 2, "docs takes one new or empty folder"},
		{[]string{"a", "b"}, 2, "docs takes one new or empty folder"},
		{[]string{full}, 2, full + " is not empty"},
		{[]string{file}, 2, file + " is a file"},
		{[]string{filepath.Join(file, "below")}, 1, "not a directory"},
	} {
		exit, out, errs := call(t, append([]string{"docs"}, c.args...)...)
		if exit != c.exit || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d, want %d and %q in one line: %s%s", c.args, exit, c.exit, c.says, out, errs)
		}
	}
	if err := writePages(full, map[string]string{"cli.md": "ours"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that appeared meanwhile: %v", err)
	}
	if left, err := os.ReadDir(full); err != nil || len(left) != 1 || read(t, file) != "mine" {
		t.Errorf("the folder has %v, %v; its file %q", left, err, read(t, file))
	}
	for _, good := range []string{t.TempDir(), filepath.Join(dir, "new", "er")} {
		exit, out, errs := call(t, "docs", good)
		if exit != 0 || out != "" || !strings.Contains(errs, " files to "+good+"\n") {
			t.Errorf("%s: exit %d\n%s%s", good, exit, out, errs)
		}
	}
}

// docsPages returns the files that 'docs' writes, by their path below the folder.
func docsPages(t *testing.T) map[string]string {
	t.Helper()
	dir, pages := t.TempDir(), map[string]string{}
	if exit, out, errs := call(t, "docs", dir); exit != 0 {
		t.Fatalf("exit %d, %s%s", exit, out, errs)
	}
	must.Do(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		pages[filepath.ToSlash(rel)] = read(t, name)
		return err
	}))
	return pages
}

// visible lists a command and its subcommands, without hidden ones and help.
func visible(cmd *cobra.Command) []string {
	if cmd.Hidden || cmd.Name() == "help" {
		return nil
	}
	out := []string{cmd.CommandPath()}
	for _, sub := range cmd.Commands() {
		out = append(out, visible(sub)...)
	}
	return out
}

// TestManPages reads the pages with man itself, if installed, and checks their sections.
func TestManPages(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "man1")
	if exit, out, errs := call(t, "man", folder); exit != 0 || out+errs != "" {
		t.Fatalf("exit %d, %s%s", exit, out, errs)
	}
	pages, err := filepath.Glob(filepath.Join(folder, "*.1"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text := read(t, page)
		for _, want := range []string{".TH ", "\n.SH NAME\n", "\n.SH SYNOPSIS\n", "calico-probe"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", page, want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "calico-probe-man.1")); err == nil {
		t.Error("the hidden verb has a page")
	}
	man, err := exec.LookPath("man")
	if err != nil {
		t.Log("no man here: the pages' structure alone was looked at")
		return
	}
	cmd := exec.Command(man, "--warnings", "-l", filepath.Join(folder, "calico-probe-run.1"))
	cmd.Env = append(os.Environ(), "MANWIDTH=100", "MANPAGER=cat", "LC_ALL=C.UTF-8")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 || !strings.Contains(out.String(), "--check-timeout") {
		t.Errorf("man: %v %s\n%s", err, errs.String(), out.String())
	}
}
