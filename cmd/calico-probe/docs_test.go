package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/session"
	"github.com/calico-probe/calico-probe/probe"
)

var update = flag.Bool("update", false, "write what is generated in docs")

// TestReadme compares the commands that docs/README.md lists with those of the program.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme := read(t, "../../docs/README.md")
	root := (&app{flags: genericclioptions.NewConfigFlags(true)}).command()
	for _, verb := range root.Commands() {
		if !verb.Hidden && !strings.Contains(readme, "`calico-probe "+verb.Name()) &&
			!strings.Contains(readme, "`"+verb.Name()+"`") && !strings.Contains(readme, "`"+verb.Name()+" -") {
			t.Errorf("the verb %s is not mentioned", verb.Name())
		}
	}
	for _, line := range regexp.MustCompile("calico-probe ([a-z]+)((?: [^`]*)?)`").FindAllStringSubmatch(readme, -1) {
		verb, _, err := root.Find(append([]string{line[1]}, strings.Fields(line[2])...))
		if err != nil || verb == root {
			t.Errorf("there is no %q", line[0])
			continue
		}
		for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(line[2], -1) {
			if verb.Flags().Lookup(flag[1]) == nil {
				t.Errorf("%s has no --%s", verb.CommandPath(), flag[1])
			}
		}
	}
	formats := read(t, "../../docs/reports.md")
	for _, f := range report.Formats() {
		if row := "| `" + f.Name; !strings.Contains(formats, row+"` |") && !strings.Contains(formats, row+"=EXPR` |") {
			t.Errorf("the table of formats lacks %s", f.Name)
		}
	}
}

// TestPagesAgree requires the links of every page to be valid, and image names to be those of this release.
func TestPagesAgree(t *testing.T) {
	t.Parallel()
	image := regexp.MustCompile(`ghcr\.io/calico-probe/(?:probe|toolbox):[0-9][0-9a-z.-]*`)
	named := 0
	for _, page := range markdown(t) {
		text := read(t, page)
		for _, link := range links(text) {
			file, anchor, _ := strings.Cut(link, "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading %s", page, target, anchor)
			}
		}
		for _, name := range image.FindAllString(text, -1) {
			named++
			if name != probe.Image && name != probe.Toolbox {
				t.Errorf("%s names %s; this release has %s and %s", page, name, probe.Image, probe.Toolbox)
			}
		}
	}
	if named == 0 {
		t.Error("no page names the image")
	}
}

// markdown lists every page of the repository.
func markdown(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".cache", "bin", "dist", "testdata"}, entry.Name()):
			return filepath.SkipDir
		case filepath.Ext(name) == ".md":
			out = append(out, name)
		}
		return nil
	})
	if err != nil || len(out) < 20 {
		t.Fatalf("%d pages, %v", len(out), err)
	}
	return out
}

// links returns the links of a page, except those to other sites.
func links(text string) []string {
	var out []string
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(link[1], "://") {
			out = append(out, link[1])
		}
	}
	return out
}

// anchors returns the headings of a page as links name them.
func anchors(text string) []string {
	var out []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		out = append(out, strings.ReplaceAll(plain, " ", "-"))
	}
	return out
}

// TestReadmesSayTheSame requires the Chinese README and index of docs to have the commands, flags, exit codes,
// examples and links of the English ones, in the same order.
func TestReadmesSayTheSame(t *testing.T) {
	t.Parallel()
	samePage(t, "../../README", "links", "code", "blocks", "headings")
	samePage(t, "../../docs/README", "links", "code", "exit codes", "headings")
}

// samePage compares two translations of a page. Both need some of each kind of part in has.
func samePage(t *testing.T, page string, has ...string) {
	t.Helper()
	english, chinese := read(t, page+".md"), read(t, page+".zh-CN.md")
	for what, is := range map[string]func(string) []string{
		"links": func(text string) []string {
			return slices.DeleteFunc(links(text), func(link string) bool {
				return strings.Contains(link, "README.zh-CN.md") || link == "README.md" // the other language
			})
		},
		"code": func(text string) []string {
			return regexp.MustCompile("(?s)`([^`]+)`").FindAllString(withoutBlocks(text), -1)
		},
		"exit codes": func(text string) []string { return regexp.MustCompile(`(?m)^\| [0-9]+ \|`).FindAllString(text, -1) },
		"blocks": func(text string) []string {
			var out []string
			for _, block := range regexp.MustCompile("(?sm)^```.*?^```").FindAllString(text, -1) {
				out = append(out, regexp.MustCompile(` +# .*`).ReplaceAllString(block, "")) // comments are translated
			}
			return out
		},
		"headings": func(text string) []string { return regexp.MustCompile(`(?m)^#+ `).FindAllString(text, -1) },
	} {
		a, b := is(english), is(chinese)
		if !slices.Equal(a, b) {
			t.Errorf("%s: %s.md has\n%q\nthe Chinese page\n%q", what, page, a, b)
		}
		if len(a) == 0 && slices.Contains(has, what) {
			t.Errorf("%s has no %s", page, what)
		}
	}
}

func withoutBlocks(text string) string {
	return regexp.MustCompile("(?sm)^```.*?^```").ReplaceAllString(text, "")
}

// TestExitCodes compares the table of docs/README.md with the program's exit codes.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(read(t, "../../docs/README.md"), "Exit codes\n\n| | |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, c := range report.ExitCodes() {
		want = append(want, fmt.Sprintf("| %d | %s |", c.Code, c.Means))
	}
	if got := strings.Join(want, "\n"); got != strings.ReplaceAll(table, "`", "") {
		t.Errorf("docs/README.md has\n%s\nwant\n%s", table, got)
	}
}

// TestShellDocs compares the guide of the session with its commands.
func TestShellDocs(t *testing.T) {
	b, err := os.ReadFile("../../docs/shell.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "## What can be typed")
	for _, command := range session.New(nil, session.Options{Lookups: lookups()}, session.Terminal{}).Commands() {
		if !regexp.MustCompile("`" + command.Name + "[` ]").MatchString(table) {
			t.Errorf("the command %s is not mentioned", command.Name)
		}
	}
	a := &app{flags: genericclioptions.NewConfigFlags(true)}
	verb, _, err := a.command().Find([]string{"shell"})
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"--idle", "--transcript", "--toolbox-image", "--timeout"} {
		if verb.Flags().Lookup(own[2:]) == nil || !strings.Contains(table, "`"+own) {
			t.Errorf("%s is not mentioned, or is no flag", own)
		}
	}
}
