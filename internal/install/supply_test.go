//go:build release

package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
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

// named returns the lines of a release's images.txt (NAME:TAG@DIGEST), by the last part of the image's name.
func named(t *testing.T) map[string]string {
	t.Helper()
	line, out := regexp.MustCompile(`^\S+/([a-z-]+):[^:@/]+@sha256:[0-9a-f]{64}$`), map[string]string{}
	for l := range strings.Lines(read(t, "../../.cache/release/images.txt")) {
		m := line.FindStringSubmatch(strings.TrimSpace(l))
		if m == nil {
			t.Fatalf("images.txt has %q", l)
		}
		out[m[1]] = m[0]
	}
	if len(out) != 3 {
		t.Fatalf("images.txt has %v", out)
	}
	return out
}

// blobs returns the files of an archive that 'images' wrote, by name.
func blobs(t *testing.T, name string) map[string][]byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return untar(t, f)
}

func untar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// index has the fields of an OCI index or manifest that this test reads.
type index struct {
	Manifests, Layers []struct {
		Digest   string
		Platform struct{ Architecture string }
	}
}

// blob reads the content of a digest from an archive, and verifies it.
func blob(t *testing.T, in map[string][]byte, digest string) []byte {
	t.Helper()
	b := in["blobs/"+strings.Replace(digest, ":", "/", 1)]
	if sum := sha256.Sum256(b); "sha256:"+hex.EncodeToString(sum[:]) != digest {
		t.Fatalf("what %s stands for has another digest: %x", digest, sum)
	}
	return b
}

func decode(t *testing.T, b []byte) (out index) {
	t.Helper()
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%v: %.200s", err, b)
	}
	return out
}

// program returns the single file of an image for an architecture.
func program(t *testing.T, archive, digest, arch, name string) []byte {
	t.Helper()
	in := blobs(t, archive)
	for _, m := range decode(t, blob(t, in, digest)).Manifests {
		if m.Platform.Architecture != arch {
			continue
		}
		layers := decode(t, blob(t, in, m.Digest)).Layers
		if len(layers) != 1 {
			t.Fatalf("%s has %d layers", archive, len(layers))
		}
		z, err := gzip.NewReader(bytes.NewReader(blob(t, in, layers[0].Digest)))
		if err != nil {
			t.Fatal(err)
		}
		return untar(t, z)[name]
	}
	t.Fatalf("%s has nothing for %s", archive, arch)
	return nil
}

func digestOf(name string) string { return name[strings.Index(name, "@")+1:] }

// TestReleaseDigests requires every client of a release to contain the digests of the released probe image and toolbox,
// and the client in its image to be the one of the archive, which another builder made.
func TestReleaseDigests(t *testing.T) {
	names := named(t)
	for _, at := range krewed(t).Spec.Platforms {
		dir := t.TempDir()
		unpack(t, filepath.Join(os.Getenv("DIST"), path.Base(at.URI)), dir)
		client := []byte(read(t, filepath.Join(dir, at.Bin)))
		for _, image := range []string{"probe", "toolbox"} {
			if !bytes.Contains(client, []byte(digestOf(names[image]))) {
				t.Errorf("%s has not compiled in %s", at.URI, names[image])
			}
		}
		if bytes.Contains(client, []byte(digestOf(names["calico-probe"]))) {
			t.Errorf("%s has compiled in the digest of an image that has it", at.URI)
		}
		system, arch := at.Selector.MatchLabels["os"], at.Selector.MatchLabels["arch"]
		if system == "linux" && !bytes.Equal(client,
			program(t, "../../.cache/client.tar", digestOf(names["calico-probe"]), arch, "calico-probe")) {
			t.Errorf("%s has another client than the image", at.URI)
		}
		if system == "linux" {
			sum := sha256.Sum256(program(t, "../../.cache/probe.tar", digestOf(names["probe"]), arch, "probe"))
			line := hex.EncodeToString(sum[:]) + "  probe_linux_" + arch + "\n"
			if !strings.Contains(read(t, filepath.Join(os.Getenv("DIST"), "checksums.txt")), line) {
				t.Errorf("the probe for %s is another one than that of the image", arch)
			}
		}
		if system != runtime.GOOS || arch != runtime.GOARCH {
			continue
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, at.Bin), "version", "-o", "json")
		cmd.Env = []string{"HOME=" + dir}
		out, err := cmd.Output()
		var says struct{ ProbeImage, ToolboxImage string }
		if err := errors.Join(err, json.Unmarshal(out, &says)); err != nil || says.ProbeImage != names["probe"] ||
			says.ToolboxImage != names["toolbox"] {
			t.Errorf("version says %s, %v; released are %v", out, err, names)
		}
	}
}

// TestReleaseImageSBOMs requires the SBOM of each image and platform to name its content: the modules of its program,
// or each package of the toolbox's lock, with versions.
func TestReleaseImageSBOMs(t *testing.T) {
	const module = "golang.org/x/sys"
	of := regexp.MustCompile(regexp.QuoteMeta(module) + ` (v\S+)`).FindStringSubmatch(read(t, "../../go.mod"))
	if of == nil {
		t.Fatal("go.mod has no " + module)
	}
	for _, image := range []string{"probe", "client", "toolbox"} {
		for _, arch := range []string{"amd64", "arm64"} {
			var doc struct {
				SPDXVersion, Name string
				Packages          []struct{ Name, VersionInfo string }
			}
			name := "image-" + image + "_linux_" + arch + ".sbom.json"
			err := json.Unmarshal([]byte(read(t, "../../.cache/release/sbom/"+name)), &doc)
			if err != nil || doc.SPDXVersion != "SPDX-2.3" {
				t.Fatalf("%s: %s, %v", name, doc.SPDXVersion, err)
			}
			has := map[[2]string]bool{}
			for _, p := range doc.Packages {
				has[[2]string{p.Name, p.VersionInfo}] = true
			}
			want := [][2]string{{module, of[1]}}
			for l := range strings.Lines(read(t, "../../images/toolbox.lock")) {
				if f := strings.Fields(l); image == "toolbox" && f[0] == arch {
					want = append(want, [2]string{f[1], f[2]})
				}
			}
			if image == "toolbox" && len(want) < 50 {
				t.Errorf("the lock has %d packages for %s", len(want), arch)
			}
			for _, p := range want {
				if !has[p] {
					t.Errorf("%s does not name %v", name, p)
				}
			}
		}
	}
}

// TestReleaseSignature verifies a release as docs/install.md describes, and then one with a changed file, checksum or
// key.
func TestReleaseSignature(t *testing.T) {
	dir, sums := t.TempDir(), read(t, filepath.Join(os.Getenv("DIST"), "checksums.txt"))
	copied := func(name, from string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, from)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const archive = "calico-probe_linux_amd64.tar.gz"
	reset := func() {
		t.Helper()
		for _, name := range []string{"checksums.txt", "checksums.txt.sig", archive} {
			copied(name, filepath.Join(os.Getenv("DIST"), name))
		}
		copied("images.txt", "../../.cache/release/images.txt")
		copied("release.pub", os.Getenv("RELEASE_PUB"))
	}
	for _, want := range []string{
		archive, archive + ".sbom.json", "calico-probe_windows_arm64.zip", "probe_linux_arm64", "probe_linux_arm64.sbom.json", "probe.tar", "client.tar",
		"images.txt", "image-probe_linux_amd64.sbom.json", "image-client_linux_arm64.sbom.json", "image-toolbox_linux_amd64.sbom.json",
	} {
		if !regexp.MustCompile(`(?m)^[0-9a-f]{64}  ` + regexp.QuoteMeta(want) + `$`).MatchString(sums) {
			t.Errorf("checksums.txt has no %s:\n%s", want, sums)
		}
	}
	commands := regexp.MustCompile("(?s)<!-- verify -->\n```\n(.*?)```").FindStringSubmatch(read(t, "../../docs/install.md"))
	if commands == nil {
		t.Fatal("docs/install.md does not say how to verify")
	}
	verified := func() error {
		cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", commands[1])
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		t.Logf("%s%v", out, err)
		return err
	}
	reset()
	if err := verified(); err != nil {
		t.Errorf("what was released is refused: %v", err)
	}
	change := func(name string) func() {
		return func() {
			t.Helper()
			b := []byte(read(t, filepath.Join(dir, name)))
			b[len(b)/2] ^= 1
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for what, tampered := range map[string]func(){
		"an archive": change(archive), "images.txt": change("images.txt"), "the checksums": change("checksums.txt"),
		"the signature": change("checksums.txt.sig"),
		"an archive and its checksum": func() {
			t.Helper()
			change(archive)()
			sum := sha256.Sum256([]byte(read(t, filepath.Join(dir, archive))))
			forged := regexp.MustCompile(`(?m)^[0-9a-f]{64}(  `+regexp.QuoteMeta(archive)+`)$`).ReplaceAllString(sums,
				hex.EncodeToString(sum[:])+"$1")
			if err := os.WriteFile(filepath.Join(dir, "checksums.txt"), []byte(forged), 0o600); err != nil || forged == sums {
				t.Fatal(err, forged == sums)
			}
		},
		"the key": func() {
			t.Helper()
			for _, args := range [][]string{
				{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "other.key"},
				{"pkey", "-in", "other.key", "-pubout", "-out", "release.pub"},
			} {
				cmd := exec.CommandContext(t.Context(), "openssl", args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
		},
	} {
		reset()
		tampered()
		if verified() == nil {
			t.Errorf("%s changed, and nobody notices", what)
		}
	}
}

// TestReleaseSameBytes builds the images again, from a copy of the sources elsewhere, without Go's or this repository's
// caches, and with other settings of Go and of the user.
func TestReleaseSameBytes(t *testing.T) {
	dir := t.TempDir()
	script := `umask 077; cd .. && { git ls-files -z -co --exclude-standard | tar --null --ignore-failed-read -cT - | tar -xmC "$1"; } &&
		cd "$1" && make image toolbox`
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script, "bash", dir)
	cmd.Env = append(os.Environ(), "GOCACHE="+t.TempDir(), "GOFLAGS=-tags=other -buildvcs=false", "GOAMD64=v3", "GOARM64=v8.1", "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, image := range []string{"probe", "toolbox"} {
		a, err := os.ReadFile("../../.cache/" + image + ".tar")
		b, err2 := os.ReadFile(filepath.Join(dir, ".cache", image+".tar"))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s made again is %s, not %s", image, read(t, filepath.Join(dir, ".cache", image+".ref")), named(t)[image])
		}
	}
}
