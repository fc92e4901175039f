package runbook

import (
	"regexp"
	"slices"
	"strings"
)

// notify lints a notify step.
func (l *linter) notify(at string, n *Notify, in *scope) {
	if (n.Webhook != nil) == (len(n.Command) > 0) {
		l.find(at, "a notify needs exactly one of webhook and command")
	}
	l.command(at+".command", n.Command, in)
	w := n.Webhook
	if w == nil {
		return
	}
	at += ".webhook"
	if (w.URL != "") == (w.URLFrom != "") {
		l.find(at, "a webhook needs exactly one of url and urlFrom")
	}
	if w.URL != "" && !strings.Contains(w.URL, "${") && !isHTTP(w.URL) {
		l.find(at+".url", "is not an http or https URL")
	}
	if strings.Contains(byPerson.ReplaceAllString(hostOf(w.URL), ""), "${") {
		l.warnAt(l.line(at+".url"), "its host comes from an expression, so the author of that value, which may be a node, can redirect the "+
			"record, and with authFrom its secret: write the host literally, or use urlFrom")
	}
	if w.AuthFrom != "" && strings.HasPrefix(strings.ToLower(w.URL), "http://") {
		l.find(at+".authFrom", notOverHTTP)
	}
	for f, name := range map[string]string{"urlFrom": w.URLFrom, "authFrom": w.AuthFrom} {
		if name != "" && !envName.MatchString(name) {
			l.find(at+"."+f, "%q is not a valid name of an environment variable", name)
		}
	}
	if w.As != "" && !slices.Contains(chats, w.As) {
		l.find(at+".as", "%q is not one of %s", w.As, strings.Join(chats, ", "))
	}
	if w.As != "" && w.Body != "" {
		l.find(at, "a webhook takes as or body, not both")
	}
	l.text(at+".url", w.URL, in)
	l.text(at+".body", w.Body, in)
}

// byPerson matches a parameter, which comes from the user who starts the runbook and not from a node.
var byPerson = regexp.MustCompile(`\$\{\s*params\.\w+\s*\}`)

// hostOf returns the part of a URL before its path. This part decides where the request goes.
func hostOf(url string) string {
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		return url
	}
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}
