package main

// How this program speaks. Results go to stdout, everything else to stderr.
// Prose has no capital at its start and no full stop at its end. An error is one
// line that says what was tried and what to do. Progress is for terminals;
// what the user must know afterwards is said on any stream.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"

	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/shell"
)

// say prints one line. There is nobody to tell when stderr is gone.
func say(w io.Writer, format string, args ...any) {
	line := "calico-probe: " + advised(oneLine(fmt.Sprintf(format, args...)))
	if rawTerminal.Load() {
		w, line = shell.Bare(w), "\r\n"+line+"\r"
	}
	_, _ = fmt.Fprintln(w, line)
}

// asPlugin tells that kubectl runs this program, by the name under which it is on the PATH.
var asPlugin = strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-")

// advised gives the commands that help or a message advises the name they have for whoever
// reads it: a plugin may be on the PATH under kubectl's name for it alone. What is data,
// reports and all, is the same under both names.
func advised(text string) string {
	if !asPlugin {
		return text
	}
	return strings.NewReplacer("'calico-probe ", "'kubectl calico-probe ", "$ calico-probe ", "$ kubectl calico-probe ", "  calico-probe ", "  kubectl calico-probe ").Replace(text)
}

// rawTerminal tells that the terminal is in raw mode, in which a new line is no new line.
var rawTerminal atomic.Bool

// oneLine puts a text that libraries may have broken into lines on one, and keeps what
// a node said in it from steering the terminal.
func oneLine(text string) string {
	return probe.Plain(strings.Join(strings.Fields(text), " "))
}

// isTerminal tells whether a reader or a writer is a terminal, or leads to one.
func isTerminal(w any) bool {
	if to, ok := w.(io.Writer); ok {
		w = shell.Bare(to)
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colourful tells whether to colour what goes to w (https://no-color.org).
func colourful(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// explainError turns an error of the API's client into the one line a user
// needs: what was tried, why it failed, what to do.
func explainError(err error) string {
	var unreachable *url.Error
	switch {
	case clientcmd.IsEmptyConfig(err):
		return "no cluster is configured: set KUBECONFIG or use --kubeconfig"
	case errors.As(err, new(*cluster.UnknownNodeError)), errors.As(err, new(*injector.PlacementError)), errors.As(err, new(overError)):
		return oneLine(err.Error())
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept these credentials; check --context, --kubeconfig and whether your login has expired"
	case apierrors.IsForbidden(err):
		several := strings.ReplaceAll(err.Error(), "\n", "; ") // of errors that were joined
		return fmt.Sprintf("%s: %s; 'calico-probe preflight' says what else is missing, and 'calico-probe manifests' what to have granted", lacking(err), several)
	case errors.As(err, &unreachable):
		host := unreachable.URL
		if u, bad := url.Parse(unreachable.URL); bad == nil {
			host = u.Host
		}
		if errors.As(err, new(*tls.CertificateVerificationError)) {
			return fmt.Sprintf("%s answers with a certificate that is not accepted (%s): check the cluster's CA in the kubeconfig, or what stands in between", host, oneLine(unreachable.Err.Error()))
		}
		return fmt.Sprintf("the API server %s cannot be reached (%s): check --context, VPN and network, or run calico-probe on the node itself with --via local",
			host, because(unreachable.Err))
	case errors.Is(err, context.DeadlineExceeded):
		return "the API server did not answer in time: try again, or run calico-probe on the node itself with --via local"
	}
	return oneLine(err.Error())
}

// cannot is how the API server names a right that somebody lacks.
var cannot = regexp.MustCompile(`cannot (\w+) resource "([\w./-]+)"`)

// lacking names the right for want of which the API server refuses.
func lacking(err error) string {
	if right := cannot.FindStringSubmatch(err.Error()); right != nil {
		return "no right to " + right[1] + " " + right[2]
	}
	return "no right to do this"
}

// because names a network error in words.
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
	return oneLine(err.Error())
}
