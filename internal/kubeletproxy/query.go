package kubeletproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/journal"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// queryGroups are units that are queried together. In each line, a later group is queried only if the earlier group
// returned nothing, because the kubelet starts journalctl twice for each query.
var queryGroups = [][][]string{
	{{"kubelet"}, {"k3s", "k3s-agent", "rke2-server", "rke2-agent"}},
	{{"containerd"}, {"docker", "crio"}},
	{{"kube-proxy"}},
}

// OffersLogs returns why the kubelet does not serve the files below /var/log, and why it does not serve the journal's
// lines. If it serves them, the error is nil.
func (k *Kubelet) OffersLogs(ctx context.Context) (files, lines error) {
	far := &kubeletLogs{k, ctx}
	if _, files = far.ReadDir(logs.LogPlaces[0]); files != nil {
		return files, files
	}
	_, lines = far.Journal(ctx, journal.Want{Units: logs.Services[0].Units, Since: time.Now().Add(-logs.ServiceSince),
		Most: 1})
	return files, lines
}

// Journal queries the kubelet for lines of the journal with node log query (kubernetes,
// pkg/kubelet/kubelet_server_journal.go). Kubernetes 1.27 and later have it, if the kubelet's configuration enables it.
// The error wraps probe.ErrNotVisible if this kubelet or node has no such lines.
func (l *kubeletLogs) Journal(ctx context.Context, want journal.Want) ([]journal.Entry, error) {
	out := []journal.Entry{}
	answered := false
	for _, groups := range queryGroups {
		for _, names := range groups {
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				return !slices.Contains(want.Units, name+".service")
			})
			if len(names) == 0 {
				continue
			}
			found, err := l.units(ctx, names, want)
			if errors.Is(err, errNoJournal) {
				continue // the line may belong to another service
			}
			if err != nil {
				return nil, err
			}
			answered, out = true, append(out, found...)
			if len(found) > 0 {
				break
			}
		}
	}
	if !answered {
		return nil, errNoJournal
	}
	slices.SortStableFunc(out, func(a, b journal.Entry) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// errNoJournal is the error for a node whose journal has no such services.
var errNoJournal = fmt.Errorf("the kubelet's journalctl finds no such service in the journal: %w", probe.ErrNotVisible)

// unresolved matches the end of the answer to a query for a service without a journal.
var unresolved = regexp.MustCompile(`(?m)^options present and query resolved to log files for \[`)

// units returns the lines of some services.
func (l *kubeletLogs) units(ctx context.Context, names []string, want journal.Want) ([]journal.Entry, error) {
	l = &kubeletLogs{l.Kubelet, ctx}
	text, err := l.unit(names, want.Most)
	if err != nil {
		return nil, err
	}
	out := entriesOf(text, names, time.Now().UTC())
	if len(out) == 0 && unresolved.MatchString(text) {
		return nil, errNoJournal
	}
	return slices.DeleteFunc(out, func(e journal.Entry) bool { return e.Time.Before(want.Since) }), nil
}

// unit returns the last lines of services. The query does not have a start time: with a start time, journalctl in
// systemd 252 returns the first lines after that time instead of the last lines.
func (l *kubeletLogs) unit(names []string, most int) (string, error) {
	query := url.Values{"query": names, "tailLines": {fmt.Sprint(most)}}
	a, err := l.get(l.ctx, "/logs/?"+query.Encode(), "", maxText)
	switch {
	case err != nil:
		return "", err
	case isListing(a): // a kubelet without node log query lists /var/log
		return "", fmt.Errorf("node log query is off on this kubelet (enableSystemLogQuery, Kubernetes 1.27 and later): %w",
			probe.ErrNotVisible)
	case a.code != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain"):
		return "", errors.New("the kubelet did not answer the node log query with log lines")
	case a.cut:
		text, _, _ := cutLast(string(a.body), "\n")
		return text, nil
	}
	return string(a.body), nil
}

// cutLast cuts a text at the last of some separators.
func cutLast(text, at string) (before, after string, found bool) {
	i := strings.LastIndex(text, at)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(at):], true
}

// preciseLine matches a line of journalctl --utc --output=short-precise: time, host, program, PID, text.
var preciseLine = regexp.MustCompile(`^([A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d\.\d{6}) \S+ ([^\s\[\]]+)\[(\d{1,10})\]: (.*)$`)

// entriesOf parses journal lines, which have no year, and keeps the lines of these services.
func entriesOf(text string, names []string, now time.Time) []journal.Entry {
	var out []journal.Entry
	for line := range strings.Lines(text) {
		m := preciseLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue // the line continues the previous line, or is from journalctl
		}
		at, err := time.Parse("2006 Jan 02 15:04:05.000000", fmt.Sprint(now.Year(), " ", m[1]))
		if err != nil {
			continue
		}
		if at.Sub(now) > 24*time.Hour {
			at = at.AddDate(-1, 0, 0)
		}
		e := journal.Entry{Time: at, PID: m[3], Text: m[4], About: m[2] == "systemd" && m[3] == "1"}
		e.Unit = unitIn(e, m[2], names)
		out = append(out, e)
	}
	return out
}

// unitIn returns the service of a line: the only service in the query, otherwise the service that wrote the line,
// otherwise the first service that systemd names in the line.
func unitIn(e journal.Entry, by string, names []string) string {
	if len(names) == 1 {
		return names[0] + ".service"
	}
	if unit := logs.UnitOf[by]; unit != "" && !e.About {
		return unit
	}
	for _, word := range strings.FieldsFunc(e.Text, func(r rune) bool { return r == ' ' || r == ':' }) {
		if name, ok := strings.CutSuffix(word, ".service"); ok && slices.Contains(names, name) {
			return word
		}
	}
	return ""
}
