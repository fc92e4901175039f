package bird

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Protocol is one row of "show protocols all", with its details. Fields that BIRD does not print are empty.
type Protocol struct {
	Name  string // "Mesh_10_0_0_2", "kernel1"
	Proto string // "BGP", "Kernel", "Static", ...
	State string // up, start, wait, feed, down, stop, flush
	Since string // as BIRD prints it: "03:52:01", "2026-11-21", "2026-11-21 03:52:01"
	Info  string // BGP only: "Established", "Active Socket: Connection refused"

	Neighbor   netip.Addr
	NeighborAS string
	Source     netip.Addr // the address that this side uses
	BGP        string     // Idle, Connect, Active, OpenSent, OpenConfirm, Established, Close, Passive, Down
	LastError  string     // also kept in Idle and Active: the best single diagnostic
	Imported   int        // number of routes accepted from the peer
	Exported   int        // number of routes sent to the peer
	Received   int        // number of routes that the peer has sent in this session, whether accepted or not
	// Hold is the maximum time that the peer may be silent before the session ends. HoldLeft is the remaining time.
	// Both are zero if BIRD does not report them.
	Hold, HoldLeft time.Duration
	// Recovery is the protocol's role in a graceful restart. A "pending" protocol delays routes, a
	// "waiting" protocol is delayed, and "" means no role.
	Recovery string

	Details []string // the detail lines as BIRD prints them; none if BIRD sent only the row
}

// maxHold is the longest possible hold time in seconds (RFC 4271: two bytes).
const maxHold = 65535

// Established reports whether the session is up. Like calico-node's readiness probe, it checks the
// first word of the row.
func (p *Protocol) Established() bool { return p.BGP == "Established" }

// Protocols queries all protocols in the same way as calico-node, and then queries the details. If BIRD is too busy
// to send the long second answer, Protocols returns the rows from the first answer.
func (c *Conn) Protocols() ([]Protocol, error) {
	rows, err := c.Ask("show protocols")
	if err != nil {
		return nil, err
	}
	detailed, err := c.Ask("show protocols all")
	if err != nil {
		return ParseProtocols(rows), nil
	}
	return ParseProtocols(detailed), nil
}

// ParseProtocols parses a reply to "show protocols" or "show protocols all".
func ParseProtocols(lines []Line) []Protocol {
	var out []Protocol
	for _, l := range lines {
		switch {
		case l.Code == codeRow:
			if p, ok := row(l.Text); ok {
				out = append(out, p)
			}
		case l.Code == codeDetail && len(out) > 0 && strings.TrimSpace(l.Text) != "":
			p := &out[len(out)-1]
			p.Details = append(p.Details, l.Text)
			p.detail(strings.TrimSpace(l.Text))
		}
	}
	return out
}

// row splits the line at blanks, because a long name shifts the columns to the right.
func row(text string) (Protocol, bool) {
	f := strings.Fields(text)
	if len(f) < 4 {
		return Protocol{}, false
	}
	p := Protocol{Name: f[0], Proto: f[1], State: f[3]}
	rest := f[4:]
	if len(rest) > 0 {
		p.Since, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 && len(p.Since) == len("2006-01-02") && strings.Count(p.Since, "-") == 2 &&
		strings.Count(rest[0], ":") == 2 {
		p.Since, rest = p.Since+" "+rest[0], rest[1:]
	}
	p.Info = strings.Join(rest, " ")
	if p.Proto == "BGP" && len(rest) > 0 {
		p.BGP = rest[0]
		p.Neighbor = addressIn(p.Name)
	}
	return p, true
}

// addressIn parses the peer's address from a name that Calico generated: Mesh_10_0_0_2,
// Global_fd00__2, Node_10_0_0_2_port_179.
func addressIn(name string) netip.Addr {
	_, tail, ok := strings.Cut(name, "_")
	if !ok {
		return netip.Addr{}
	}
	tail, _, _ = strings.Cut(tail, "_port_")
	for _, sep := range []string{".", ":"} {
		if a, err := netip.ParseAddr(strings.ReplaceAll(tail, "_", sep)); err == nil {
			return a
		}
	}
	return netip.Addr{}
}

func (p *Protocol) detail(text string) {
	key, value, ok := strings.Cut(text, ":")
	value = strings.TrimSpace(value)
	if !ok {
		return
	}
	switch key {
	case "Neighbor address":
		if a, err := netip.ParseAddr(value); err == nil {
			p.Neighbor = a
		}
	case "Source address":
		if a, err := netip.ParseAddr(value); err == nil {
			p.Source = a
		}
	case "Neighbor AS":
		p.NeighborAS = value
	case "BGP state":
		p.BGP = value
	case "Last error":
		p.LastError = value
	case "Hold timer": // 221/240, with thousandths in BIRD 2
		left, whole, _ := strings.Cut(value, "/")
		l, err := strconv.ParseFloat(left, 64)
		h, err2 := strconv.Atoi(whole)
		if err == nil && err2 == nil && l >= 0 && l <= float64(h) && h <= maxHold {
			p.Hold, p.HoldLeft = time.Duration(h)*time.Second, time.Duration(l*float64(time.Second))
		}
	case "Import updates": // received, rejected, filtered, ignored, accepted; in BIRD 2, for each channel
		if f := strings.Fields(value); len(f) > 0 {
			if n, err := strconv.Atoi(f[0]); err == nil {
				p.Received += n
			}
		}
	case "GR recovery": // for each channel in BIRD 2
		if p.Recovery != "pending" {
			p.Recovery = value
		}
	case "Routes": // "2 imported, 0 filtered, 1 exported, 2 preferred"
		for part := range strings.SplitSeq(value, ",") {
			f := strings.Fields(part)
			if len(f) != 2 {
				continue
			}
			n, err := strconv.Atoi(f[0])
			switch {
			case err != nil:
			case f[1] == "imported":
				p.Imported += n
			case f[1] == "exported":
				p.Exported += n
			}
		}
	}
}

// Age returns the time since Since. It uses the daemon's own clock (Status.ServerTime). It returns false if a time
// cannot be parsed. BIRD prints the time of day for recent changes, and the date for older ones.
func Age(since, serverTime string) (time.Duration, bool) {
	now, err := time.Parse("2006-01-02 15:04:05", serverTime)
	if err != nil {
		return 0, false
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, since); err == nil {
			return now.Sub(t), true
		}
	}
	t, err := time.Parse("15:04:05", since)
	if err != nil {
		return 0, false
	}
	at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	if at.After(now) {
		at = at.AddDate(0, 0, -1)
	}
	return now.Sub(at), true
}
