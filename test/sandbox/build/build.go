// Package build builds the programs and images of a sandbox cluster. Run writes them into the cache folder:
//
//	kube, containerd, coredns       → bin/
//	calico-node, workload           → build/
//	what the nodes' pods run        → images/
//
// It does not start anything.
package build

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Pause is the sandbox image of the nodes' pods.
const Pause = "registry.k8s.io/pause:3.10"

// stampFile records the sources of the last build.
const stampFile = "built"

// The versions of what is built. Those of Go modules are in go.mod.
const (
	kubernetesVersion = "v1.36.4"
	containerdModule  = "github.com/containerd/containerd/v2/cmd/"
)

// part is one step of the build: its text, its command, the folder in the repository, and its environment.
type part struct {
	says string
	dir  string
	argv []string
}

// Run builds everything in the cluster from the sources in repo into the folder root, if the sources have changed since
// the last build.
func Run(ctx context.Context, repo, root string) error {
	want, err := fingerprint(repo)
	if err != nil {
		return err
	}
	stamp := filepath.Join(root, stampFile)
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return nil
	}
	for _, d := range []string{"bin", "images", "build"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return fmt.Errorf("making the cache: %w", err)
		}
	}
	fmt.Printf("building the sandbox: Kubernetes %s, etcd, containerd, CoreDNS and the images; the first time takes about eight minutes on two cores\n", kubernetesVersion)
	began := time.Now()
	for _, p := range parts(root) {
		if err := p.run(ctx, repo); err != nil {
			return err
		}
	}
	if err := linkPrograms(filepath.Join(root, "bin")); err != nil {
		return err
	}
	fmt.Printf("sandbox built in %v\n", time.Since(began).Round(time.Second))
	if err := os.WriteFile(stamp, []byte(want), 0o600); err != nil {
		return fmt.Errorf("recording the build: %w", err)
	}
	return nil
}

// linkPrograms links the names by which the binary selects a component.
func linkPrograms(bin string) error {
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
		"kube-proxy", "kubelet"} {
		link := filepath.Join(bin, name)
		if err := os.Symlink("kube", link); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return nil
}

// gobuild returns the command that builds Go packages.
func gobuild(out string, more ...string) []string {
	return append([]string{"go", "build", "-trimpath", "-buildvcs=false", "-o", out}, more...)
}

// kube is the step that builds Kubernetes and etcd.
func kube(bin string) part {
	const stamp = "-X k8s.io/component-base/version."
	minor := strings.Split(kubernetesVersion, ".")[1]
	stamped := fmt.Sprintf("-s -w %[1]sgitVersion=%[2]s %[1]sgitMajor=1 %[1]sgitMinor=%[3]s", stamp, kubernetesVersion, minor)
	return part{"Kubernetes and etcd", "test/sandbox", gobuild(bin+"/kube", "-ldflags", stamped, "./kube")}
}

func parts(root string) []part {
	bin := filepath.Join(root, "bin")
	image := func(name, ref string) part {
		return part{"image " + name, "images", []string{"go", "run", ".", "-ref", ref, "-cache", root, "-plain",
			"-platform", "linux/" + runtime.GOARCH,
			"-o", filepath.Join(root, "images", name+".tar"), name}}
	}
	return []part{
		kube(bin),
		{"CoreDNS", "test/sandbox", gobuild(bin+"/coredns", "-ldflags", "-s -w", "./coredns")},
		{"containerd", "test/sandbox/containerd", gobuild(bin+"/", "-tags", "no_btrfs,no_devmapper,no_zfs", "-ldflags",
			"-s -w", containerdModule+"containerd", containerdModule+"containerd-shim-runc-v2", containerdModule+"ctr")},
		{"the stand-ins", "test/sandbox", gobuild(filepath.Join(root, "build")+"/", "-ldflags", "-s -w", "./calico-node", "./workload")},
		image("pause", Pause),
		image("calico-node", "sandbox.local/calico-node:v3.32.1"),
		image("coredns", "sandbox.local/coredns:1.14.1"),
		image("workload", "sandbox.local/workload:1"),
	}
}

// run runs a step, and reports every fifteen seconds that it still runs.
func (p part) run(ctx context.Context, repo string) error {
	began := time.Now()
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Dir = filepath.Join(repo, p.dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("building %s: %w", p.says, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("building %s: %w\n%s", p.says, err, lastLines(output.String(), 20))
			}
			fmt.Printf("  %-22s %v\n", p.says, time.Since(began).Round(100*time.Millisecond))
			return nil
		case <-tick.C:
			fmt.Printf("  %-22s … %v\n", p.says, time.Since(began).Round(time.Second))
		}
	}
}

func lastLines(text string, n int) string {
	var lines []string
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// fingerprint changes with every source file of the build.
func fingerprint(repo string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, kubernetesVersion, runtime.Version(), runtime.GOARCH)
	for _, dir := range []string{"test/sandbox/kube", "test/sandbox/coredns", "test/sandbox/containerd",
		"test/sandbox/calico-node", "test/sandbox/workload", "test/sandbox/go.mod", "test/sandbox/build", "images"} {
		err := filepath.WalkDir(filepath.Join(repo, dir), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(p)
			fmt.Fprintf(sum, "%s %d\n%s", strings.TrimPrefix(p, repo), len(b), b)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("reading the sources: %w", err)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// Built returns an error if nothing is built.
func Built(root string) error {
	if _, err := os.Stat(filepath.Join(root, stampFile)); err != nil {
		return errors.New("nothing is built yet: run 'make sandbox' first")
	}
	return nil
}
