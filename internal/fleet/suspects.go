package fleet

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// perZone is the number of nodes to sample in each zone.
const perZone = 3

// suspects splits nodes into nodes to probe and the rest. It probes nodes with a fault in the API, and a few healthy
// nodes in each zone. If Few is set, it takes a few nodes in each zone from the named nodes, or from the nodes with a
// fault.
func (r *Run) suspects(ctx context.Context, s *cluster.Survey, nodes []*corev1.Node, start probe.Start,
) (probed, rest []*corev1.Node, err error) {
	ask := r.byAPI(s)
	var known, well []*corev1.Node
	for _, n := range nodes {
		named := slices.Contains(r.opts.Among, n.Name)
		if len(r.opts.Among) == 0 {
			j, err := ask(ctx, n, start)
			if err != nil {
				return nil, nil, err
			}
			named = j.verdict.Word != report.WordHealthy
		}
		if named {
			known = append(known, n)
		} else {
			well = append(well, n)
		}
	}
	if r.opts.Few {
		probed, rest = fewOf(known)
		var most []*corev1.Node
		for i, n := range probed { // a sample, if there are more zones than that
			if few := min(examine.MaxWithoutConsent, len(probed)); i*few/len(probed) != (i+1)*few/len(probed) {
				most = append(most, n)
			} else {
				rest = append(rest, n)
			}
		}
		return most, append(rest, well...), nil
	}
	some, rest := fewOf(well)
	return append(known, some...), rest, nil
}

// fewOf returns a few nodes in each zone, spread evenly, and the rest.
func fewOf(nodes []*corev1.Node) (some, rest []*corev1.Node) {
	zones := map[string][]*corev1.Node{}
	for _, n := range nodes {
		zone := n.Labels[corev1.LabelTopologyZone]
		zones[zone] = append(zones[zone], n)
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		of := zones[zone]
		few := min(perZone, len(of))
		for i, n := range of {
			if i*few/len(of) != (i+1)*few/len(of) {
				some = append(some, n)
			} else {
				rest = append(rest, n)
			}
		}
	}
	return some, rest
}
