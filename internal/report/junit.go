package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// The part of JUnit that all readers support: the elements of Jenkins' schema (junit-10.xsd in its xUnit plugin), in
// the schema's order. GitLab, GitHub's actions and Go's readers accept them.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Hostname   string          `xml:"hostname,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		Out        junitOut        `xml:"system-out"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name      string     `xml:"name,attr"`
		Classname string     `xml:"classname,attr"`
		Time      string     `xml:"time,attr"`
		Skipped   *junitText `xml:"skipped"`
		Error     *junitText `xml:"error"`
		Failure   *junitText `xml:"failure"`
		Out       *junitOut  `xml:"system-out"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",cdata"`
	}
	junitOut struct {
		Text string `xml:",cdata"` // printable characters only: encoding/xml does not check it
	}
)

// caseVerdict is the case for an unhealthy run without a bad check: the answer is missing, or only other nodes saw the
// fault.
const caseVerdict = "verdict"

func writeJUnit(w io.Writer, d Document) error { return writeJUnits(w, []Document{d}) }

// writeJUnits writes a suite for each node.
func writeJUnits(w io.Writer, all []Document) error {
	out := junitSuites{Name: "calico-probe"}
	var took time.Duration
	for _, d := range all {
		s := d.junitSuite()
		out.Suites = append(out.Suites, s)
		out.Tests, out.Failures, out.Errors = out.Tests+s.Tests, out.Failures+s.Failures, out.Errors+s.Errors
		took += d.Elapsed
	}
	out.Time = seconds(took)
	b, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(b)+"\n")
	return err
}

// junitSuite returns a suite with a case for each check and target. fail becomes a failure, unknown an error, skip
// skipped. A warning passes with a note, unless --fail-on is warn. Peers' answers about themselves do not become cases.
func (d Document) junitSuite() junitSuite {
	suite := junitSuite{
		Name: printable(d.Node), Hostname: printable(d.Node), Time: seconds(d.Elapsed),
		Cases: d.junitCases(), Out: junitOut{d.words()},
		Properties: []junitProperty{
			{"version", d.Version}, {"run", d.Run}, {"way", strings.Join(d.methods(), " ")}, {"verdict", d.Word},
		},
	}
	if c := d.Cluster; c != nil {
		if c.Context != "" {
			suite.Properties = append(suite.Properties, junitProperty{"context", c.Context})
		}
		suite.Properties = append(suite.Properties, junitProperty{"server", c.Server})
	}
	for i, c := range d.Causes {
		suite.Properties = append(suite.Properties, junitProperty{fmt.Sprintf("cause.%d", i+1),
			strings.TrimSpace(c.ID + " " + c.About)})
	}
	for i := range suite.Properties {
		suite.Properties[i].Value = printable(suite.Properties[i].Value)
	}
	if at := d.began(); !at.IsZero() {
		suite.Timestamp = at.UTC().Format("2006-01-02T15:04:05") // Ant's schema has no zone
	}
	count := func() {
		suite.Tests, suite.Failures, suite.Errors, suite.Skipped = len(suite.Cases), 0, 0, 0
		for _, c := range suite.Cases {
			switch {
			case c.Failure != nil:
				suite.Failures++
			case c.Error != nil:
				suite.Errors++
			case c.Skipped != nil:
				suite.Skipped++
			}
		}
	}
	if count(); d.Exit != ExitHealthy && suite.Failures+suite.Errors == 0 {
		c := junitCase{Name: caseVerdict, Classname: suite.Name, Time: suite.Time}
		said := &junitText{Message: d.Word + ": " + counted(d.Counts), Type: d.Word}
		if d.Exit == ExitIncomplete {
			c.Error = said
		} else {
			c.Failure = said
		}
		suite.Cases = append(suite.Cases, c)
		count()
	}
	return suite
}

// junitCases returns the answers about the node, one case per name. If the answers from several access methods share a
// name, the worst answer becomes the case, and its text contains the other answers.
func (d Document) junitCases() []junitCase {
	var names []string
	answers := map[string][]Located{}
	for _, r := range d.own() {
		name := r.named()
		if answers[name] == nil {
			names = append(names, name)
		}
		answers[name] = append(answers[name], r)
	}
	var out []junitCase
	for _, name := range names {
		all := answers[name]
		slices.SortStableFunc(all, func(a, b Located) int {
			return slices.Index(probe.Statuses(), a.Status) - slices.Index(probe.Statuses(), b.Status)
		})
		var took time.Duration
		var lines []string
		for i, r := range all {
			took += r.Elapsed
			if i > 0 {
				lines = append(lines, fmt.Sprintf("%s by %s: %s", r.Status, methodLabel(r.Method), r.Saw))
			}
			lines = append(lines, r.Lines...)
		}
		worst := all[0]
		lines = append(lines, d.why(worst)...)
		for i := range lines {
			lines[i] = printable(lines[i])
		}
		said := &junitText{Message: printable(worst.Saw), Type: string(worst.Status), Text: strings.Join(lines, "\n")}
		c := junitCase{Name: name, Classname: printable(d.Node), Time: seconds(took)}
		switch {
		case worst.Status == probe.Fail, worst.Status == probe.Warn && d.Strict:
			c.Failure = said
		case worst.Status == probe.Unknown:
			c.Error = said
		case worst.Status == probe.Skip:
			c.Skipped = &junitText{Message: said.Message}
		case worst.Status == probe.Warn:
			c.Out = &junitOut{strings.TrimSpace("warning: " + said.Message + "\n" + said.Text)}
		}
		out = append(out, c)
	}
	return out
}

// why returns the causes of a bad answer with their fixes, because some readers show only the failed case.
func (d Document) why(r Located) []string {
	var out []string
	for _, c := range d.Causes {
		proof := slices.ContainsFunc(c.For, func(clue probe.Clue) bool {
			return clue.Check == r.Check &&
				clue.Target == r.Target && clue.Node == ""
		})
		follows := slices.ContainsFunc(c.Explains, func(f probe.Follows) bool { return f.Check == r.Check })
		if quiet(r.Status) || !proof && !follows {
			continue
		}
		out = append(out, fmt.Sprintf("cause %s (confidence: %s): %s", strings.TrimSpace(c.ID+" "+c.About), c.Confidence,
			c.Says), "fix: "+c.Fix.Says)
		for _, block := range c.Fix.Blocks() {
			if block.If != "" {
				out = append(out, "only if "+block.If+":")
			}
			for _, command := range block.Commands {
				out = append(out, "  "+command)
			}
		}
	}
	return out
}

// words returns the report for people.
func (d Document) words() string { return screen{Document: d}.text() }

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func counted(c probe.Counts) string { return summary(c, nil) }
