package install

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
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

// TestKrew holds .krew.yaml to krew's rules, as krew-release-bot would fill it in: krew's
// own code is no module to be had. The archives are those that goreleaser makes.
func TestKrew(t *testing.T) {
	t.Parallel()
	text := template.Must(template.New("").Funcs(template.FuncMap{"addURIAndSha": func(uri, tag string) (string, error) {
		var b bytes.Buffer
		t, err := template.New("").Parse(uri)
		if err == nil {
			err = t.Execute(&b, map[string]string{"TagName": tag})
		}
		return fmt.Sprintf("uri: %s\n    sha256: %s", b.String(), strings.Repeat("0", 64)), err
	}}).Parse(read(t, "../.krew.yaml")))
	var b bytes.Buffer
	if err := text.Execute(&b, map[string]string{"TagName": "v1.2.3"}); err != nil {
		t.Fatal(err)
	}
	var p plugin
	d := yaml.NewDecoder(&b)
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name != "calico-probe" {
		t.Errorf("it is %s %s %s", p.APIVersion, p.Kind, p.Metadata.Name)
	}
	if s := p.Spec; s.Version != "v1.2.3" || s.Homepage == "" || s.Description == "" || len(s.ShortDescription) > 50 || strings.HasSuffix(s.ShortDescription, ".") {
		t.Errorf("%+v", s)
	}
	var archived []string
	var config struct {
		Archives []struct {
			NameTemplate string `yaml:"name_template"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "../.goreleaser.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	for _, a := range config.Archives {
		archived = append(archived, a.NameTemplate)
	}
	const name = "calico-probe_{{ .Os }}_{{ .Arch }}"
	if !slices.Equal(archived, []string{name, name, "probe_{{ .Os }}_{{ .Arch }}"}) {
		t.Errorf("goreleaser's archives are %q", archived)
	}
	var have []string
	for _, at := range p.Spec.Platforms {
		system, arch := at.Selector.MatchLabels["os"], at.Selector.MatchLabels["arch"]
		have = append(have, system+"/"+arch)
		bin, ext := "kubectl-calico_probe", ".tar.gz"
		if system == "windows" {
			bin, ext = bin+".exe", ".zip"
		}
		want := "https://github.com/calico-probe/calico-probe/releases/download/v1.2.3/calico-probe_" + system + "_" + arch + ext
		if at.URI != want || len(at.Sha256) != 64 || at.Bin != bin {
			t.Errorf("%s %s: %+v", system, arch, at)
		}
		shipped := false
		for _, f := range at.Files {
			shipped = shipped || filepath.Join(f.To, filepath.Base(f.From)) == bin
			if f.From == "" || strings.Contains(f.From, "..") {
				t.Errorf("%s %s: %+v", system, arch, f)
			}
		}
		if !shipped {
			t.Errorf("%s %s: its program is not among its files: %+v", system, arch, at.Files)
		}
	}
	slices.Sort(have)
	if want := []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}; !slices.Equal(have, want) {
		t.Errorf("krew knows %v, want %v", have, want)
	}
	if m := regexp.MustCompile(`^[\w-]+$`); !m.MatchString(p.Metadata.Name) {
		t.Errorf("krew takes no plugin of the name %q", p.Metadata.Name)
	}
}
