// Command mutants takes the promises of docs/security.md back, one after the other, and runs the test that must notice.
//
//	go run ./test/e2e/mutants unit               mutants that unit tests hold
//	go run ./test/e2e/mutants -match '^P12 ' e2e mutants that need root, most of them a cluster: all of row P12
//
//	mutants.txtar --parse--> mutant --apply--> one changed file --go test--> killed, or why not
//
// The working tree does not change: unit tests are built with an overlay, the client and the probe in a copy. A mutant
// counts as killed when its test passes without it, and runs and fails with it. One that does not compile does not
// count, nor does one whose test did not run or timed out.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/tools/txtar"
)

//go:embed mutants.txtar
var archive []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	match := flag.String("match", "", "run only mutants whose name matches this regular expression")
	flag.Parse()
	if err := run(ctx, os.Stdout, flag.Arg(0), *match); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// The lanes: what needs neither root nor a cluster, and the rest.
const (
	laneUnit = "unit"
	laneE2E  = "e2e"
)

// run runs the mutants of a lane and prints a line for each.
func run(ctx context.Context, out io.Writer, lane, match string) error {
	if lane != laneUnit && lane != laneE2E {
		return fmt.Errorf("name a lane: %s or %s", laneUnit, laneE2E)
	}
	wanted, err := regexp.Compile(match)
	if err != nil {
		return fmt.Errorf("-match: %w", err)
	}
	all, err := parse(archive)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return m.lane != lane || !wanted.MatchString(m.name) })
	if len(all) == 0 {
		return fmt.Errorf("no mutant of lane %s matches %q", lane, match)
	}
	scratch, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // what stays is in the folder for temporary files
	alive := runAll(ctx, out, all, scratch)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if alive > 0 {
		return fmt.Errorf("%d of %d mutants not killed", alive, len(all))
	}
	fmt.Fprintf(out, "%d mutants killed\n", len(all))
	return nil
}

// runAll prints a line for each mutant with its test's message, and returns the number of survivors. Clusters run one
// at a time.
func runAll(ctx context.Context, out io.Writer, all []mutant, scratch string) (alive int) {
	turns := make(chan struct{}, runtime.NumCPU())
	if all[0].lane == laneE2E {
		turns = make(chan struct{}, 1)
	}
	broken := control(ctx, all)
	var mu sync.Mutex
	var running sync.WaitGroup
	for i, m := range all {
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			began := time.Now()
			killed, why := false, broken[[2]string{m.pkg, m.test}]
			if why == "" {
				killed, why = m.run(ctx, filepath.Join(scratch, fmt.Sprint(i)))
			}
			mu.Lock()
			defer mu.Unlock()
			word := "killed"
			if !killed {
				word = "ALIVE"
				alive++
			}
			fmt.Fprintf(out, "%-6s  %s  [%s, %v]: %s\n", word, m.name, m.test, time.Since(began).Round(time.Second), why)
		})
	}
	running.Wait()
	return alive
}

// mutant is a promise that is taken back: in one file, texts that occur once are replaced.
type mutant struct {
	name      string // begins with the row's number: "P14 ..."
	lane      string
	pkg, test string
	file      string
	old, new  []string
}

// parse reads the mutants of an archive.
func parse(b []byte) ([]mutant, error) {
	var out []mutant
	for _, section := range txtar.Parse(b).Files {
		m, err := parseOne(section.Name, string(section.Data))
		if err != nil {
			return nil, fmt.Errorf("mutant %q: %w", section.Name, err)
		}
		out = append(out, m)
	}
	return out, nil
}

func parseOne(name, text string) (mutant, error) {
	head, rest, _ := strings.Cut(text, "\n")
	file, rest, _ := strings.Cut(rest, "\n")
	words := strings.Fields(head)
	if len(words) != 3 || words[0] != laneUnit && words[0] != laneE2E {
		return mutant{}, fmt.Errorf("%q is not LANE PACKAGE TEST", head)
	}
	m := mutant{name: name, lane: words[0], pkg: words[1], test: words[2], file: file}
	for hunk := range strings.SplitSeq(rest, "@@\n") {
		before, after := "", ""
		for line := range strings.Lines(hunk) {
			switch mark, code := line[0], line[1:]; mark {
			case '-':
				before += code
			case '+':
				after += code
			case ' ':
				before, after = before+code, after+code
			default:
				return mutant{}, fmt.Errorf("line %q begins with none of - + and a space", line)
			}
		}
		m.old, m.new = append(m.old, before), append(m.new, after)
	}
	return m, nil
}

// apply returns the mutated source.
func (m mutant) apply(source string) (string, error) {
	for i, old := range m.old {
		if n := places("\n"+source, "\n"+old); n != 1 || old == "" {
			return "", fmt.Errorf("%s has the text of place %d %d times, not once: update the mutant", m.file, i+1, n)
		}
		source = strings.Replace("\n"+source, "\n"+old, "\n"+m.new[i], 1)[1:]
	}
	return source, nil
}

// places counts the occurrences of one text in another, including those that share a line break.
func places(text, part string) (n int) {
	for i := strings.Index(text, part); i >= 0; i = strings.Index(text, part) {
		n, text = n+1, text[i+1:]
	}
	return n
}
