// Command calico-node replaces Calico's container of this name, whose image is only in a registry. The parts that
// matter to a probe are real: BIRD 1.6.8 for both families, started as Calico does, with Calico's socket and
// configuration path, and a start with as many API calls as Calico's. Felix' health port answers with the bytes of
// Felix v3.32.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	switch {
	case name == "calico-ipam":
		upgradeIPAM()
	case name == "install":
		logf("install/install.go 1", "CNI plugin binaries are in place")
	case len(args) == 0:
		start()
	case args[0] == "-startup":
		startup()
	case args[0] == "-runsv":
		if err := os.WriteFile("/proc/self/comm", []byte("runsv"), 0o644); err != nil {
			fatal(err)
		}
		keep("felix", program, "-felix")
	case args[0] == "-felix":
		felix()
	case slices.Contains(args, "-init"), slices.Contains(args, "-shutdown"):
	default:
		if err := health(args); err != nil {
			fmt.Printf("calico/node is not ready: %v\n", err)
			os.Exit(1)
		}
	}
}

// logf writes a line in the format of Calico's logs.
func logf(where, format string, args ...any) {
	fmt.Printf("%s [INFO][%d] %s: %s\n", time.Now().UTC().Format("2006-01-02 15:04:05.000"), os.Getpid(), where,
		fmt.Sprintf(format, args...))
}

const hostLocal = "/var/lib/cni/networks/k8s-pod-network"

// upgradeIPAM exits at once on a node without leftovers of host-local. With them it retries forever, like the real one
// while its migration fails.
func upgradeIPAM() {
	logf("upgrade/upgrade.go 1", "migrating from host-local to calico-ipam")
	for {
		if _, err := os.Stat(hostLocal); errors.Is(err, fs.ErrNotExist) {
			logf("upgrade/migrate.go 1", "checking host-local IPAM data dir dir existence... %s: no migration necessary, successfully exiting", hostLocal)
			return
		}
		fmt.Printf("%s [ERROR][%d] ipam_plugin.go 123: failed to migrate ipam, retrying... error=PodCIDR  did not parse successfully\n",
			time.Now().UTC().Format("2006-01-02 15:04:05.000"), os.Getpid())
		time.Sleep(time.Second)
	}
}
