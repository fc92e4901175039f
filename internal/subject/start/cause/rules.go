// Package cause has the causes of the start of calico-node: what each looks like in the findings of a run, and its
// fix. The client alone links it.
package cause

import (
	"embed"
	"sync"

	"github.com/calico-probe/calico-probe/internal/causefile"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
)

//go:embed *.md checks
var files embed.FS

// Rules returns the causes of this subject: a Markdown file each, and a match in Go where data does not suffice.
var Rules = sync.OnceValue(func() []*diagnose.Rule {
	return causefile.Must(files, evidence.Shared().With(own), matches)
})

// Checks returns the words of this subject's checks, by ID.
var Checks = sync.OnceValue(func() map[string]causefile.CheckWords { return causefile.MustChecks(files) })

// own is what several causes of this subject name in their files.
var own = causefile.Shared{}

// matches are those in Go, by the ID of their cause.
var matches = map[string]causefile.Match{
	"address-unanswered":      addressUnanswered,
	"bgp-router-id":           bgpRouterID,
	"breaks-at-next-start":    breaksAtNextStart,
	"calico-cpu-limit":        calicoCPULimit,
	"calico-ends":             calicoEnds,
	"calico-forbidden":        calicoForbidden,
	"calico-image":            calicoImage,
	"calico-limit":            calicoLimit,
	"calico-no-token":         calicoNoToken,
	"calico-out-of-memory":    calicoOutOfMemory,
	"calico-pod-missing":      calicoPodMissing,
	"calico-pod-waits":        calicoPodWaits,
	"calico-resource-missing": resourceMissing,
	"calico-starting":         calicoStarting,
	"calico-unprivileged":     calicoUnprivileged,
	"container-not-started":   containerNotStarted,
	"install-cni-fails":       installCNIFails,
	"kubelet-refused":         kubeletRefused,
	"next-start-refused":      nextStartRefused,
	"probe-broken":            probeBroken,
	"setting-refused":         settingRefused,
	"start-far-datastore":     startFarDatastore,
	"start-outlasts-budget":   startOutlastsBudget,
	"start-under-load":        startUnderLoad,
	"tunnel-settings":         tunnelSettings,
	"typha-missing":           typhaMissing,
	"upgrade-ipam-locked":     upgradeLocked,
	"upgrade-ipam-no-api":     upgradeNoAPI,
	"upgrade-ipam-pod-cidr":   upgradePodCIDR,
	"upgrade-ipam-stuck":      upgradeStuck,
	"webhook-dead":            webhookDead,
}
