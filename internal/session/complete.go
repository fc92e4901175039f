package session

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/probe"
)

// Tab waits only briefly. If an answer arrives later, the next Tab uses it.
const (
	tabWaits = 300 * time.Millisecond
	knownFor = 15 * time.Second
)

// known caches the answers of tools for Tab.
type known struct {
	mu      sync.Mutex
	words   map[string]words // by node and tool
	running chan struct{}    // closed when the probe has answered; nil = no request yet
	stop    func()           // cancels that request
	crash   error            // a crash of that request, until a command reports it
}

type words struct {
	first, second []string // the first and second words of each line; "" = the line has none
	at            time.Time
}

// completed sets the completion of each command's arguments. It also changes each command to cancel a pending
// completion request first, because a probe answers one request at a time.
func (c *Session) completed(all []*prompt.Command) []*prompt.Command {
	for _, command := range all {
		own := command.Complete
		command.Complete = func(ctx context.Context, before []string) []string {
			if own != nil {
				if out := own(ctx, before); out != nil {
					return out
				}
			}
			return c.suggest(ctx, command.Name, before)
		}
		run := command.Run
		command.Run = func(ctx context.Context, call *prompt.Call) error {
			if err := c.known.end(ctx); err != nil {
				return err
			}
			if crash := c.known.takeCrash(); crash != nil { // not while the user types
				c.client.Note("completion with Tab %v", crash)
			}
			return run(ctx, call)
		}
	}
	return all
}

func (k *known) setCrash(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.crash = err
}

// takeCrash returns the crash of an earlier query for Tab. It returns each crash only once.
func (k *known) takeCrash() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	crash := k.crash
	k.crash = nil
	return crash
}

// end cancels the pending request for Tab.
func (k *known) end(ctx context.Context) error {
	k.mu.Lock()
	running, stop := k.running, k.stop
	k.mu.Unlock()
	if running == nil {
		return nil
	}
	stop()
	select {
	case <-running:
		return nil
	case <-ctx.Done(): // the request could not even be sent
		return fmt.Errorf("the connection to the probe accepts no input: %w", context.Cause(ctx))
	}
}

// suggest returns the possible next words of a command. It uses the tools' names even if this node's probe does not
// have the tool.
func (c *Session) suggest(ctx context.Context, command string, before []string) []string {
	first := len(before) == 0
	last := ""
	if !first {
		last = before[len(before)-1]
	}
	switch {
	case (command == "node" || command == "diff") && first, command == "diff" && last == "with":
		return c.otherNodes()
	case command == "ping":
		return append(c.otherNodes(), c.addresses()...)
	case command == "dial":
		return c.endpoints()
	case command == "dns" && first:
		return c.names()
	case (command == "route" || command == "neigh") && last == "dev", command == "links" && first:
		return c.said(ctx, "links").first
	case command == "route" && first:
		return []string{"get", "show", "dev"}
	case command == "route" && last == "get":
		return c.addresses()
	case command == "neigh" && first:
		return append(c.addresses(), "dev", "failed", "incomplete", "stale", "reachable", "permanent")
	case command == "logs":
		said := c.said(ctx, "ps")
		out := slices.Clone(said.second)
		for i, pod := range said.first {
			if said.second[i] != "" {
				out = append(out, pod+"/"+said.second[i])
			}
		}
		return out
	case command == "ps":
		return append(c.pods(), "pods", "images")
	case command == "in" && len(before) > 1:
		return c.suggest(ctx, before[1], before[2:])
	case command == "bird":
		return c.bird(before)
	}
	return nil
}

func (c *Session) bird(before []string) []string {
	if len(before) > 0 && before[0] == "-6" {
		before = before[1:]
	}
	switch {
	case len(before) == 0:
		return []string{"show", "-6"}
	case len(before) == 1:
		return []string{"status", "protocols", "route", "interfaces", "memory", "symbols", "ospf", "bfd", "static"}
	case before[1] == "route" && len(before) == 2:
		return []string{"for", "all", "protocol", "export", "count", "where", "primary", "table"}
	case before[1] == "route" && before[len(before)-1] == "for":
		return c.addresses()
	case before[1] == "protocols" && len(before) == 2:
		return []string{"all"}
	}
	return nil
}

// snapshot returns the latest snapshot of the current node, or nil if none was read.
func (c *Session) snapshot() *cluster.Snapshot {
	if c.at == nil {
		return nil
	}
	return c.at.snap
}

func (c *Session) otherNodes() []string {
	var out []string
	if snap := c.snapshot(); snap != nil {
		for _, n := range snap.Nodes {
			if n.Name != c.at.opts.Node {
				out = append(out, n.Name)
			}
		}
	}
	return out
}

// targets returns the targets of a run from this node.
func (c *Session) targets() []probe.Target {
	snap := c.snapshot()
	if snap == nil {
		return nil
	}
	targets, _ := cluster.Targets(snap)
	return targets
}

// addresses returns the targets' addresses, each with its owner.
func (c *Session) addresses() []string {
	return c.described(func(t probe.Target) string {
		if !t.Addr.IsValid() {
			return ""
		}
		return t.Addr.String()
	})
}

// endpoints returns the targets' addresses with ports, each with its owner.
func (c *Session) endpoints() []string {
	return c.described(func(t probe.Target) string {
		if !t.Addr.IsValid() || t.Port == 0 {
			return ""
		}
		return net.JoinHostPort(t.Addr.String(), strconv.Itoa(t.Port))
	})
}

// described returns each non-empty text of the targets once, followed by a tab and the names of the targets with that
// text. prompt.Command shows the part after the tab as a description.
func (c *Session) described(text func(probe.Target) string) []string {
	var texts []string
	names := map[string][]string{}
	for _, t := range c.targets() {
		one := text(t)
		if one == "" {
			continue
		}
		if names[one] == nil {
			texts = append(texts, one)
		}
		if name := ownerOf(t); !slices.Contains(names[one], name) {
			names[one] = append(names[one], name)
		}
	}
	for i, one := range texts {
		texts[i] += "\t" + strings.Join(names[one], ", ")
	}
	return texts
}

// ownerOf describes the owner of an address.
func ownerOf(t probe.Target) string {
	switch t.Kind {
	case probe.KindBlock, probe.KindEncap, probe.KindSession:
		return cmp.Or(t.Node, t.Name)
	case probe.KindTunnel:
		return "tunnel of " + t.Node
	case probe.KindDatastore:
		return "datastore " + t.Name
	case probe.KindDNS:
		return "DNS " + t.Name
	case probe.KindTypha:
		return "Typha " + t.Name
	}
	return t.Name
}

func (c *Session) names() []string {
	out := []string{"kubernetes.default.svc.cluster.local"}
	for _, t := range c.targets() {
		if t.Host != "" {
			out = append(out, t.Host)
		}
	}
	return out
}

// pods returns the pods on the node, from the API.
func (c *Session) pods() []string {
	var out []string
	for _, t := range c.targets() {
		if t.Kind == probe.KindLocal {
			out = append(out, t.Name)
		}
	}
	if snap := c.snapshot(); snap != nil && snap.Calico.Value != nil {
		out = append(out, snap.Calico.Value.Namespace+"/"+snap.Calico.Value.Name)
	}
	return out
}

// said returns a tool's output on the node, without arguments. It runs the tool again if the output is old. If the tool
// takes too long, it returns the old output.
func (c *Session) said(ctx context.Context, tool string) words {
	s, k := c.at, &c.known
	if s == nil || s.session == nil || !slices.Contains(s.tools, tool) {
		return words{}
	}
	key := s.opts.Node + " " + tool
	k.mu.Lock()
	have, running := k.words[key], k.running
	if running != nil {
		select {
		case <-running:
			running = nil
		default:
		}
	}
	if running == nil && time.Since(have.at) > knownFor {
		var asking context.Context
		asking, k.stop = context.WithCancel(context.WithoutCancel(ctx))
		running = make(chan struct{})
		k.running = running
		session, done := s.session, running
		probe.Detach(func() error {
			defer close(done)
			k.ask(asking, session, key, tool) // if this fails, Tab offers fewer words
			return nil
		}, k.setCrash)
	}
	k.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
		case <-time.After(tabWaits):
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.words[key]
}

// offerable matches the usual names of containers and interfaces. Other names are not offered: containers and
// interfaces that were created without the kubelet may have any name, and the user's next Enter runs the completed
// text.
var offerable = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@%-]*$`)

// ask runs a tool until its deadline, the end of the session, or the end of ctx. The next request stops the tool and
// drops its remaining output.
func (k *known) ask(ctx context.Context, session *injector.Session, key, tool string) {
	var text strings.Builder
	call := probe.Call{Tool: tool}
	seal := call.Sealed()
	_, err := session.Send(context.WithoutCancel(ctx), probe.Request{Type: probe.RequestCall, Call: &call})
	for over := false; err == nil && !over; {
		var ev probe.Event
		ev, err = session.Next(ctx)
		over = ev.Type == probe.EventEnd
		if ev, err := seal.Open(ev); err == nil && ev.Type == probe.EventOut && text.Len() < maxSaid {
			text.Write(bytesOf(ev))
		}
	}
	if err != nil {
		return // the next command reports it
	}
	got := words{at: time.Now()}
	for line := range strings.Lines(text.String()) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.ToUpper(fields[0]) == fields[0] && strings.ToLower(fields[0]) != fields[0] {
			continue // a heading
		}
		first, second := strings.TrimSuffix(fields[0], ":"), ""
		if !offerable.MatchString(first) {
			continue
		}
		if len(fields) > 1 && offerable.MatchString(fields[1]) {
			second = fields[1]
		}
		got.first, got.second = append(got.first, first), append(got.second, second)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.words == nil {
		k.words = map[string]words{}
	}
	k.words[key] = got
}

// maxSaid is the maximum number of bytes of a tool's output to keep for Tab.
const maxSaid = 1 << 20

// bytesOf returns the bytes that a tool wrote.
func bytesOf(ev probe.Event) []byte {
	if ev.Data != nil {
		return ev.Data
	}
	return []byte(ev.Text)
}
