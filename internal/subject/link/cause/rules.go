// Package cause has the causes of the node's addresses, interface, neighbours and MTU: what each looks like in the
// findings of a run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	mtuNodeSmall, internalShared, neighbourWrong, addressTwice, duplicateAddress, addressTaken, addressGone,
	addressBridge, addressSecondNIC, peerAddress, addressWillChange, detectionFindsNone,
}
