package main

import (
	"os"
	"strings"
	"testing"
)

// TestMutantsApply requires that each mutant's text occurs once in its file: if the code changes, its mutants must
// change.
func TestMutantsApply(t *testing.T) {
	t.Chdir("../../..")
	all, err := parse(archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		source, err := os.ReadFile(m.file)
		if err == nil {
			_, err = m.apply(string(source))
		}
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestJudge requires that a mutant counts as killed only if its test ran and failed, or crashed.
func TestJudge(t *testing.T) {
	t.Parallel()
	const runs = `{"Action":"run","Test":"TestX"}` + "\n"
	const broken = `{"Action":"build-output","Output":"x.go:1: undefined\n"}` + "\n" + `{"Action":"build-fail"}` + "\n"
	for output, want := range map[string]bool{
		runs + `{"Action":"fail","Test":"TestX"}`:                                       true,
		runs + `{"Action":"output","Output":"panic: x\n"}` + "\n" + `{"Action":"fail"}`: true, // in a goroutine
		runs + `{"Action":"pass","Test":"TestX"}` + "\n" + `{"Action":"fail"}`:          false,
		runs + `{"Action":"output","Test":"TestX","Output":"panic: test timed out after 10m0s\n"}` + "\n" +
			`{"Action":"fail","Test":"TestX"}`: false,
		runs + `{"Action":"skip","Test":"TestX"}` + "\n" + `{"Action":"pass"}`: false,
		broken + `{"Action":"fail"}`: false,
		`{"Action":"fail"}`:          false, // as without a cluster
		`{"Action":"pass"}`:          false, // no test has the name
		"go: no such flag\n":         false,
		`{"Action":"run","Test":"TestY"}` + "\n" + `{"Action":"fail","Test":"TestY"}` + "\n": false,
	} {
		if killed, why := judge(strings.NewReader(output), "TestX"); killed != want {
			t.Errorf("%s: killed %v, %s", output, killed, why)
		}
	}
}

// TestApply requires an error for a text that does not occur exactly once.
func TestApply(t *testing.T) {
	t.Parallel()
	m, err := parseOne("P1 x", "unit ./x TestX\nx.go\n a\n-b\n+c\n@@\n+new\n e\n")
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{
		"a\nb\nd\ne\n": "a\nc\nd\nnew\ne\n", "a\nb\na\nb\ne\n": "", "a\nb\n": "", "xa\nb\ne\n": "",
	} {
		got, err := m.apply(source)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q becomes %q, %v; want %q", source, got, err, want)
		}
	}
	for _, bad := range []string{"", "lane ./x TestX\nx.go\n", "unit ./x\nx.go\n", "unit ./x TestX\nx.go\n*a\n"} {
		if _, err := parseOne("P1 x", bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
