// Package cause has the causes of CNI: plugins, their configuration, credentials and addresses: what each looks like
// in the findings of a run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	cniConfigUnread, cniConfigMissing, cniConfigShadowed, cniPluginMissing, cniNoExec, nodenameWrong,
	ipamFamilyMissing, ipamExhausted, ipamLockHeld, podAddressHeld, cniPluginForbidden, cniKubeconfigWrong,
	cniPluginFails,
}
