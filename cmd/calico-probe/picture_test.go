package main

import (
	"fmt"
	"html"
	"os"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestDocsPicture compares the README's picture of a report with this version's output for docs/example.ndjson, a run
// on a real cluster. 'make docs' draws it.
func TestDocsPicture(t *testing.T) {
	const file, width = "../../docs/report.svg", 90
	exit, out, errs := call(t, "analyze", "../../docs/example.ndjson")
	if exit != 3 || !strings.Contains(out, "[address-second-nic IPv4, high confidence]\n") {
		t.Fatalf("exit %d: %s%s", exit, out, errs)
	}
	lines := []string{"$ calico-probe run node-b"}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		lines = append(lines, folded(line, width)...)
	}
	svg := drawn(lines, width)
	if *update {
		must.Do(t, os.WriteFile(file, []byte(svg), 0o644))
	}
	if is := read(t, file); is != svg {
		t.Error("docs/report.svg is not what the program prints: 'make docs' draws it")
	}
}

// folded wraps a command at blanks, and indents the rest.
func folded(line string, width int) []string {
	var out []string
	const indent = "                "
	for len([]rune(line)) > width {
		at := strings.LastIndexByte(string([]rune(line)[:width]), ' ')
		if at <= len(indent) {
			at = width - 1
			out, line = append(out, line[:at]+`\`), indent+line[at:]
			continue
		}
		out, line = append(out, line[:at]), indent+line[at+1:]
	}
	return append(out, line)
}

// drawn returns the text as a picture of a terminal.
func drawn(lines []string, width int) string {
	const across, down, edge = 7.4, 17, 14
	var b strings.Builder
	w, h := float64(width)*across+2*edge, len(lines)*down+2*edge
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" role="img">`+"\n", w, h, w)
	b.WriteString(`<title>The report of calico-probe on a node whose address Calico took from a second NIC</title>` + "\n")
	b.WriteString(`<rect width="100%" height="100%" rx="6" fill="#1b1f24"/>` + "\n")
	b.WriteString(`<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="12" ` +
		`fill="#d0d7de" xml:space="preserve">` + "\n")
	for i, line := range lines {
		colour := ""
		for word, is := range map[string]string{
			"node-b: ": "#ff7b72", "fault on ": "#ff7b72", "  [": "#ff7b72",
			"  check ": "#79c0ff", "  fix ": "#79c0ff", "$ ": "#8b949e",
		} {
			if strings.HasPrefix(line, word) {
				colour = fmt.Sprintf(` fill="%s"`, is)
			}
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d"%s>%s</text>`+"\n", edge, edge+(i+1)*down-4, colour, html.EscapeString(line))
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}
