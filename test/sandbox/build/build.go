// Package build builds the programs and images of a sandbox cluster. Run writes them into the cache folder:
//
//	go.mod            kube/  → bin/kube                 the default version of Kubernetes, and etcd.
//	kubernetes/X/go.mod      → kubernetes/X/kube        another version, only on request.
//	containerd, coredns, ... → bin/, build/, images/
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

const containerdModule = "github.com/containerd/containerd/v2/cmd/"

// part is one step of the build: its text, its command, the folder in the repository, and its environment.
type part struct {
	says string
	dir  string
	argv []string
}

// Run builds everything in the cluster from the sources in repo into the folder root, if the sources have changed since
// the last build. If the user named another version of Kubernetes than the default, it then builds that too.
func Run(ctx context.Context, repo, root, kubernetes string) error {
	if err := runChanged(ctx, repo, root); err != nil || kubernetes == "" || kubernetes == defaultKubernetes {
		return err
	}
	bin := Programs(root, kubernetes)
	if err := kube("test/sandbox/kubernetes/"+kubernetes, bin, ".", kubernetes).run(ctx, repo); err != nil {
		return err
	}
	return linkPrograms(bin)
}

func runChanged(ctx context.Context, repo, root string) error {
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
	fmt.Printf("building the sandbox: Kubernetes %s, etcd, containerd, CoreDNS and the images; the first time takes about eight minutes on two cores\n", kubernetesVersions[defaultKubernetes])
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

// kube is the step that builds a version of Kubernetes from a package in dir.
func kube(dir, bin, pkg, kubernetes string) part {
	const stamp = "-X k8s.io/component-base/version."
	_, minor, _ := strings.Cut(kubernetes, ".")
	stamped := fmt.Sprintf("-s -w %[1]sgitVersion=%[2]s %[1]sgitMajor=1 %[1]sgitMinor=%[3]s", stamp,
		kubernetesVersions[kubernetes], minor)
	return part{"Kubernetes " + kubernetes + ", etcd", dir, gobuild(filepath.Join(bin, "kube"), "-ldflags", stamped, pkg)}
}

func parts(root string) []part {
	bin := filepath.Join(root, "bin")
	image := func(name, ref string) part {
		return part{"image " + name, "images", []string{"go", "run", ".", "-ref", ref, "-cache", root, "-plain",
			"-platform", "linux/" + runtime.GOARCH,
			"-o", filepath.Join(root, "images", name+".tar"), name}}
	}
	return []part{
		kube("test/sandbox", bin, "./kube", defaultKubernetes),
		{"CoreDNS", "test/sandbox", gobuild(bin+"/coredns", "-ldflags", "-s -w", "./coredns")},
		{"containerd", "test/sandbox/containerd", gobuild(bin+"/", "-tags", "no_btrfs,no_devmapper,no_zfs", "-ldflags",
			"-s -w", containerdModule+"containerd", containerdModule+"containerd-shim-runc-v2", containerdModule+"ctr")},
		{"the stand-ins", "test/sandbox", gobuild(filepath.Join(root, "build")+"/", "-ldflags", "-s -w",
			"./calico-node", "./workload")},
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
	fmt.Fprintln(sum, kubernetesVersions[defaultKubernetes], runtime.Version(), runtime.GOARCH)
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

// Version identifies the sources that Run has built in root.
func Version(root string) (string, error) {
	have, err := os.ReadFile(filepath.Join(root, stampFile))
	if err != nil {
		return "", fmt.Errorf("reading what is built: %w", err)
	}
	return string(have), nil
}

// Built returns an error if a version of Kubernetes, or everything, is not built.
func Built(root, kubernetes string) error {
	if _, err := os.Stat(filepath.Join(root, stampFile)); err != nil {
		return errors.New("the sandbox is not built yet: run 'make sandbox' first")
	}
	if _, err := os.Stat(filepath.Join(Programs(root, kubernetes), "kubelet")); err != nil {
		return fmt.Errorf("Kubernetes %s is not built yet: run 'sandbox build --kubernetes %[1]s' first", kubernetes)
	}
	return nil
}
