package build

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// defaultKubernetes is the version in go.mod.
const defaultKubernetes = "1.36"

// kubernetesVersions are the versions that the sandbox has. Each but the default has a Go module in kubernetes/NAME,
// because a module selects one version.
var kubernetesVersions = map[string]string{"1.31": "v1.31.13", "1.36": "v1.36.4", "1.37": "v1.37.2"}

// CheckKubernetes returns an error if the sandbox lacks the version that the user named.
func CheckKubernetes(name string) error {
	if name == "" || kubernetesVersions[name] != "" {
		return nil
	}
	return fmt.Errorf("no Kubernetes %q: the sandbox has %s", name,
		strings.Join(slices.Sorted(maps.Keys(kubernetesVersions)), ", "))
}

// Programs is the folder with the programs of a version, "" for the default.
func Programs(root, kubernetes string) string {
	if kubernetes == "" || kubernetes == defaultKubernetes {
		return filepath.Join(root, "bin")
	}
	return filepath.Join(root, "kubernetes", kubernetes)
}
