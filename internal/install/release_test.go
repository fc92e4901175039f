package install

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/probe/must"
)

// plugin is a plugin's manifest as krew reads it (its API v1alpha2).
type plugin struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Version, Homepage, Description, Caveats string
		ShortDescription                        string `yaml:"shortDescription"`
		Platforms                               []struct {
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			URI, Sha256, Bin string
			Files            []struct{ From, To string }
		}
	}
}

// krewed returns .krew.yaml as krew-release-bot would fill it in for v1.2.3.
func krewed(t *testing.T) plugin {
	t.Helper()
	text := template.Must(template.New("").Funcs(template.FuncMap{"addURIAndSha": func(uri, tag string) (string, error) {
		var b bytes.Buffer
		t, err := template.New("").Parse(uri)
		if err == nil {
			err = t.Execute(&b, map[string]string{"TagName": tag})
		}
		return fmt.Sprintf("uri: %s\n    sha256: %s", b.String(), strings.Repeat("0", 64)), err
	}}).Parse(read(t, "../../.krew.yaml")))
	var b bytes.Buffer
	must.Do(t, text.Execute(&b, map[string]string{"TagName": "v1.2.3"}))
	var p plugin
	d := yaml.NewDecoder(&b)
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	return p
}

// archived returns the top-level files of the client's archives, from goreleaser's configuration. krew's downloader
// extracts files and folders, and rejects an archive with a link.
func archived(t *testing.T) []string {
	t.Helper()
	var config struct {
		Builds   []struct{ ID, Binary string }
		Archives []struct {
			ID, NameTemplate string
			IDs              []string
			Files            []struct {
				Src, Dst string
			}
		}
	}
	text := strings.ReplaceAll(read(t, "../../.goreleaser.yaml"), "name_template", "nametemplate")
	must.Do(t, yaml.Unmarshal([]byte(text), &config))
	var out, names []string
	for _, a := range config.Archives {
		names = append(names, a.NameTemplate)
		if a.ID != "client" {
			continue
		}
		for _, b := range config.Builds {
			if slices.Contains(a.IDs, b.ID) {
				out = append(out, b.Binary)
			}
		}
		for _, f := range a.Files {
			if f.Dst != "" {
				continue
			}
			info, err := os.Lstat(filepath.Join("..", "..", f.Src))
			if err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s in the archives is not a file of this repository: %v", f.Src, err)
			}
			out = append(out, filepath.Base(f.Src))
		}
	}
	if !slices.Equal(names, []string{"calico-probe_{{ .Os }}_{{ .Arch }}", "probe_{{ .Os }}_{{ .Arch }}"}) {
		t.Errorf("goreleaser's archives are %q", names)
	}
	return out
}

// TestArchivesHaveTheDocs requires each generated folder of the archives to be written by 'make release-files',
// including the output of 'calico-probe docs'.
func TestArchivesHaveTheDocs(t *testing.T) {
	t.Parallel()
	makefile, config, folders := read(t, "../../Makefile"), read(t, "../../.goreleaser.yaml"), []string{}
	for _, m := range regexp.MustCompile(`src: (\S+), dst: (\w+)`).FindAllStringSubmatch(config, -1) {
		folders = append(folders, m[2])
		if from := strings.TrimSuffix(m[1], "/*"); from != ".cache/release/"+m[2] {
			t.Errorf("the folder %s of the archives comes from %s", m[2], from)
		}
	}
	if want := []string{"completions", "man", "docs"}; !slices.Equal(folders, want) {
		t.Errorf("the archives have the folders %q, want %q", folders, want)
	}
	for _, verb := range []string{"man", "docs"} {
		if call := "/calico-probe " + verb + " $(FILES)/" + verb + "\n"; !strings.Contains(makefile, call) {
			t.Errorf("make release-files does not call %q", call)
		}
	}
}

// TestKrew checks .krew.yaml against krew's rules, because krew's code is not importable, and against the archives.
func TestKrew(t *testing.T) {
	t.Parallel()
	p, shipped := krewed(t), archived(t)
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name != "calico-probe" {
		t.Errorf("it is %s %s %s", p.APIVersion, p.Kind, p.Metadata.Name)
	}
	s := p.Spec
	if s.Version != "v1.2.3" || s.Homepage == "" || s.Description == "" || len(s.ShortDescription) > 50 ||
		strings.HasSuffix(s.ShortDescription, ".") {
		t.Errorf("%+v", s)
	}
	var have []string
	for _, at := range p.Spec.Platforms {
		system, arch := at.Selector.MatchLabels["os"], at.Selector.MatchLabels["arch"]
		have = append(have, system+"/"+arch)
		exe, ext := "", ".tar.gz"
		if system == "windows" {
			exe, ext = ".exe", ".zip"
		}
		want := "https://github.com/calico-probe/calico-probe/releases/download/v1.2.3/calico-probe_" + system + "_" + arch + ext
		if at.URI != want || len(at.Sha256) != 64 {
			t.Errorf("%s %s: %+v", system, arch, at)
		}
		installed := map[string]bool{}
		for _, f := range at.Files {
			if f.To != "." || !slices.Contains(shipped, strings.TrimSuffix(f.From, exe)) {
				t.Errorf("%s %s: %s is not in the archive, which has %v", system, arch, f.From, shipped)
			}
			installed[f.From] = true
		}
		if !installed[at.Bin] || at.Bin != "calico-probe"+exe || !installed["LICENSE"] || installed["kubectl_complete-calico_probe"] != (exe == "") {
			t.Errorf("%s %s: %s is started, and installed are %v", system, arch, at.Bin, at.Files)
		}
	}
	slices.Sort(have)
	if want := []string{
		"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64",
	}; !slices.Equal(have, want) {
		t.Errorf("krew knows %v, want %v", have, want)
	}
	if m := regexp.MustCompile(`^[\w-]+$`); !m.MatchString(p.Metadata.Name) {
		t.Errorf("krew takes no plugin of the name %q", p.Metadata.Name)
	}
}
