// Package felix queries the health endpoint of Felix, Calico's agent on the node. It also parses the table of
// components in the answer. It does not evaluate the answer.
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

// Component is one row of the table that Felix's answer contains since v3.23. An empty cell is "-".
type Component struct {
	Name    string `json:"name"`    // FelixStartup, CalculationGraph, InternalDataplaneMainLoop, ...
	Timeout string `json:"timeout"` // maximum age of a report: "1m30s"
	Live    string `json:"live"`    // "reporting live", "reporting non-live", "timed out"
	Ready   string `json:"ready"`   // "reporting ready", "reporting non-ready", "timed out"
	Detail  string `json:"detail,omitempty"`
}

// Answer is the answer from a health endpoint.
type Answer struct {
	Code       int
	Body       string // at most 16 KiB
	Components []Component
}

// Good reports whether the status code means success. Since v3.23, that is 200 with a table.
// Before, it was 204 without a body.
func (a *Answer) Good() bool { return a.Code == http.StatusOK || a.Code == http.StatusNoContent }

// FromFelix reports whether Felix sent the answer. Another program may be using the port.
func (a *Answer) FromFelix() bool {
	switch a.Code {
	case http.StatusOK, http.StatusServiceUnavailable:
		return len(a.Components) > 0 || strings.TrimSpace(a.Body) == ""
	case http.StatusNoContent:
		return true
	}
	return false
}

// maxBody is the maximum number of bytes of an answer to read.
const maxBody = 16 << 10

// Get requests path ("/liveness", "/readiness") from addr. It does not use proxies or follow redirects.
func Get(ctx context.Context, addr netip.AddrPort, path string) (*Answer, error) {
	page, err := httpget.Get(ctx, "http://"+addr.String()+path, httpget.Options{Most: maxBody})
	if err != nil {
		return nil, err
	}
	return &Answer{Code: page.Code, Body: string(page.Body), Components: parseTable(page.Body)}, nil
}

// parseTable parses the table of components. It finds columns by their headings, so borders, widths and letter
// case may change. Without a table, it returns nothing.
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

// cellsOf splits a row at its separators, which are ASCII or box-drawing characters.
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
