package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// locked returns the lock's lines for one architecture.
type locked struct{ arch, name, version, sum, file string }

func lock(t *testing.T, text []byte) []locked {
	t.Helper()
	line := regexp.MustCompile(`^(amd64|arm64) ([a-z0-9][a-z0-9+.-]+) (\S+) ([0-9a-f]{64}) (\S+\.deb)$`)
	var out []locked
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		m := line.FindStringSubmatch(s.Text())
		if m == nil {
			t.Fatalf("not a line of a lock: %q", s.Text())
		}
		out = append(out, locked{m[1], m[2], m[3], m[4], m[5]})
	}
	return out
}

// TestLock requires the lock to have every package of the list once for every architecture, with a file of that package
// and version.
func TestLock(t *testing.T) {
	t.Parallel()
	all := lock(t, content(t, "toolbox.lock"))
	for _, arch := range []string{"amd64", "arm64"} {
		var have []string
		for _, l := range all {
			if l.arch != arch {
				continue
			}
			have = append(have, l.name)
			begins := l.name + "_" + strings.ReplaceAll(l.version, ":", "%3a") + "_"
			if of := strings.TrimSuffix(strings.TrimPrefix(l.file, begins), ".deb"); of != arch && of != "all" {
				t.Errorf("%s %s is in the file %s", l.name, l.version, l.file)
			}
		}
		if !slices.IsSorted(have) || len(slices.Compact(slices.Clone(have))) != len(have) {
			t.Errorf("%s is not in order: %v", arch, have)
		}
		for want := range strings.FieldsSeq(string(content(t, "toolbox.packages"))) {
			if !slices.Contains(have, want) {
				t.Errorf("toolbox.lock has no %s for %s: run 'make toolbox-lock'", want, arch)
			}
		}
	}
}

// mirror is a Debian archive with one package, and a copy of the files that build a toolbox.
type mirror struct{ dir, arch string }

func newMirror(t *testing.T) mirror {
	t.Helper()
	for _, tool := range []string{"apt-get", "dpkg-deb", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("this needs Debian: ", err)
		}
	}
	m := mirror{t.TempDir(), runtime.GOARCH}
	for _, dir := range []string{"repo", "images", "scripts", "etc"} {
		if err := os.Mkdir(filepath.Join(m.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.put(t, "scripts/toolbox.sh", string(content(t, "../scripts/toolbox.sh")), 0o755)
	m.put(t, "images/toolbox.packages", "tools\n", 0o644)
	m.put(t, "etc/sources.list", "deb [trusted=yes] file:"+filepath.Join(m.dir, "repo")+" ./\n", 0o644)
	m.put(t, "etc/apt.conf", fmt.Sprintf("Dir::Etc::sourcelist %q;\nDir::Etc::sourceparts \"/dev/null\";\n", filepath.Join(m.dir, "etc/sources.list")), 0o644)
	return m
}

func (m mirror) put(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	name = filepath.Join(m.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode)); err != nil {
		t.Fatal(err)
	}
}

// offer replaces the archive's package by one version, which prints a word.
func (m mirror) offer(t *testing.T, version, word string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(m.dir, "deb")); err != nil {
		t.Fatal(err)
	}
	control := fmt.Sprintf("Package: tools\nVersion: %s\nArchitecture: %s\nMaintainer: a test <root@localhost>\nDescription: tools\n", version, m.arch)
	m.put(t, "deb/DEBIAN/control", control, 0o644)
	m.put(t, "deb/usr/bin/busybox", "#!/bin/sh\necho "+word+"\n", 0o755)
	m.put(t, "deb/usr/share/ca-certificates/mozilla/a.crt", "a\n", 0o644)
	m.put(t, "deb/etc/ssl/certs/none", "", 0o644)
	m.put(t, "deb/usr/share/doc/tools/copyright", "free\n", 0o644)
	m.put(t, "deb/usr/sbin/none", "", 0o644)
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--build", "--root-owner-group",
		filepath.Join(m.dir, "deb"), filepath.Join(m.dir, "repo/tools.deb")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	deb := content(t, filepath.Join(m.dir, "repo/tools.deb"))
	sum := sha256.Sum256(deb)
	m.put(t, "repo/Packages", fmt.Sprintf("%sFilename: ./tools.deb\nSize: %d\nSHA256: %s\n\n", control, len(deb), hex.EncodeToString(sum[:])), 0o644)
}

// make runs toolbox.sh. It returns the output, and the word that the toolbox's package prints, "" = no package.
func (m mirror) make(t *testing.T, args ...string) (said, word string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(m.dir, "scripts/toolbox.sh"), append(args, m.arch)...)
	cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(m.dir, "etc/apt.conf"),
		"CALICO_PROBE_CACHE="+filepath.Join(m.dir, "cache"))
	out, err := cmd.CombinedOutput()
	if _, none := os.Stat(filepath.Join(m.dir, "cache/toolbox", m.arch+".made")); none == nil {
		word = string(content(t, filepath.Join(m.dir, "cache/toolbox", m.arch, "usr/bin/busybox")))
	}
	return string(out), strings.TrimPrefix(strings.TrimSpace(word), "#!/bin/sh\necho "), err
}

// TestToolbox builds toolboxes from a Debian archive with the locked file, then with another file of the same version,
// and then with another version.
func TestToolbox(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	m.offer(t, "1:1.0-1", "one")
	if said, _, err := m.make(t, "--lock"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	l := lock(t, content(t, filepath.Join(m.dir, "images/toolbox.lock")))
	if len(l) != 1 || l[0].name != "tools" || l[0].version != "1:1.0-1" || l[0].arch != m.arch {
		t.Fatalf("locked is %+v", l)
	}
	said, word, err := m.make(t)
	if err != nil || word != "one" {
		t.Fatalf("%q, %v: %s", word, err, said)
	}
	status := string(content(t, filepath.Join(m.dir, "cache/toolbox", m.arch, "var/lib/dpkg/status")))
	if !strings.HasPrefix(status, "Package: tools\nStatus: install ok installed\nVersion: 1:1.0-1\n") || !strings.HasSuffix(status, "\n\n") {
		t.Errorf("scanners read %q", status)
	}
	if said, _, err := m.make(t); err != nil || said != "" {
		t.Errorf("it is made already, and then %q, %v", said, err)
	}

	m.offer(t, "1:1.0-1", "evil")
	for _, args := range [][]string{nil, {"--or-today"}} {
		if err := os.RemoveAll(filepath.Join(m.dir, "cache")); err != nil {
			t.Fatal(err)
		}
		if said, word, err := m.make(t, args...); err == nil || word != "" || !strings.Contains(said, "is not what images/toolbox.lock says: do not use it") {
			t.Errorf("%v, another file of the same version: %q, %v: %s", args, word, err, said)
		}
	}

	m.offer(t, "1:1.0-2", "two")
	if said, word, err := m.make(t); err == nil || word != "" || !strings.Contains(said, "tools=1:1.0-1; run 'make toolbox-lock'") {
		t.Errorf("the version is gone: %q, %v: %s", word, err, said)
	}
	if said, word, err := m.make(t, "--or-today"); err != nil || word != "two" || !strings.Contains(said, "WARNING") ||
		!strings.Contains(said, "tools=1:1.0-1") {
		t.Errorf("the version is gone, and today's will do: %q, %v: %s", word, err, said)
	}
	if said, _, err := m.make(t, "--or-today"); err != nil || said != "" {
		t.Errorf("today's is made already, and then %q, %v", said, err)
	}
	if said, word, err := m.make(t); err == nil || word != "" || !strings.Contains(said, "tools=1:1.0-1; run 'make toolbox-lock'") {
		t.Errorf("today's does for a release: %q, %v: %s", word, err, said)
	}
}
