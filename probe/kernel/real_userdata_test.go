//go:build e2e

package kernel

import (
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealUserData checks that drop rules are counted whatever user data the owner of a network namespace attached. nft
// never writes an entry that is longer than the user data.
func TestRealUserData(t *testing.T) {
	if !nstest.Enter(t, `nft add table ip mine
nft add chain ip mine c { type filter hook forward priority 0 ; }
nft add rule ip mine c counter drop comment nfts-own
`) {
		return
	}
	var c nftables.Conn
	table := &nftables.Table{Name: "mine", Family: nftables.TableFamilyIPv4}
	for _, data := range [][]byte{{1, 255}, {0, 200, 'x'}, {0}} {
		c.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: "c", Table: table}, UserData: data,
			Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}})
	}
	must.Do(t, c.Flush())
	found := must.Get(Refusals(&probe.Host{Proc: "/proc"}))(t)
	found = slices.DeleteFunc(found, func(r Refusal) bool { return r.Table != "mine" })
	if len(found) != 4 || !slices.Equal(found[0].Comments, []string{"nfts-own"}) || found[1].Does != "drop" ||
		len(found[1].Comments) > 0 {
		t.Errorf("%+v", found)
	}
}
