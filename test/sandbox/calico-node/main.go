// Command calico-node stands in for Calico's container of that name, whose image
// cannot be had without a registry. What matters to a probe is real: BIRD 1.6.8
// for both families, started as Calico starts it, on the socket and with the
// configuration path Calico uses; and a start that makes as many calls to the API
// server as Calico's, one after the other. Felix's health port is answered with the
// bytes Felix v3.32 answers with.
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

// logf writes a line as Calico's logs look.
func logf(where, format string, args ...any) {
	fmt.Printf("%s [INFO][%d] %s: %s\n", time.Now().UTC().Format("2006-01-02 15:04:05.000"), os.Getpid(), where,
		fmt.Sprintf(format, args...))
}

const hostLocal = "/var/lib/cni/networks/k8s-pod-network"

// upgradeIPAM ends at once on a node without host-local's leftovers, and with
// them retries for ever, as the real one does while its migration fails.
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
