//go:build e2e

package e2e

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBundle bundles a node with a fault. A tenant's pod there has secrets in every field that may contain one. The
// bundle must contain the cause and no secret, and analyze must find the cause again.
func TestBundle(t *testing.T) {
	const planted = "pl4nted-s3cret"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "has-secrets", Annotations: map[string]string{"corp.example/key": planted}},
		Spec: corev1.PodSpec{NodeName: "node-b", Containers: []corev1.Container{{
			Name: "c", Image: "nowhere.invalid/app:1", ImagePullPolicy: corev1.PullNever,
			Command: []string{"run", "--password", planted}, Env: []corev1.EnvVar{{Name: "PASSWORD", Value: planted}},
		}}},
	}
	pods := kube(t).CoreV1().Pods(metav1.NamespaceDefault)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	defer func() {
		if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, time.Minute, func() string { // its CNI plugin turns forwarding on
		is, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil || is.Status.PodIP == "" {
			return fmt.Sprintf("the pod has no address yet: %v", err)
		}
		return ""
	})
	forwarding := func(on string) { mustSandbox(t, "exec", "node-b", "--", "sysctl", "-qw", "net.ipv4.ip_forward="+on) }
	defer forwarding("1")
	forwarding("0")

	name := filepath.Join(t.TempDir(), "b.tar.gz")
	a := call(t, "bundle", "--node", "node-b", "--file", name)
	if a.exit != 0 {
		t.Fatalf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	files := unpacked(t, name)
	if !strings.Contains(a.stdout, "node-b: fault, forwarding-off") {
		t.Fatalf("%s%s", a.stdout, files["report.md"])
	}
	for of, says := range map[string]string{
		"cluster-resources/nodes.json": `"name": "node-b"`, "cluster-resources/pods/kube-system.json": `"name": "FELIX_`,
		"cluster-resources/pods/default.json":           `"name": "has-secrets"`,
		"cluster-resources/daemonsets/kube-system.json": "calico-node",
		"cluster-resources/leases/kube-node-lease.json": "renewTime", "cluster-info/cluster_version.json": "gitVersion",
		"cluster-resources/custom-resources/ippools.crd.projectcalico.org.json": `"cidr"`, "report.md": "forwarding-off",
		"redactions.txt": "pod default/has-secrets: field metadata.managedFields spec.containers.command spec.containers.env",
	} {
		if !strings.Contains(files[of], says) {
			t.Errorf("%s lacks %s:\n%.2000s", of, says, files[of])
		}
	}
	for of, text := range files {
		if strings.Contains(text, planted) {
			t.Errorf("a secret of the tenant's is in %s", of)
		}
	}
	saved := filepath.Join(t.TempDir(), "run.ndjson")
	if err := os.WriteFile(saved, []byte(files["run.ndjson"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, _ := report(t, "analyze", saved); d.first().ID != "forwarding-off" {
		t.Errorf("analyze comes to %s", d)
	}
	nothingLeft(t)
}

// TestBundleInterrupted requires that Ctrl-C leaves no file and no pod of a bundle.
func TestBundleInterrupted(t *testing.T) {
	folder := t.TempDir()
	cmd, out := started(t, nil, "bundle", "--node", "node-b", "--file", filepath.Join(folder, "b.tar.gz"))
	go io.Copy(io.Discard, out) //nolint:errcheck // it ends with the client
	eventually(t, 30*time.Second, func() string {
		if all, err := os.ReadDir(folder); err != nil || len(all) == 0 {
			return "it has not begun"
		}
		return ""
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	nothingLeft(t)
}

// unpacked are the files of an archive, without its folder.
func unpacked(t testing.TB, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	packed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for in := tar.NewReader(packed); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		_, file, _ := strings.Cut(head.Name, "/")
		out[file] = string(b)
	}
}
