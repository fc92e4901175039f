package do

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/tools"
)

const logFile = "var/log/pods/ns_pod_uid/c/0.log"

// cut is a log line as the runtime writes it.
func cut(stream, tag, text string) string {
	return "2026-11-21T16:45:10.920123456Z " + stream + " " + tag + " " + text + "\n"
}

func TestJoin(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		cut("stdout", "F", "a b"):    "a b|",
		cut("stdout", "F", ""):       "|",
		cut("stdout", "P:x", "half"): "",
		cut("stdout", "P", "half ") + cut("stderr", "F", "other") + cut("stdout", "F", "whole"): "other|half whole|",
		`{"log":"one\n","stream":"stdout","time":"2026-11-21T16:45:10Z"}` + "\n":                "one|",
		`{"log":"one ","stream":"stdout"}` + "\n" + `{"log":"two\n","stream":"stdout"}` + "\n":  "one two|",
		`{"msg":"json of a program's own"}` + "\n":                                              `{"msg":"json of a program's own"}|`,
		"not a log\n":              "not a log|",
		"2026 stdout F x\n":        "2026 stdout F x|",
		cut("stdout", "F", "\xff"): "?|",
		cut("stdout", "P", strings.Repeat("x", 60<<10)) + cut("stdout", "F",
			strings.Repeat("y", 60<<10)): strings.Repeat("x", 60<<10) + strings.Repeat("y", 4<<10) + "|",
	} {
		var got strings.Builder
		var j joiner
		for line := range strings.Lines(raw) {
			j.take([]byte(line), func(l logLine) { got.WriteString(l.text + "|") })
		}
		if got.String() != want {
			t.Errorf("%.80q: %.80q, want %.80q", raw, got.String(), want)
		}
	}
}

func FuzzJoin(f *testing.F) {
	f.Add([]byte(cut("stdout", "P", "a") + cut("stderr", "F", "b")))
	f.Add([]byte(`{"log":"a","stream":"stderr","time":""}` + "\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var j joiner
		for line := range bytes.Lines(raw) {
			j.take(line, func(l logLine) {
				if len(l.text) > 3*maxLine || strings.Contains(l.text, "\n") && !bytes.Contains(line, []byte(`\n`)) {
					t.Errorf("%q gives %q", raw, l.text)
				}
			})
		}
		if len(j.stdout) > maxLine || len(j.stderr) > maxLine {
			t.Errorf("%d and %d bytes are kept", len(j.stdout), len(j.stderr))
		}
	})
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(cut("stdout", "F", fmt.Sprintf("line %d", i)))
	}
	return b.String()
}

// reads reads the log of an exited container.
func reads(t *testing.T, root string, args ...string) (probe.Result, string) {
	t.Helper()
	var out bytes.Buffer
	l := asTyped(t, args)
	s := &cri.ContainerStatus{LogPath: "/" + logFile, State: cri.ContainerState_CONTAINER_EXITED, ExitCode: 137,
		Reason: "OOMKilled", FinishedAt: time.Now().Add(-time.Minute).UnixNano()}
	r := l.read(t.Context(), &probe.Job{Host: &probe.Host{Root: root}, Out: &out},
		container{id: "abc", namespace: "ns", pod: "pod", name: "c"}, s, nil)
	return r, out.String()
}

func asTyped(t *testing.T, args []string) reading {
	t.Helper()
	l := must.Get(tools.ParseLogs(append(args, "c")))(t)
	return reading(*l)
}

func TestTail(t *testing.T) {
	t.Parallel()
	root := files(t, map[string]string{logFile: numbered(1000, 20000)})
	r, out := reads(t, root, "-n", "3")
	wants(t, r, probe.OK, "3 lines of ns/pod/c, which exited 137 (OOMKilled) 60s ago")
	if out != "line 19997\nline 19998\nline 19999\n(ns/pod/c exited 137 (OOMKilled) 60s ago)\n" {
		t.Errorf("%q", out)
	}
	if _, out := reads(t, root, "-n", "100000"); strings.Count(out, "\n") != 19001 ||
		!strings.HasPrefix(out, "line 1000\n") {
		t.Errorf("%d lines, from %.20q", strings.Count(out, "\n"), out)
	}
	if _, out := reads(t, root, "-n", "1", "-t"); !strings.HasPrefix(out,
		"2026-11-21T16:45:10.920123456Z line 19999\n") {
		t.Errorf("%q", out)
	}
	// A rotated log is read unless it is compressed.
	old := filepath.Join(root, logFile+".20261121-164500")
	must.Do(t, os.WriteFile(old, []byte(numbered(0, 1000)), 0o600))
	if _, out := reads(t, root, "-n", "19500"); !strings.HasPrefix(out, "line 500\n") {
		t.Errorf("%.20q", out)
	}
	must.Do(t, os.Rename(old, old+".gz"))
	if _, out := reads(t, root, "-n", "19500"); !strings.HasPrefix(out,
		"(older lines are compressed, in 0.log.20261121-164500.gz)\nline 1000\n") {
		t.Errorf("%.80q", out)
	}
	for name, text := range map[string]string{"nothing": "",
		"colours": cut("stdout", "F", "\x1b[31mred\x1b[0m\x1b]0;x\a")} {
		r, out := reads(t, files(t, map[string]string{logFile: text}))
		if r.Status != probe.OK || strings.Contains(out, "\x1b") || name == "nothing" &&
			!strings.Contains(out, "has logged nothing") {
			t.Errorf("%s: %q, %+v", name, out, r)
		}
	}
	r, _ = reads(t, t.TempDir())
	wants(t, r, probe.Fail, "does not exist: /"+logFile)
}

// TestSince checks that only lines of the given time are shown, all of them unless -n limits them.
func TestSince(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 120 {
		at := time.Now().Add(-10 * time.Minute)
		if i >= 60 {
			at = time.Now().Add(-time.Minute)
		}
		fmt.Fprintf(&text, "%s stdout F line %d\n", at.UTC().Format(time.RFC3339Nano), i)
	}
	root := files(t, map[string]string{logFile: text.String()})
	if _, out := reads(t, root, "--since", "5m"); !strings.HasPrefix(out, "line 60\n") ||
		!strings.Contains(out, "line 119\n") {
		t.Errorf("%q", out)
	}
	if _, out := reads(t, root, "--since=5m", "-n", "2"); !strings.HasPrefix(out, "line 118\nline 119\n") {
		t.Errorf("%q", out)
	}
	if r, _ := reads(t, root, "--since", "30"); !strings.Contains(r.Saw, "has logged nothing in the last 30s") {
		t.Errorf("%+v", r)
	}
}

// TestTailOfNothing distinguishes a log without matching lines from one that was never written.
func TestTailOfNothing(t *testing.T) {
	t.Parallel()
	aside := logFile + ".20261121-164500"
	for name, c := range map[string]struct {
		of   map[string]string
		want string
	}{
		"never":     {map[string]string{logFile: ""}, "ns/pod/c has logged nothing, which exited"},
		"put aside": {map[string]string{logFile: "", aside: ""}, "has logged nothing since its log was rotated, "},
		"compressed": {map[string]string{logFile: "", aside + ".gz": "x"},
			"has logged nothing since its log was rotated, "},
		"of one line": {map[string]string{logFile: strings.Repeat(cut("stdout", "P", strings.Repeat("x", 16<<10)),
			300) + cut("stdout", "F", "")}, "has logged a longer line, "},
		"cut at last": {map[string]string{logFile: cut("stdout", "F", "one") + cut("stderr", "P", "panic: it en")},
			"2 lines of ns/pod/c, "},
	} {
		r, out := reads(t, files(t, c.of))
		wants(t, r, probe.OK, c.want)
		if name == "cut at last" && !strings.HasPrefix(out, "one\npanic: it en\n") {
			t.Errorf("%q", out)
		}
	}
}

// TestLinks checks that files of a pod that may write to /var/log are not read in place of a log.
func TestLinks(t *testing.T) {
	t.Parallel()
	const secret = "verysecret"
	link := func(root, to, name string) {
		t.Helper()
		must.Do(t, os.Symlink(to, filepath.Join(root, name)))
	}
	outside := filepath.Join(files(t, map[string]string{"file": cut("stdout", "F", secret)}), "file")
	made := func() string {
		return files(t, map[string]string{logFile: numbered(0, 3), "etc/shadow": cut("stdout", "F", secret),
			"var/lib/docker/containers/abc/abc-json.log": cut("stdout", "F", "of docker")})
	}
	for _, to := range []string{outside, "/etc/shadow"} { // beside the log
		root := made()
		link(root, to, logFile+".20261121-164500")
		if r, out := reads(t, root); strings.Contains(out+r.Saw, secret) || !strings.HasPrefix(out, "line 0\n") {
			t.Errorf("%s: %q, %+v", to, out, r)
		}
	}
	replaced := func(replace func(root, name string)) (probe.Result, string) {
		root := made()
		must.Do(t, os.Remove(filepath.Join(root, logFile)))
		replace(root, logFile)
		return reads(t, root)
	}
	r, out := replaced(func(root, name string) { link(root, "/etc/shadow", name) })
	wants(t, r, probe.Unknown, "leads to /etc/shadow, which is not a log of this container: not read")
	if strings.Contains(out, secret) {
		t.Error(out)
	}
	r, out = replaced(func(root, name string) { link(root, "/var/lib/docker/containers/abc/abc-json.log", name) })
	wants(t, r, probe.OK, "1 line")
	if !strings.HasPrefix(out, "of docker\n") {
		t.Error(out)
	}
	r, _ = replaced(func(root, name string) {
		must.Do(t, os.Mkdir(filepath.Join(root, name), 0o755))
	})
	wants(t, r, probe.Unknown, "is a folder and not a file: not read")
}

// TestTailOfLong checks that a partial read of a log is reported.
func TestTailOfLong(t *testing.T) {
	t.Parallel()
	long := cut("stdout", "F", strings.Repeat("x", 30<<10))
	_, out := reads(t, files(t, map[string]string{logFile: strings.Repeat(long, 200)}), "-n", "180")
	if !strings.HasPrefix(out, "(only the last 4 MiB are read)") || strings.Count(out, "\n") < 130 {
		t.Errorf("%.80q, %d lines", out, strings.Count(out, "\n"))
	}
}

// shared is written by a tool and read by its test.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.b.Write(b) }
func (s *shared) String() string              { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// TestFollow writes, rotates and ends a log while it is followed.
func TestFollow(t *testing.T) {
	t.Parallel()
	root := files(t, map[string]string{logFile: numbered(0, 10) + cut("stdout", "P", "begun ")})
	full := filepath.Join(root, logFile)
	var out shared
	var mu sync.Mutex
	state := cri.ContainerState_CONTAINER_RUNNING
	status := func(context.Context) (*cri.ContainerStatus, error) {
		mu.Lock()
		defer mu.Unlock()
		return &cri.ContainerStatus{LogPath: "/" + logFile, State: state, ExitCode: 1}, nil
	}
	first, _ := status(t.Context())
	ended := make(chan probe.Result, 1)
	go func() {
		ended <- reading{Lines: 2, Follow: true}.read(t.Context(),
			&probe.Job{Host: &probe.Host{Root: root}, Out: &out}, container{name: "c"}, first, status)
	}()
	sees := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !strings.HasSuffix(out.String(),
			want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no %q in %q", want, out.String())
			}
		}
	}
	write := func(text string) {
		t.Helper()
		f := must.Get(os.OpenFile(full, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(t)
		must.Get(f.WriteString(text))(t)
		f.Close()
	}
	sees("line 8\nline 9\n")
	write(cut("stdout", "F", "before"))
	sees("line 9\nbegun before\n")
	write(cut("stdout", "P", "half "))
	write(cut("stdout", "F", "whole") + "2026-11-21T16:45:10Z stdout F not yet")
	sees("begun before\nhalf whole\n")
	write(" ended\n" + cut("stdout", "F", "last of the old"))
	must.Do(t, os.Rename(full, full+".20261121-164500"))
	write(cut("stdout", "F", "first of the new"))
	sees("not yet ended\nlast of the old\nfirst of the new\n")
	if err := os.Truncate(full, 0); err != nil { // as docker is sometimes configured
		t.Fatal(err)
	}
	time.Sleep(2 * logEvery)
	write(cut("stdout", "F", "anew"))
	sees("first of the new\nanew\n")
	write(cut("stdout", "P", "cut at last"))
	mu.Lock()
	state = cri.ContainerState_CONTAINER_EXITED
	mu.Unlock()
	wants(t, <-ended, probe.OK, "lines of //c, which exited 1")
	sees("anew\ncut at last\n(//c exited 1)\n")
}

func TestFollowStopped(t *testing.T) {
	t.Parallel()
	root := files(t, map[string]string{logFile: numbered(0, 10)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var out bytes.Buffer
	s := &cri.ContainerStatus{LogPath: "/" + logFile, State: cri.ContainerState_CONTAINER_RUNNING}
	r := reading{Lines: 2, Follow: true}.read(ctx, &probe.Job{Host: &probe.Host{Root: root}, Out: &out},
		container{name: "c"}, s, func(context.Context) (*cri.ContainerStatus, error) { return s, nil })
	wants(t, r, probe.OK, "2 lines")
}

func TestNamed(t *testing.T) {
	t.Parallel()
	list := []container{
		{id: "aaaa1", namespace: "a", pod: "web-1", name: "web", attempt: 2},
		{id: "aaaa2", namespace: "a", pod: "web-1", name: "web", attempt: 1},
		{id: "bbbb1", namespace: "b", pod: "web-2", name: "web"},
		{id: "cccc1", namespace: "b", pod: "web-2", name: "side"},
	}
	for name, want := range map[string]string{
		"web": "aaaa1,aaaa2 bbbb1", "web-1/web": "aaaa1,aaaa2", "b/web-2/web": "bbbb1", "web-2": "bbbb1 cccc1",
		"a/web-1": "aaaa1,aaaa2", "side": "cccc1",
		"aaaa2": "aaaa2", "aaaa": "aaaa1 aaaa2", "aaa": "", "none": "", "": "",
	} {
		var got []string
		for _, attempts := range named(list, name) {
			var ids []string
			for _, c := range attempts {
				ids = append(ids, c.id)
			}
			got = append(got, strings.Join(ids, ","))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", name, got, want)
		}
	}
}
