package api

import (
	"strings"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// pullReason finds why a pod's image is missing: the node's disk or image store, a registry, or the image itself.
func pullReason(w cluster.Waiter) group {
	says := cluster.GeneralText(w, w.Says)
	if facts.PullFailed(says) == "" && w.Pull != nil {
		says = cluster.GeneralText(w, w.Pull.Message)
	}
	switch broken := facts.ContainerFailed(says); {
	case diskFull.MatchString(facts.WithoutOwners(says)):
		return group{starts: facts.StartsContainer, message: says}
	case broken.Obstacle != "":
		return group{starts: facts.StartsContainer, message: says, sandbox: broken}
	}
	refusal := facts.PullFailed(says)
	if refusal == "" || refusal == facts.RefusedAbsent {
		return group{starts: facts.StartsOwn, message: strings.TrimSuffix(w.Reason+": "+says, ": ")}
	}
	return group{starts: facts.StartsImage, message: says, refusal: refusal}
}

// sameReason reports whether the pods of two groups do not start for the same reason. A registry's message contains
// the image's name, so for images it compares the kind of refusal. A failed network path is not specific to one
// registry.
func (g group) sameReason(o group) bool {
	if g.starts != o.starts || g.refusal != o.refusal {
		return false
	}
	if g.starts != facts.StartsImage {
		return g.message == o.message
	}
	return facts.RefusedOnPath(g.refusal) || facts.RegistryOf(g.pods[0].Image) == facts.RegistryOf(o.pods[0].Image)
}

// images returns the images for which the pods of a group wait, and their registries.
func (g group) images() (images, registries []string) {
	for _, w := range g.pods {
		images = append(images, probe.OneLine(w.Image))
		registries = append(registries, probe.OneLine(facts.RegistryOf(w.Image)))
	}
	return cluster.Distinct(images), cluster.Distinct(registries)
}

// hasManyImages reports whether several images of more than one tenant fail. A single image may have a wrong name.
func (g group) hasManyImages(s *cluster.Snapshot) bool {
	images, _ := g.images()
	return len(images) > 1 && g.isCorroborated(s)
}

// isNodeFault reports whether image failures are more than one pod's problem. An invalid registry name or a forbidden
// image is the owner's mistake. A registry that limits requests, or that this node does not trust, is a node fault. So
// are failures of several images from more than one registry or namespace.
func (g group) isNodeFault(s *cluster.Snapshot) bool {
	_, registries := g.images()
	switch g.refusal {
	case facts.RefusedLimited, facts.RefusedPlain, facts.RefusedUntrusted, facts.RefusedFailing:
		return true
	case facts.RefusedUnauthorized:
		return g.hasManyImages(s)
	}
	return len(registries) > 1 || g.isCorroborated(s)
}
