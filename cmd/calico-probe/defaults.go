package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/homedir"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/suggest"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// envDefaults is the environment variable that names another file of defaults.
const envDefaults = "CALICO_PROBE_DEFAULTS"

// defaultFlags are the flags that the file of defaults may set: those that a person uses for every run. Flags that
// decide what a run tests and writes are allowed only on the command line. --via kubelet, which needs rights over every
// pod on the node, is also allowed only there.
var defaultFlags = []string{"calico-namespace", "causes", "color", "image", "image-pull-secret", "namespace", "profile",
	"reason", "ssh", "ssh-config", "via"}

// defaultsFile returns the path of the defaults, beside kubectl's own configuration. If there is no home folder, it
// returns "", because another user may own the current folder.
func defaultsFile() string {
	home := homedir.HomeDir()
	if named := os.Getenv(envDefaults); named != "" || !filepath.IsAbs(home) {
		return named
	}
	return filepath.Join(home, ".kube", "calico-probe.yaml")
}

// defaults sets the flags of a verb that are in the file of defaults and not on the command line.
func defaults(cmd *cobra.Command) error {
	name := defaultsFile()
	if name == "" {
		return nil
	}
	b, err := readDefaults(name)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv(envDefaults) == "" {
		return nil
	}
	if err != nil {
		return ui.BadUsage("the defaults cannot be read: %w", err)
	}
	var values map[string]string
	if err := yaml.UnmarshalStrict(b, &values); err != nil {
		return ui.BadUsage("%s: %s", name, strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "))
	}
	for _, flag := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(defaultFlags, flag) {
			return ui.BadUsage("%s: %q cannot have a default%s; flags that can have one: %s", name, flag,
				suggest.DidYouMean(flag, defaultFlags), strings.Join(defaultFlags, ", "))
		}
		f := cmd.Flags().Lookup(flag)
		if f == nil || f.Changed || flag == "image" && os.Getenv(envImage) != "" {
			continue
		}
		if flag == "via" && injector.AccessOf(values[flag]).AsRoot {
			return ui.BadUsage("%s: via: %s can only be set on the command line", name, values[flag])
		}
		if err := f.Value.Set(values[flag]); err != nil {
			return ui.BadUsage("%s: %s: %w", name, flag, err)
		}
	}
	return nil
}

// maxDefaults bounds the file in bytes: ten flags need a few hundred.
const maxDefaults = 64 << 10

// readDefaults reads a regular file with at most maxDefaults bytes.
func readDefaults(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > maxDefaults:
		return nil, fmt.Errorf("%s has %d bytes; the limit is %d", name, info.Size(), maxDefaults)
	}
	return os.ReadFile(name)
}
