package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// failSwap sets whether the next kubelet refuses to start while swap is on.
func failSwap(refuses bool) string {
	return fmt.Sprintf("sed -i 's/failSwapOn: .*/failSwapOn: %v/' /var/lib/kubelet/config.yaml", refuses)
}

// swapFile is on a disk of this machine: a node's root is on tmpfs, which cannot hold swap.
func (l layout) swapFile() (string, error) { return cache("swap-" + l.name) }

func (l lab) swapOn(ctx context.Context) error {
	file, err := l.swapFile()
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		return err
	}
	return errors.Join(runs(ctx, "mkswap", "-q", file), runs(ctx, "swapon", file))
}

// swapOff removes the swap of swapOn, if any: swap belongs to the whole machine, and outlives the cluster.
func (l layout) swapOff(ctx context.Context) error {
	file, err := l.swapFile()
	if err != nil {
		return err
	}
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return err
	}
	if strings.Contains(string(swaps), filepath.Base(file)+" ") {
		if err := runs(ctx, "swapoff", file); err != nil {
			return err
		}
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
