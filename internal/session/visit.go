package session

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// visit goes to a node. It uses the node's existing probe, or places a new one.
func (c *Session) visit(ctx context.Context, node string) error {
	node, err := c.meant(node)
	if err != nil {
		return err
	}
	var s *nodeSession
	i := slices.IndexFunc(c.nodes, func(s *nodeSession) bool { return s.opts.Node == node })
	if i >= 0 {
		if s = c.nodes[i]; s.session != nil || s.lost {
			c.at = s
			return nil
		}
	} else {
		if s, err = c.fresh(ctx, node); err != nil {
			return err
		}
	}
	_, snap, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	var why []probe.Event
	s.sink = report.SinkFunc(func(ev probe.Event) error {
		c.record(s, ev)
		why = append(why, ev)
		return nil
	})
	run, err := examine.New(s.client, s.asking(nil), s.sink)
	if err != nil {
		return err
	}
	if err := s.place(ctx, run, snap); err != nil {
		return err
	}
	switch {
	case s.session != nil:
		at, err := s.client.ClusterOf(s.opts)
		if err != nil {
			return err
		}
		s.client.Progress("a probe is on %s, via %s: %s", report.Head(node, at, time.Time{}), s.method,
			strings.Join(s.session.Created(), ", "))
	case ctx.Err() != nil: // the previous node is still the current node
		return context.Cause(ctx)
	default:
		rows := rowsOf(c.stderr, s)
		for _, ev := range why {
			if err := rows.Event(ev); err != nil {
				return err
			}
		}
	}
	if i < 0 {
		c.nodes = append(c.nodes, s)
	}
	c.at = s
	return nil
}

// fresh returns a session for a node without a probe. If this node exceeds the limit, it asks for consent.
func (c *Session) fresh(ctx context.Context, node string) (*nodeSession, error) {
	if err := c.client.Agree(ctx, c.placed()+1); err != nil {
		return nil, err
	}
	own := c.opts.Run
	own.Node, own.Checks = node, nil // --checks is about one run
	s, err := newNodeSession(c.client, own)
	if err != nil {
		return nil, err
	}
	s.debugProfile = c.opts.DebugProfile
	return s, nil
}

// placed returns the number of nodes with a probe from this session.
func (c *Session) placed() int {
	n := 0
	for _, s := range c.nodes {
		if s.session != nil {
			n++
		}
	}
	return n
}

// meant returns the node with this name, or the only node whose name contains this text. If no node matches, it returns
// the text, and the API will reject it.
func (c *Session) meant(typed string) (string, error) {
	if c.at == nil || c.at.snap == nil {
		return typed, nil
	}
	var within []string
	for _, n := range c.at.snap.Nodes {
		if n.Name == typed {
			return typed, nil
		}
		if strings.Contains(n.Name, typed) {
			within = append(within, n.Name)
		}
	}
	switch {
	case len(within) == 1:
		return within[0], nil
	case len(within) > 5:
		return "", prompt.Usagef("%q matches %d nodes: %s, ...", typed, len(within), strings.Join(within[:5], ", "))
	case len(within) > 1:
		return "", prompt.Usagef("%q matches %d nodes: %s", typed, len(within), strings.Join(within, ", "))
	}
	return typed, nil
}

// leave stops every probe in the session.
func (c *Session) leave() {
	if err := leaveAll(slices.Concat(c.toolboxes, c.nodes)); err != nil {
		ui.Say(c.stderr, "%v", err)
	}
	if c.log != nil {
		if err := c.log.Close(); err != nil {
			ui.Say(c.stderr, "the transcript: %v", err)
		}
	}
}

// rowsOf returns a sink that prints a row for each result about a node.
func rowsOf(w io.Writer, s *nodeSession) report.Sink {
	rows := report.Rows(w, ui.Colourful(w))
	return report.SinkFunc(func(ev probe.Event) error {
		if ev.Result == nil || ev.Node != s.opts.Node {
			return nil
		}
		return rows.Event(ev)
	})
}
