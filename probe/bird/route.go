package bird

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
)

// Route is one path in BIRD's own table. The kernel might not have it.
type Route struct {
	Prefix   netip.Prefix
	Protocol string // the protocol from which BIRD got it: "Mesh_10_0_0_2", "static1", "kernel1"
	Best     bool
	// Unreachable means that BIRD cannot resolve the next hop. BIRD then exports no usable route to the kernel.
	Unreachable bool
}

// Routes queries BIRD's paths to exactly this prefix. A missing path is not an error.
func (c *Conn) Routes(prefix netip.Prefix) ([]Route, error) {
	lines, err := c.Ask("show route " + prefix.String())
	if refused := (*RefusedError)(nil); errors.As(err, &refused) && refused.Line.Code == codeNoRoute {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ParseRoutes(lines), nil
}

// ParseRoutes parses a reply to "show route". Lines for further paths to the same prefix begin with blanks. In BIRD 2,
// lines for next hops also begin with blanks, but contain no protocol.
func ParseRoutes(lines []Line) []Route {
	var out []Route
	var prefix netip.Prefix
	for _, l := range lines {
		if l.Code != codeRoute {
			continue
		}
		head, rest, ok := strings.Cut(l.Text, "[")
		if !ok {
			continue
		}
		f := strings.Fields(head)
		if len(f) > 0 && head[0] != ' ' && head[0] != '\t' {
			p, err := netip.ParsePrefix(f[0])
			if err != nil {
				continue
			}
			prefix = p
		}
		inside, after, ok := strings.Cut(rest, "]")
		name := strings.Fields(inside) // "Mesh_10_0_0_2 02:11:29 from 10.0.0.2"
		if !ok || len(name) == 0 || !prefix.IsValid() {
			continue
		}
		out = append(out, Route{
			Prefix: prefix, Protocol: name[0], Best: strings.HasPrefix(strings.TrimSpace(after), "*"),
			Unreachable: slices.Contains(f, "unreachable"),
		})
	}
	return out
}
