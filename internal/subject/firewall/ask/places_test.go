package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/drops"
)

// TestPlaces compares the values of FactPlaceKind with the kinds of probe/drops, which they repeat.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		firewall.PlacePolicy:      drops.KindPolicy,
		firewall.PlaceCalico:      drops.KindCalico,
		firewall.PlaceRule:        drops.KindRule,
		firewall.PlaceChainPolicy: drops.KindChainPolicy,
		firewall.PlaceConntrack:   drops.KindConntrack,
		firewall.PlaceRPFilter:    drops.KindRPFilter,
		firewall.PlaceNeighbour:   drops.KindNeighbour,
		firewall.PlaceLink:        drops.KindLink,
		firewall.PlaceInterface:   drops.KindInterface,
		firewall.PlaceFirewall:    drops.KindFirewall,
		firewall.PlaceRoute:       drops.KindRoute,
		firewall.PlaceMAC:         drops.KindMAC,
		firewall.PlaceOther:       drops.KindOther,
		probe.InNode:              drops.Node,
	} {
		if word != want {
			t.Errorf("%q, want %q", word, want)
		}
	}
}
