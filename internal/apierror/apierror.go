// Package apierror describes errors of the API client to users: one line each, with what to do. It does not query the
// API.
package apierror

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/probe"
)

// A Sentence is an error with a text for users. That text replaces the text of wrapped errors.
type Sentence interface {
	error
	Sentence()
}

// Explain turns an API client error into one line for the user: what was tried, why it failed, and what to do. It
// formats any other error as one line.
func Explain(err error) string {
	var unreachable *url.Error
	switch {
	case clientcmd.IsEmptyConfig(err):
		return "no cluster is configured: set KUBECONFIG or use --kubeconfig"
	case errors.As(err, new(Sentence)):
		return probe.OneLine(err.Error())
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept these credentials; check --context, --kubeconfig and whether your login has expired"
	case apierrors.IsForbidden(err):
		why, manifests, whose := Forbidden(err), "calico-probe manifests", ""
		if who := Refused(err.Error()); who != "" {
			manifests, whose = manifests+probe.UserFlag(who), " to "+who
			if right := cannot.FindAllString(err.Error(), -1); len(right) == 1 { // the API server reported only that
				why, _ = Lacking(err)
			}
		}
		return fmt.Sprintf("%s; '%s' prints the rights to grant%s, and 'calico-probe preflight' names other missing rights",
			why, manifests, whose)
	case errors.As(err, &unreachable):
		host := unreachable.URL
		if u, bad := url.Parse(unreachable.URL); bad == nil {
			host = u.Host
		}
		if errors.As(err, new(*tls.CertificateVerificationError)) {
			return fmt.Sprintf("%s has an untrusted certificate (%s): "+
				"check the cluster CA in the kubeconfig, or a proxy in between", host, probe.OneLine(unreachable.Err.Error()))
		}
		return fmt.Sprintf("the API server %s cannot be reached (%s): check --context, VPN and network, "+
			"or run calico-probe on the node itself with --via local", host, because(unreachable.Err))
	case errors.Is(err, context.DeadlineExceeded):
		return "the API server did not answer in time: try again, or run calico-probe on the node itself with --via local"
	}
	return probe.OneLine(err.Error())
}

// Forbidden returns the missing permission and the API server's message.
func Forbidden(err error) string {
	right, _ := Lacking(err)
	return right + ": " + strings.ReplaceAll(err.Error(), "\n", "; ") // joined errors
}

// Refused returns the user named in an API server's refusal, or "" if the text does not name a user. It returns only a
// plain name, because the name may be used in a command.
func Refused(text string) string {
	if who := whoLacks.FindStringSubmatch(text); who != nil {
		return who[1]
	}
	return ""
}

var whoLacks = regexp.MustCompile(`User "([\w.:@-]+)" cannot `)

// cannot matches the API server's description of a missing permission.
var cannot = regexp.MustCompile(`cannot (\w+) resource "([\w./-]+)"(?: in API group "[\w.-]*")?( in the namespace "([\w.-]+)")?`)

// Lacking returns the missing permission in words. It also reports whether the API server named the permission.
func Lacking(err error) (right string, named bool) {
	switch of := cannot.FindStringSubmatch(err.Error()); {
	case of == nil:
		return "no right to do this", false
	case of[4] != "":
		return "no right to " + of[1] + " " + of[2] + " in namespace " + of[4], true
	default:
		return "no right to " + of[1] + " " + of[2], true
	}
}

// because describes a network error in words.
func because(err error) string {
	var dns *net.DNSError
	switch reason := probe.Reason(err); {
	case errors.As(err, &dns):
		return "its name does not resolve: " + dns.Name
	case reason == "refused":
		return "connection refused"
	case reason == "timeout":
		return "no answer in time"
	case reason == "net-unreachable", reason == "host-unreachable":
		return "no route to it"
	}
	return probe.OneLine(err.Error())
}
