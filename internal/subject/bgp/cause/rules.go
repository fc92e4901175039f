// Package cause has the causes of BGP and BIRD: what each looks like in the findings of a run, and its fix. The client
// alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	birdConfigRejected, birdUnfed, birdPortTaken, birdOldPort, birdSocketGone, birdDead, birdProbe, bgpRestartHold,
	bgpPeersMissing, bgpRejected, bgpFiltered, bgpWrongAS, bgpPassword, peerBirdDead, bgpUnknownPeer, bgpOneWay,
	bgpWaits, bgpPeerSilent, bgpNoPeers, bgpRoutesFiltered,
}
