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

// perZone is how many nodes of each zone are a few.
const perZone = 3

// suspects parts nodes into those that are worth a probe and the rest. Worth one are those of which the API knows
// something, and a few of each zone of which it knows nothing; where few are wanted, only a few of each zone of those
// that were named, or of the former.
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
		for i, n := range probed { // of more zones than that, some of them
			if few := min(examine.MostUnasked, len(probed)); i*few/len(probed) != (i+1)*few/len(probed) {
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

// fewOf are a few of the nodes of each zone, spread evenly, and the rest.
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
