package machine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

const qemu = "qemu-system-x86_64"

// How long the steps may take on a slow network or disk.
const (
	buildTime  = 20 * time.Minute
	importTime = 10 * time.Minute
)

func bootFolder(cache string) string { return filepath.Join(cache, "machines", "boot") }
func rootDisk(cache string) string   { return filepath.Join(cache, "machines", "root.ext4") }

// Build creates the parts of all guests in cache, if what they are made of has changed. version identifies the
// sandbox's programs, in cache/bin.
func Build(ctx context.Context, cache, version string) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("nodes that are machines need a machine of the architecture amd64")
	}
	script, err := guest.ReadFile("guest/root.sh")
	if err != nil {
		return err
	}
	want := fmt.Sprintf("%s %x", version, sha256.Sum256(script))
	stamp := filepath.Join(cache, "machines", "built")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return nil
	}
	if os.Geteuid() != 0 {
		return errors.New("making the guests' disk needs root: run this with sudo")
	}
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	fmt.Println("building the guests' kernel and disk from Debian; this takes about two minutes")
	began := time.Now()
	if err := os.RemoveAll(stamp); err != nil {
		return fmt.Errorf("building the guests: %w", err)
	}
	if err := run(ctx, script, filepath.Join(cache, "machines"), filepath.Join(cache, "bin")); err != nil {
		return fmt.Errorf("building the guests: %w", err)
	}
	fmt.Printf("  %-22s %v\n", "the guests", time.Since(began).Round(100*time.Millisecond))
	if err := os.WriteFile(stamp, []byte(want), 0o644); err != nil {
		return fmt.Errorf("building the guests: %w", err)
	}
	return nil
}

// Built returns an error if Build has not run.
func Built(cache string) error {
	if _, err := os.Stat(filepath.Join(cache, "machines", "built")); err != nil {
		return errors.New("no guests are built yet: run 'sandbox build --machines' first")
	}
	return nil
}

// Images returns the disk with the images of these archives, and makes it if there is none. It removes the disk of
// other archives of the same kind: a running guest keeps its own.
func Images(ctx context.Context, cache, kind string, archives []string) (string, error) {
	script, err := guest.ReadFile("guest/images.sh")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, _ = sum.Write(script) // never fails
	for _, name := range archives {
		if err := addFile(sum, name); err != nil {
			return "", fmt.Errorf("reading the image archives: %w", err)
		}
	}
	prefix := filepath.Join(cache, "machines", "images-"+kind+"-")
	disk := fmt.Sprintf("%s%x.ext4", prefix, sum.Sum(nil)[:8])
	if _, err := os.Stat(disk); err == nil {
		return disk, nil
	}
	old, err := filepath.Glob(prefix + "*")
	if err != nil {
		return "", err
	}
	for _, name := range old {
		if err := os.RemoveAll(name); err != nil {
			return "", fmt.Errorf("removing an old disk: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, importTime)
	defer cancel()
	fmt.Printf("importing %d image archives for the guests, once\n", len(archives))
	if err := run(ctx, script, append([]string{disk, filepath.Join(cache, "bin")}, archives...)...); err != nil {
		return "", fmt.Errorf("importing the images for the guests: %w", err)
	}
	return disk, nil
}

func addFile(to io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}

// run runs a script in new namespaces, so that all its mounts and processes end with it.
func run(ctx context.Context, script []byte, args ...string) error {
	argv := append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
		"sh", "-c", string(script), "sh"}, args...)
	cmd := exec.CommandContext(ctx, "unshare", argv...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
