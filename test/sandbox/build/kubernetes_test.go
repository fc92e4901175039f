package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubernetesVersions compares the versions with those of the modules that they are built from.
func TestKubernetesVersions(t *testing.T) {
	for name, version := range kubernetesVersions {
		mod := "../kubernetes/" + name + "/go.mod"
		if name == defaultKubernetes {
			mod = "../go.mod"
		}
		text, err := os.ReadFile(mod)
		if err != nil {
			t.Fatal(err)
		}
		if want := "\tk8s.io/kubernetes " + version + "\n"; !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q", mod, want)
		}
		_, minor, found := strings.Cut(name, ".")
		if !found {
			t.Fatalf("version %q", name)
		}
		staging := 0
		for line := range strings.Lines(string(text)) {
			if module, to, found := strings.Cut(strings.TrimSpace(line), " => "); found {
				staging++
				if !strings.HasPrefix(to, module+" v0."+minor+".") {
					t.Errorf("%s replaces %s with %s", mod, module, to)
				}
			}
		}
		if staging < 27 {
			t.Errorf("%s replaces %d modules", mod, staging)
		}
		if !strings.HasPrefix(version, "v"+name+".") {
			t.Errorf("%s is %s", name, version)
		}
		if err := CheckKubernetes(name); err != nil {
			t.Error(err)
		}
	}
	if got, err := filepath.Glob("../kubernetes/*"); err != nil || len(got) != len(kubernetesVersions)-1 {
		t.Errorf("modules %q, %v; want one per version but the default", got, err)
	}
	if err := CheckKubernetes("1.30"); err == nil || !strings.Contains(err.Error(), "1.31, 1.36, 1.37") {
		t.Errorf("1.30: %v", err)
	}
}
