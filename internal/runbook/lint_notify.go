package runbook

import (
	"regexp"
	"slices"
	"strings"
)

// notify holds a notify to its form.
func (l *linter) notify(at string, n *Notify, in *scope) {
	if (n.Webhook != nil) == (len(n.Command) > 0) {
		l.find(at, "somebody is told by a webhook or by a command: exactly one of them")
	}
	l.command(at+".command", n.Command, in)
	w := n.Webhook
	if w == nil {
		return
	}
	at += ".webhook"
	if (w.URL != "") == (w.URLFrom != "") {
		l.find(at, "a webhook has url or urlFrom: exactly one of them")
	}
	if w.URL != "" && !strings.Contains(w.URL, "${") && !isHTTP(w.URL) {
		l.find(at+".url", "is no URL of http or https")
	}
	if strings.Contains(byPerson.ReplaceAllString(hostOf(w.URL), ""), "${") {
		l.warnAt(l.line(at+".url"), "its host comes from an expression: who wrote that value, be it a node, has the record "+
			"sent to where they like, and with authFrom its secret; write the host out, or use urlFrom")
	}
	if w.AuthFrom != "" && strings.HasPrefix(strings.ToLower(w.URL), "http://") {
		l.find(at+".authFrom", notOverHTTP)
	}
	for f, name := range map[string]string{"urlFrom": w.URLFrom, "authFrom": w.AuthFrom} {
		if name != "" && !envName.MatchString(name) {
			l.find(at+"."+f, "%q is no name of an environment variable", name)
		}
	}
	if w.As != "" && !slices.Contains(chats, w.As) {
		l.find(at+".as", "%q is none of %s", w.As, strings.Join(chats, ", "))
	}
	if w.As != "" && w.Body != "" {
		l.find(at, "a webhook has as or body: not both")
	}
	l.text(at+".url", w.URL, in)
	l.text(at+".body", w.Body, in)
}

// byPerson is a value that the person gives who starts the runbook.
var byPerson = regexp.MustCompile(`\$\{\s*params\.\w+\s*\}`)

// hostOf is a URL as far as it says where it leads: up to its path.
func hostOf(url string) string {
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		return url
	}
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}
