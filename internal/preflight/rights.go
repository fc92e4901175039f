package preflight

import (
	"cmp"
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/probe"
)

// rights checks each right of the access methods.
func (p *Preflight) rights(ctx context.Context, methods []string) error {
	calico := cmp.Or(p.client.CalicoNamespace, install.CalicoNamespace)
	if p.snap != nil && p.snap.Calico.Value != nil {
		calico = p.snap.Calico.Value.Namespace
	}
	for _, method := range methods {
		uses, err := install.Named(method)
		if err != nil {
			return err
		}
		own := uses[len(uses)-1].Rights // api's rights are checked once, under the name api
		if method == injector.MethodSSH {
			continue
		}
		namespace := p.client.PodNamespace(p.snap)
		in := func(namespace string) (probe.Result, error) {
			return p.held(ctx, method, own, func(s install.Scope) string { return s.Where(namespace, calico) })
		}
		r, err := in(namespace)
		if err != nil {
			r = probe.Found(probe.Unknown, "%s", why(err))
		}
		if r.Status == probe.Fail && namespace != install.Namespace {
			if there, err := in(install.Namespace); err == nil && there.Status != probe.Fail {
				r.Saw, _, _ = strings.Cut(r.Saw, ": "+applyOutput)
				r.Saw += "; in namespace " + install.Namespace + " it is granted: use -n " + install.Namespace
			}
		}
		p.add(method, askRights, r)
	}
	return nil
}

// held reports which of an access method's rights are granted.
func (p *Preflight) held(ctx context.Context, method string, rights []install.Right,
	where func(install.Scope) string) (probe.Result, error) {
	var asks []authorizationv1.ResourceAttributes
	for _, r := range rights {
		for _, group := range r.Groups {
			resource, sub, _ := strings.Cut(r.Resource, "/")
			ask := authorizationv1.ResourceAttributes{Namespace: where(r.In), Verb: r.Verb, Group: group,
				Resource: resource, Subresource: sub}
			if len(r.Names) > 0 {
				ask.Name = r.Names[0]
			}
			asks = append(asks, ask)
		}
	}
	may, err := p.reader.May(ctx, asks)
	if err != nil {
		return probe.Result{}, err
	}
	var lacks []install.Right
	for i, r := 0, 0; r < len(rights); i, r = i+len(rights[r].Groups), r+1 {
		if !slices.Contains(may[i:i+len(rights[r].Groups)], true) {
			lacks = append(lacks, rights[r])
		}
	}
	if len(lacks) == 0 {
		return probe.Found(probe.OK, "all %d rights granted", len(rights)), nil
	}
	return missing(method, p.whose, lacks, where), nil
}

// applyOutput begins the advice on missing rights.
const applyOutput = "apply the output of: calico-probe manifests"

// missing describes what an access method cannot do without its missing rights, and how to get these rights.
func missing(method, whose string, rights []install.Right, where func(install.Scope) string) probe.Result {
	var needed, useful, lines []string
	ask := applyOutput + " --methods " + method + whose
	beside := func(r install.Right) bool { return r.In == install.Calico }
	if at := where(install.Calico); slices.ContainsFunc(rights, beside) && at != install.CalicoNamespace {
		ask += " --calico-namespace " + probe.Quote(at)
	}
	for _, r := range rights {
		name := r.String()
		if in := where(r.In); in != "" {
			name += " in namespace " + in
		}
		if r.Without == "" {
			needed = append(needed, name)
			continue
		}
		useful = append(useful, name)
		lines = append(lines, "without the right to "+name+": "+r.Without)
	}
	if len(needed) > 0 {
		return probe.Found(probe.Fail, "no right to %s: %s", strings.Join(needed, ", "), ask).Because(lines...)
	}
	return probe.Found(probe.Warn, "optional rights missing: %s; %s", strings.Join(useful, ", "), ask).Because(lines...)
}

// noNode returns the result if no node can be read. Every run needs to read a node.
func (p *Preflight) noNode(unread error) probe.Result {
	if !apierrors.IsForbidden(unread) {
		return probe.Found(probe.Unknown, "cannot read any node: %s", why(unread))
	}
	right, _, _ := strings.Cut(apierror.Forbidden(unread), ": ")
	return probe.Found(probe.Fail, "%s, which every run does first: %s%s", right, applyOutput, p.whose)
}
