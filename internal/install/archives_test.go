//go:build release

package install

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestReleaseArchives installs each archive of a release in $DIST as krew does, and runs the one for this machine under
// kubectl's name for it.
func TestReleaseArchives(t *testing.T) {
	for _, at := range krewed(t).Spec.Platforms {
		system := at.Selector.MatchLabels["os"] + "/" + at.Selector.MatchLabels["arch"]
		t.Run(system, func(t *testing.T) {
			from, store, bin := t.TempDir(), t.TempDir(), t.TempDir()
			unpack(t, filepath.Join(os.Getenv("DIST"), path.Base(at.URI)), from)
			for _, page := range []string{"causes.md", "checks.md", "cli.md", "skills/calico-node-trouble/SKILL.md"} {
				if text := read(t, filepath.Join(from, "docs", page)); len(text) < 1000 {
					t.Errorf("docs/%s has %d bytes", page, len(text))
				}
			}
			for _, f := range at.Files {
				if err := os.Rename(filepath.Join(from, f.From), filepath.Join(store, f.To, f.From)); err != nil {
					t.Error(err)
				}
			}
			info, err := os.Stat(filepath.Join(store, at.Bin))
			if err != nil || !strings.HasPrefix(system, "windows/") && info.Mode().Perm()&0o111 == 0 {
				t.Fatalf("%s: %v, %v", at.Bin, info, err)
			}
			if system != runtime.GOOS+"/"+runtime.GOARCH {
				return
			}
			link := filepath.Join(bin, "kubectl-calico_probe")
			if err := os.Symlink(filepath.Join(store, at.Bin), link); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin)
			for _, program := range [][]string{{link, "run", "--help"}, {filepath.Join(store, "kubectl_complete-calico_probe"), "prefl"}} {
				out, err := exec.CommandContext(t.Context(), program[0], program[1:]...).CombinedOutput()
				if err != nil || !strings.Contains(string(out), "kubectl calico-probe run --node") && !strings.Contains(string(out), "preflight\t") {
					t.Errorf("%v: %v\n%s", program, err, out)
				}
			}
		})
	}
}

// TestReleaseSBOMs requires the SBOM beside each archive in $DIST, and each probe's, to name the modules of that
// program with the versions in go.mod.
func TestReleaseSBOMs(t *testing.T) {
	const module = "golang.org/x/sys" // of the client and of the probe
	of := regexp.MustCompile(regexp.QuoteMeta(module) + ` (v\S+)`).FindStringSubmatch(read(t, "../../go.mod"))
	if of == nil {
		t.Fatal("go.mod has no " + module)
	}
	names := []string{"probe_linux_amd64", "probe_linux_arm64"}
	for _, at := range krewed(t).Spec.Platforms {
		names = append(names, path.Base(at.URI))
	}
	for _, name := range names {
		var doc struct {
			SPDXVersion, DataLicense, SPDXID, DocumentNamespace string
			Packages                                            []struct{ Name, VersionInfo, SPDXID string }
		}
		b, err := os.ReadFile(filepath.Join(os.Getenv("DIST"), name+".sbom.json"))
		if err == nil {
			err = json.Unmarshal(b, &doc)
		}
		if err != nil || doc.SPDXVersion != "SPDX-2.3" || doc.DataLicense != "CC0-1.0" ||
			doc.SPDXID != "SPDXRef-DOCUMENT" || doc.DocumentNamespace == "" {
			t.Errorf("%s: %+v, %v", name, doc, err)
			continue
		}
		versions := map[string]string{}
		for _, p := range doc.Packages {
			versions[p.Name] = p.VersionInfo
		}
		if versions[module] != of[1] || versions["stdlib"] == "" || len(versions) < 40 {
			t.Errorf("%s has %d modules, %s of %q, want %q", name, len(versions), module, versions[module], of[1])
		}
	}
}

// unpack extracts files and folders, and nothing else, as krew does.
func unpack(t *testing.T, name, to string) {
	t.Helper()
	write := func(name string, dir bool, mode os.FileMode, r io.Reader) {
		t.Helper()
		name = filepath.Join(to, name)
		if dir {
			if err := os.MkdirAll(name, 0o755); err != nil {
				t.Fatal(err)
			}
			return
		}
		if !mode.IsRegular() {
			t.Fatalf("krew is unable to handle %s: %v", name, mode)
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, mode.Perm())
		if err == nil {
			_, err = io.Copy(f, r)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasSuffix(name, ".zip") {
		z, err := zip.OpenReader(name)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			write(f.Name, f.FileInfo().IsDir(), f.Mode(), r)
		}
		return
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		write(h.Name, h.FileInfo().IsDir(), h.FileInfo().Mode(), r)
	}
}
