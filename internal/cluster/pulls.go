package cluster

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// eventFailed is the reason of the kubelet's events about an image that it could not have, among others.
const (
	eventFailed = "Failed"
	saidOfPull  = "Failed to pull image "
)

// pullWord is the last event about an image that could not be pulled. Kubelets before 1.31 say no more in the
// container's state than that they wait before they try again.
func pullWord(events []corev1.Event, node string) *corev1.Event {
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		if e.Reason == eventFailed && strings.HasPrefix(e.Message, saidOfPull) && fromKubelet(e, node) &&
			(last == nil || !eventTime(e).Before(eventTime(last))) {
			last = e
		}
	}
	return last
}

// imageOf is the image that a container of the pod is made of.
func imageOf(p *corev1.Pod, c corev1.ContainerStatus) string {
	for _, spec := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if spec.Name == c.Name {
			return spec.Image
		}
	}
	return c.Image
}

// unpulled is what keeps a pod from its image: the node's disk or store, a registry, or the image itself.
func unpulled(w waiter) group {
	says := general(w, w.says)
	if facts.PullFailed(says) == "" && w.pull != nil {
		says = general(w, w.pull.Message)
	}
	switch broken := facts.ContainerFailed(says); {
	case diskFull.MatchString(facts.WithoutOwners(says)):
		return group{starts: facts.StartsContainer, message: says}
	case broken.Obstacle != "":
		return group{starts: facts.StartsContainer, message: says, sandbox: broken}
	}
	refusal := facts.PullFailed(says)
	if refusal == "" || refusal == facts.RefusedAbsent {
		return group{starts: facts.StartsOwn, message: strings.TrimSuffix(w.reason+": "+says, ": ")}
	}
	return group{starts: facts.StartsImage, message: says, refusal: refusal}
}

// sameReason tells whether the pods of two groups do not start for the same reason. The message of a registry
// names the image, so of images it is what the registry refuses for; a way that fails is no registry's own.
func (g group) sameReason(o group) bool {
	if g.starts != o.starts || g.refusal != o.refusal {
		return false
	}
	if g.starts != facts.StartsImage {
		return g.message == o.message
	}
	return facts.RefusedByWay(g.refusal) || facts.RegistryOf(g.pods[0].image) == facts.RegistryOf(o.pods[0].image)
}

// images are those that the pods of a group wait for, and the registries that they are of.
func (g group) images() (images, registries []string) {
	for _, w := range g.pods {
		images = append(images, probe.OneLine(w.image))
		registries = append(registries, probe.OneLine(facts.RegistryOf(w.image)))
	}
	return distinct(images), distinct(registries)
}

// manyImages tells whether several images are concerned, and not of one tenant alone: else its name may be wrong.
func (g group) manyImages(s *Snapshot) bool {
	images, _ := g.images()
	return len(images) > 1 && g.corroborated(s)
}

// ofTheNode tells whether images are more than one pod's own matter. A name of a registry that is no such, an
// image that one may not have: that is what its owner wrote. A registry that has answered too often, or that
// this node does not trust, is not; nor are several images, of more than one registry or namespace.
func (g group) ofTheNode(s *Snapshot) bool {
	_, registries := g.images()
	switch g.refusal {
	case facts.RefusedLimited, facts.RefusedPlain, facts.RefusedUntrusted, facts.RefusedFailing:
		return true
	case facts.RefusedUnauthorized:
		return g.manyImages(s)
	}
	return len(registries) > 1 || g.corroborated(s)
}
