package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/internal/report"
)

// TestLists requires every verb that lists something to support the formats of 'kubectl get', to filter by words, and
// to list the same items in each format.
func TestLists(t *testing.T) {
	t.Parallel()
	run := func(verb string, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs},
			append(strings.Fields(verb), args...))
		return code, out.String(), errs.String()
	}
	var listed []string
	for verb, c := range map[string]struct{ kind, key, word, has, not, wide string }{
		"checks":       {"check", "id", "FELIX", "felix-live", "bgp-session", "DEADLINE"},
		"causes":       {"cause", "id", "felix", "felix-stuck", "swap-on", "ALSO ACCOUNTS FOR"},
		"runbook list": {"runbook", "name", "reboot", "before-reboot", "node-trouble", "ALERTS"},
	} {
		_, names, _ := run(verb, "-o", "name")
		if !strings.Contains(names, c.kind+"/"+c.not+"\n") {
			t.Errorf("%s -o name lacks %s:\n%s", verb, c.not, names)
		}
		_, fewer, _ := run(verb, "-o", "name", c.word)
		if !strings.Contains(fewer, c.kind+"/"+c.has+"\n") || strings.Contains(fewer, c.not) {
			t.Errorf("%s %s: %s", verb, c.word, fewer)
		}
		for _, format := range listFormats {
			code, out, errs := run(verb, "-o", format, c.word)
			if code != report.ExitHealthy || errs != "" || !strings.Contains(out, c.has) ||
				strings.Contains(out, "\n"+c.not+" ") {
				t.Errorf("%s -o %s: exit %d: %s%s", verb, format, code, out, errs)
			}
			if strings.Contains(out, c.wide) != (format == "wide") {
				t.Errorf("%s -o %s has the columns of -o wide, or they are missing there:\n%s", verb, format, out)
			}
			if format != "json" && format != "yaml" {
				continue
			}
			read := map[string]func([]byte, any) error{"json": json.Unmarshal,
				"yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) }}[format]
			var items []map[string]any
			if err := read([]byte(out), &items); err != nil ||
				len(items) != strings.Count(fewer, "\n") || items[0][c.key] == nil {
				t.Errorf("%s -o %s: %v, %d items", verb, format, err, len(items))
			}
		}
		if code, out, errs := run(verb, "-o", "json", "no", "such"); code != report.ExitHealthy ||
			strings.TrimSpace(out) != "[]" || !strings.Contains(errs, "no "+c.kind+" contains no and such") {
			t.Errorf("%s of nothing: exit %d, %q %q", verb, code, out, errs)
		}
		for _, format := range []string{"xml", "JSON", "name,json", ""} {
			want := fmt.Sprintf("error: unknown output format %q: use one of table, wide, name, json, yaml\n", format)
			if code, out, errs := run(verb, "-o", format); code != report.ExitUsage || out != "" ||
				!strings.HasSuffix(errs, want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("%s -o %q: exit %d: %s%s", verb, format, code, out, errs)
			}
		}
		listed = append(listed, "calico-probe "+verb)
	}
	slices.Sort(listed)
	if have := listVerbs((&app{flags: genericclioptions.NewConfigFlags(true)}).command()); !slices.Equal(have, listed) {
		t.Errorf("the verbs %q list something, and only %q are tested", have, listed)
	}
	if _, text, _ := run("explain", "check/felix-live"); !strings.HasPrefix(text, "felix-live: ") {
		t.Errorf("explain does not take what -o name prints: %s", text)
	}
	for _, format := range []string{"json", "yaml"} {
		var v map[string]any
		if code, out, errs := run("version", "-o", format); code != 0 ||
			yaml.Unmarshal([]byte(out), &v) != nil || v["wireFormat"] == nil {
			t.Errorf("version -o %s: %s%s", format, out, errs)
		}
	}
}

// listVerbs are the verbs with a list format in -o.
func listVerbs(of *cobra.Command) []string {
	var out []string
	if f := of.Flags().Lookup("output"); f != nil && strings.HasSuffix(f.Usage, ": "+strings.Join(listFormats, ", ")) {
		out = append(out, of.CommandPath())
	}
	for _, verb := range of.Commands() {
		out = append(out, listVerbs(verb)...)
	}
	slices.Sort(out)
	return out
}
