// Command performance makes docs/performance.md of what 'make bench' prints: lines of Go's benchmark format on stdin,
// the page on stdout. A figure that is missing is an error.
package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"
)

func main() {
	if err := write(os.Stdout, os.Stdin, time.Now()); err != nil {
		fmt.Fprintf(os.Stderr, "performance: %v\n", err)
		os.Exit(1)
	}
}

//go:embed page.md.tmpl
var page string

// write writes the page of what a bench printed.
func write(to io.Writer, bench io.Reader, at time.Time) error {
	f, err := read(bench)
	if err != nil {
		return err
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"figure": f.figure, "times": f.times, "more": f.more, "cpu": func() string { return f.cpu },
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("page.md.tmpl: %w", err)
	}
	var out strings.Builder
	if err := t.Execute(&out, map[string]any{"Date": at.UTC().Format(time.DateOnly)}); err != nil {
		return fmt.Errorf("page.md.tmpl: %w", err)
	}
	_, err = io.WriteString(to, out.String())
	return err
}

// figures are values by the benchmark and the unit: "Run pod-quick-end-ms".
type figures struct {
	cpu    string
	values map[string]float64
}

// cores ends a benchmark's name in its line.
var cores = regexp.MustCompile(`-\d+$`)

func read(bench io.Reader) (figures, error) {
	f := figures{values: map[string]float64{}}
	lines := bufio.NewScanner(bench)
	for lines.Scan() {
		if cpu, is := strings.CutPrefix(lines.Text(), "cpu: "); is {
			f.cpu = cpu
		}
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := cores.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return f, fmt.Errorf("%s: %w", fields[0], err)
			}
			f.values[name+" "+fields[i+1]] = v
		}
	}
	return f, lines.Err()
}

func (f figures) value(name string) (float64, error) {
	v, ok := f.values[name]
	if !ok {
		return 0, fmt.Errorf("the bench has no %q", name)
	}
	return v, nil
}

// figure is a value with three digits, and as many zeros as it takes.
func (f figures) figure(name string) (string, error) {
	v, err := f.value(name)
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v), err
	case v >= 10:
		return fmt.Sprintf("%.1f", v), err
	}
	return fmt.Sprintf("%.2f", v), err
}

// times is how many times the second value the first is.
func (f figures) times(a, b string) (string, error) {
	x, err := f.value(a)
	if err != nil {
		return "", err
	}
	y, err := f.value(b)
	return fmt.Sprintf("%.2f", x/y), err
}

// more is by how much the first value, in milliseconds, is more than the second, in seconds.
func (f figures) more(a, b string) (string, error) {
	x, err := f.value(a)
	if err != nil {
		return "", err
	}
	y, err := f.value(b)
	return fmt.Sprintf("%.2f", (x-y)/1000), err
}
