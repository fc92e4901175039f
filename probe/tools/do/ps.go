package do

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/reach"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// The maximum number of containers or pods that are queried one by one, and the time limit for that.
const (
	maxStates   = 500
	statesLimit = 20 * time.Second
)

// listRuntime lists what the container runtime reports.
func listRuntime(ctx context.Context, j *probe.Job, a *tools.PSArgs) probe.Result {
	conn, socket, err := reach.Runtime(j.Host)
	if err != nil {
		return unread(err)
	}
	defer conn.Close()
	list := listContainers
	switch a.What {
	case "pods":
		list = listPods
	case "images":
		list = listImages
	}
	return list(ctx, j, runtime{conn, socket}, a.All, a.Word)
}

func listContainers(ctx context.Context, j *probe.Job, r runtime, all bool, word string) probe.Result {
	list, err := r.containers(ctx)
	if err != nil {
		return r.silent(ctx, err)
	}
	now := time.Now()
	limited, cancel := context.WithTimeout(ctx, statesLimit)
	defer cancel()
	t := newTable(j, "POD", "CONTAINER", "STATE", "AGE", "RESTARTS", "IMAGE", "ID")
	var n counts
	queried, before := 0, ""
	for _, c := range list {
		newest := c.String() != before
		before = c.String()
		if !fits(word, c.namespace+"/"+c.pod, c.name, c.image, c.id) {
			continue
		}
		if !all && !newest {
			n.hidden++
			continue
		}
		state := stateName(c.state)
		if c.state == cri.ContainerState_CONTAINER_EXITED {
			state += " ?"
			if queried++; queried <= maxStates && limited.Err() == nil {
				s, err := r.status(limited, c.id)
				switch {
				case err != nil: // removed in the meantime, or not reported
				case s.GetExitCode() == 0 && !all:
					n.hidden++
					continue
				default:
					state = ended(s, now)
				}
				if err == nil && s.GetExitCode() != 0 && newest {
					n.bad++
				}
			}
		}
		n.shown++
		t.row(c.namespace+"/"+c.pod, c.name, state, probe.Age(now.Sub(c.created)), strconv.Itoa(int(c.attempt)),
			shortImage(c.image), fmt.Sprintf("%.12s", c.id))
	}
	return finish(ctx, j, t, n, "container", word)
}

func listPods(ctx context.Context, j *probe.Job, r runtime, all bool, word string) probe.Result {
	client := cri.NewRuntimeServiceClient(r.conn)
	a, err := ask(ctx, client.ListPodSandbox, &cri.ListPodSandboxRequest{})
	if err != nil {
		return r.silent(ctx, err)
	}
	slices.SortFunc(a.Items, func(a, b *cri.PodSandbox) int {
		m, n := a.GetMetadata(), b.GetMetadata()
		return cmp.Or(strings.Compare(m.GetNamespace(), n.GetNamespace()), strings.Compare(m.GetName(), n.GetName()),
			cmp.Compare(b.CreatedAt, a.CreatedAt))
	})
	now := time.Now()
	limited, cancel := context.WithTimeout(ctx, statesLimit)
	defer cancel()
	t := newTable(j, "POD", "STATE", "AGE", "ATTEMPT", "ADDRESSES", "ID")
	var n counts
	queried := 0
	for _, s := range a.Items {
		ready := s.State == cri.PodSandboxState_SANDBOX_READY
		name := s.GetMetadata().GetNamespace() + "/" + s.GetMetadata().GetName()
		if !fits(word, name, s.Id) {
			continue
		}
		if !ready && !all {
			n.hidden++
			continue
		}
		n.shown++
		addrs := ""
		if queried++; ready && queried <= maxStates && limited.Err() == nil {
			// otherwise, it was just removed
			if one, err := ask(limited, client.PodSandboxStatus, &cri.PodSandboxStatusRequest{PodSandboxId: s.Id}); err == nil {
				addrs = addressesOf(one.GetStatus())
			}
		}
		t.row(name, map[bool]string{true: "ready", false: "not ready"}[ready],
			probe.Age(now.Sub(time.Unix(0, s.CreatedAt))), strconv.Itoa(int(s.GetMetadata().GetAttempt())), addrs,
			fmt.Sprintf("%.12s", s.Id))
	}
	return finish(ctx, j, t, n, "pod", word)
}

// addressesOf returns a pod's addresses. A pod in the host network does not report any.
func addressesOf(s *cri.PodSandboxStatus) string {
	if s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == cri.NamespaceMode_NODE {
		return "(the node's)"
	}
	out := []string{s.GetNetwork().GetIp()}
	for _, more := range s.GetNetwork().GetAdditionalIps() {
		out = append(out, more.GetIp())
	}
	return strings.Join(out, ",")
}

func listImages(ctx context.Context, j *probe.Job, r runtime, _ bool, word string) probe.Result {
	a, err := ask(ctx, cri.NewImageServiceClient(r.conn).ListImages, &cri.ListImagesRequest{})
	if err != nil {
		return r.silent(ctx, err)
	}
	slices.SortFunc(a.Images, func(a, b *cri.Image) int { return strings.Compare(imageName(a), imageName(b)) })
	t := newTable(j, "IMAGE", "SIZE", "ID")
	var n counts
	for _, i := range a.Images {
		name := imageName(i)
		if !fits(word, name, i.Id) {
			continue
		}
		n.shown++
		t.row(name, bytesOf(i.GetSize()), fmt.Sprintf("%.12s", strings.TrimPrefix(i.Id, "sha256:")))
	}
	return finish(ctx, j, t, n, "image", word)
}

func imageName(i *cri.Image) string {
	return strings.Join(i.GetRepoTags(), ",")
}

// shortImage shortens a digest to a length that is still recognisable.
func shortImage(name string) string {
	if before, digest, ok := strings.Cut(name, "@sha256:"); ok {
		return fmt.Sprintf("%s@%.12s", before, digest)
	}
	if digest, ok := strings.CutPrefix(name, "sha256:"); ok {
		return fmt.Sprintf("%.12s", digest)
	}
	return name
}

// fits reports whether any of the texts contains a word.
func fits(word string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, word) })
}

// counts summarises a list.
type counts struct {
	shown  int
	bad    int // of these, the number that exited with an error
	hidden int // these match, but are shown only with -a
}

// finish prints a list and its summary.
func finish(ctx context.Context, j *probe.Job, t table, n counts, what, word string) probe.Result {
	if ctx.Err() != nil && n.shown == 0 {
		return probe.Found(probe.Unknown, "stopped while querying the runtime")
	}
	switch {
	case n.shown == 0 && n.hidden > 0:
		with, all, none := "", "ps -a", "runs, or failed in its last attempt"
		if what == "pod" {
			all, none = "ps -a pods", "is ready"
		}
		if word != "" {
			with, all = fmt.Sprintf(" with %q", word), all+" "+word
		}
		r := probe.Found(probe.OK, "of %s%s none %s: '%s' lists them", several(n.hidden, what), with, none, all)
		j.Say("(%s)", r.Saw)
		return r
	case n.shown == 0 && word != "":
		return probe.Found(probe.Fail, "the runtime has no %s with %q", what, word).With(probe.FactReason, "missing")
	case n.shown == 0:
		j.Say("(the runtime has no %s)", what)
		return probe.Found(probe.OK, "the runtime has no %s", what)
	}
	t.end()
	if ctx.Err() != nil {
		return probe.Found(probe.Unknown, "stopped while querying the runtime")
	}
	if n.bad > 0 {
		return probe.Found(probe.OK, "%s, of which %d exited with an error", several(n.shown, what), n.bad)
	}
	return probe.Found(probe.OK, "%s", several(n.shown, what))
}
