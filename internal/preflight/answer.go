package preflight

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/probe"
)

// The IDs of preflight's checks in reports.
const (
	askVersion   = "api-version"
	askNode      = "node"
	askCalico    = "calico"
	askRights    = "rights"
	askAdmission = "admission"
	askImage     = "image"
	askEmbedded  = "carried-probe"
	askContainer = "container"
	askSSH       = "ssh"
	askKubelet   = "kubelet"
	askLogs      = "logs"
)

// Uses that have their own rights but are not access methods.
const (
	useShell = "shell"
	useClean = "clean"
	useServe = "serve"
)

func (p *Preflight) add(method, check string, r probe.Result) {
	p.found = append(p.found, answerOf(method, check, r))
}

func answerOf(method, check string, r probe.Result) probe.Event {
	r.Check, r.Target = check, method
	return probe.Event{Type: probe.EventResult, Result: &r, Method: method}
}

// why explains an error, without the advice to run preflight.
func why(err error) string {
	if apierrors.IsForbidden(err) && !errors.As(err, new(apierror.Sentence)) { // it has its own advice
		return probe.OneLine(apierror.Forbidden(err))
	}
	return apierror.Explain(err)
}
