package main

import (
	"archive/tar"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// archive writes a tar archive with one file.
func archive(t *testing.T, path, name string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o600}), w.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestReadCalico(t *testing.T) {
	good, empty, other := t.TempDir(), t.TempDir(), t.TempDir()
	archive(t, filepath.Join(good, "node.tar"), "manifest.json")
	archive(t, filepath.Join(other, "node.tar"), "usr/bin/calico-node")
	write := func(name, text string) string {
		path := filepath.Join(good, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	object := write("calico.yaml", "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: calico-system}\n")
	for _, c := range []struct{ name, dir, file, refused string }{
		{name: "none"},
		{name: "both", dir: good, file: object},
		{name: "the folder's own manifest", dir: good},
		{name: "manifest alone", file: object, refused: "--manifest needs --calico"},
		{name: "empty folder", dir: empty, file: object, refused: "no image archive (*.tar)"},
		{name: "not an image", dir: other, file: object, refused: "neither manifest.json nor index.json"},
		{name: "no such manifest", dir: good, file: filepath.Join(good, "gone.yaml"), refused: "no such file"},
		{name: "nothing in it", dir: good, file: write("empty.yaml", "---\n"), refused: "no object"},
		{name: "no manifest", dir: good, file: write("words.yaml", "- a\n- b\n"), refused: "document 1"},
		{name: "no kind", dir: good, file: write("kind.yaml", "metadata: {name: a}\n"), refused: "no apiVersion, kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, manifest, err := readCalico(options{calico: c.dir, manifest: c.file})
			if c.refused == "" {
				if err != nil || dir != c.dir || (len(manifest) > 0) != (c.dir != "") {
					t.Errorf("got %q, %d bytes, %v", dir, len(manifest), err)
				}
				return
			}
			if !errors.As(err, new(errUsage)) || !strings.Contains(err.Error(), c.refused) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line of bad usage with %q", err, c.refused)
			}
		})
	}
}

func TestWaitsFor(t *testing.T) {
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	pod := new(corev1.Pod)
	pod.Namespace, pod.Name, pod.Spec.NodeName = "kube-system", "calico-node-x", "node-a"
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "upgrade-ipam", Ready: true, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{
			Name: "install-cni", State: waiting("CrashLoopBackOff", "back-off 10s"),
			LastTerminationState: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"},
			},
		},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "calico-node", State: waiting("PodInitializing", "")}}
	want := "kube-system/calico-node-x on node-a: container install-cni: CrashLoopBackOff back-off 10s; " +
		"it exited with 1 (Error)"
	if got := waitsFor(pod); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestSameCalico requires a cluster to match 'up --calico' only if it was started with the same archives and manifest,
// and an unreadable file to be distinguished from a missing one.
func TestSameCalico(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := layout{name: filepath.Join("..", "..", dir, "cluster")} // below another root than the real ones
	if l.sameCalico(dir, []byte("a")) {
		t.Error("a cluster with its stand-in passes for one with Calico")
	}
	if err := l.keepCalico(dir, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if !l.sameCalico(dir, []byte("a")) || l.sameCalico(dir, []byte("b")) || l.sameCalico("/elsewhere", []byte("a")) {
		t.Error("another Calico passes for the one that runs")
	}
	if has, err := exists(l.calicoManifest()); err != nil || !has {
		t.Errorf("a manifest: %v %v", has, err)
	}
	if has, err := exists(filepath.Join(l.calicoManifest(), "x")); err == nil || has {
		t.Errorf("what cannot be looked for: %v %v", has, err)
	}
	if has, err := exists(filepath.Join(dir, "nosuch")); err != nil || has {
		t.Errorf("what is not there: %v %v", has, err)
	}
}
