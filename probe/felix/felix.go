// Package felix queries the health endpoint of Felix, Calico's agent on the node, and parses its table of components.
// It does not judge the answer.
//
//	answer, err := felix.Get(ctx, netip.MustParseAddrPort("127.0.0.1:9099"), "/liveness")
//	if !answer.FromFelix() { ... } // another program holds the port
package felix

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/calico-probe/calico-probe/probe/httpget"
)

// Felix's default health port and host (felix/config in Calico).
const (
	DefaultHost = "localhost"
	DefaultPort = 9099
)

// Component is one row of the table in Felix's answer, since v3.23. An empty cell is "-".
type Component struct {
	Name    string `json:"name"`    // FelixStartup, CalculationGraph, InternalDataplaneMainLoop, ...
	Timeout string `json:"timeout"` // the maximum age of a report: "1m30s"
	Live    string `json:"live"`    // "reporting live", "reporting non-live", "timed out"
	Ready   string `json:"ready"`   // "reporting ready", "reporting non-ready", "timed out"
	Detail  string `json:"detail,omitempty"`
}

// Answer is the answer of a health endpoint.
type Answer struct {
	Code       int
	Body       string // at most 16 KiB
	Components []Component
}

// Good reports whether Felix's code means success: 200 with a table since v3.23, 204 without a body before.
func (a *Answer) Good() bool { return a.Code == http.StatusOK || a.Code == http.StatusNoContent }

// FromFelix reports whether Felix sent the answer, and not another program on the port.
func (a *Answer) FromFelix() bool {
	switch a.Code {
	case http.StatusOK, http.StatusServiceUnavailable:
		return len(a.Components) > 0 || strings.TrimSpace(a.Body) == ""
	case http.StatusNoContent:
		return true
	}
	return false
}

// maxBody bounds how much of an answer is read.
const maxBody = 16 << 10

// Get requests path ("/liveness", "/readiness") from addr. It does not follow proxies or redirects.
func Get(ctx context.Context, addr netip.AddrPort, path string) (*Answer, error) {
	page, err := httpget.Get(ctx, "http://"+addr.String()+path, httpget.Options{Most: maxBody})
	if err != nil {
		return nil, err
	}
	return &Answer{Code: page.Code, Body: string(page.Body), Components: parseTable(page.Body)}, nil
}

// parseTable parses the table of components. It finds columns by their headings, so borders, widths and case may
// change. Without a table it returns nothing.
func parseTable(body []byte) []Component {
	var heads []string
	var out []Component
	for raw := range bytes.Lines(body) {
		cells := cellsOf(string(raw))
		switch {
		case len(cells) < 4:
		case heads == nil:
			if strings.EqualFold(cells[0], "component") {
				heads = cells
			}
		case len(cells) == len(heads) && cells[0] != "":
			var c Component
			for i, head := range heads {
				switch strings.ToUpper(head) {
				case "COMPONENT":
					c.Name = cells[i]
				case "TIMEOUT":
					c.Timeout = cells[i]
				case "LIVENESS":
					c.Live = cells[i]
				case "READINESS":
					c.Ready = cells[i]
				case "DETAIL":
					c.Detail = cells[i]
				}
			}
			out = append(out, c)
		}
	}
	return out
}

// cellsOf splits a row at its separators, ASCII or box-drawing.
func cellsOf(line string) []string {
	line = strings.TrimSpace(strings.ReplaceAll(line, "│", "|"))
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(line[1:], "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}
