package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/examine"
)

var update = flag.Bool("update", false, "write the references")

// TestDocsReference wants the references to be what the program says.
func TestDocsReference(t *testing.T) {
	t.Setenv("CALICO_PROBE_IMAGE", "elsewhere.example/probe")
	t.Setenv("CALICO_PROBE_TOOLBOX_IMAGE", "elsewhere.example/toolbox")
	a := &app{flags: genericclioptions.NewConfigFlags(true)}
	for name, write := range map[string]func(io.Writer) error{
		"cli": func(w io.Writer) error {
			return a.writeCLI(w,
				a.command())
		}, "checks": writeCheckReference, "causes": writeCauseReference,
	} {
		file := filepath.Join("../../docs/reference", name+".md")
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		is, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(is, b.Bytes()) {
			t.Errorf("docs/reference/%s.md is not what the program says (%v): 'make docs' writes it", name, err)
		}
		text := b.String()
		if strings.Contains(text, "elsewhere.example") || name == "cli" && !strings.Contains(text, "(default \"$HOME/.kube/cache\")") {
			t.Errorf("%s depends on this machine", name)
		}
		want := map[string][]string{"checks": examine.CheckIDs(examine.Suite()), "causes": causeIDs(),
			"cli": {"calico-probe run", "calico-probe analyze", "calico-probe completion zsh"}}[name]
		for _, heading := range want {
			if !strings.Contains(text, "\n## "+heading+"\n") {
				t.Errorf("%s lacks %s", name, heading)
			}
		}
		for _, link := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(text, -1) {
			if !slices.Contains(anchors(text), link[1]) {
				t.Errorf("%s: nothing is at %s", name, link[0])
			}
		}
	}
	if len(diagnose.Rules()) < 100 {
		t.Errorf("only %d causes", len(diagnose.Rules()))
	}
}

// TestManPages are read by man itself where it is, and have what such a page must.
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
