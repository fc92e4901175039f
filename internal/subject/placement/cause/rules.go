// Package cause has the causes of what keeps the probe off a healthy node: what each looks like in the findings of a
// run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	probeImage, probePolicy, probeQuota, probeRights, probeNamespace, probeRejected,
}
