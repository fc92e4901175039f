package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/docs/schema"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/probe/must"
)

// compiled returns a published schema in a third-party validator.
func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	exit, out, errs := call(t, "schema", name)
	if exit != 0 {
		t.Fatalf("schema %s: exit %d %s", name, exit, errs)
	}
	doc := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(out)))(t)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must.Do(t, c.AddResource(name, doc))
	s := must.Get(c.Compile(name))(t)
	return s
}

func validate(s *jsonschema.Schema, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// night is a recorded run, as a file.
type night struct{ name, file string }

// nights returns the recorded runs of the rules' tests.
func nights(t *testing.T) []night {
	t.Helper()
	files := nightfile.All()
	if len(files) < 100 {
		t.Fatalf("only %d recorded nights", len(files))
	}
	folder := t.TempDir()
	var out []night
	for _, name := range files {
		b := must.Get(os.ReadFile(name))(t)
		for i, section := range txtar.Parse(b).Files {
			if section.Name != "stream" {
				continue
			}
			n := night{filepath.Base(name), filepath.Join(folder, fmt.Sprintf("%s.%d", filepath.Base(name), i))}
			must.Do(t, os.WriteFile(n.file, section.Data, 0o600))
			out = append(out, n)
		}
	}
	return out
}

// TestNightsFitTheSchemas validates each recorded night as a report and as a stream.
func TestNightsFitTheSchemas(t *testing.T) {
	t.Parallel()
	report, event, diff := compiled(t, "report"), compiled(t, "event"), compiled(t, "diff")
	all := nights(t)
	for i, n := range all {
		if i%8 == 0 { // a diff has few shapes
			_, out, errs := call(t, "diff", n.file, all[(i+1)%len(all)].file, "-o", "json")
			if err := validate(diff, out); err != nil {
				t.Errorf("%s: %v %s", n.name, err, errs)
			}
		}
		stream := n.file + ".ndjson"
		exit, out, errs := call(t, "analyze", n.file, "-o", "json", "-o", "ndjson="+stream)
		if exit == 1 || exit == 2 {
			t.Fatalf("%s: exit %d %s", n.name, exit, errs)
		}
		if err := validate(report, out); err != nil {
			t.Errorf("%s: %v", n.name, err)
		}
		b := must.Get(os.ReadFile(stream))(t)
		for line := range strings.Lines(string(b)) {
			if err := validate(event, line); err != nil {
				t.Errorf("%s: %v\n%s", n.name, err, line)
			}
		}
	}
}

// TestSchemasRefuse rejects documents that are not reports, events or runbooks.
func TestSchemasRefuse(t *testing.T) {
	t.Parallel()
	n := nights(t)[0]
	_, report, _ := call(t, "analyze", n.file, "-o", "json")
	for name, c := range map[string][][2]string{ // changes to a valid document: removed or replaced parts
		"report": {{}, {`"status": "`, `"status": "f`}, {`"node": `, `"nod": `}, {`"kind": "Report"`, `"kind": "Other"`},
			{`"confidence": "`, `"confidence": "very `}, {`"verdict": "`, `"verdict": "not `}, {`"exit": `,
				`"exit": 1`}, {`"results": [`, `"others": [`}},
		"event": {{}, {`"status":"`, `"status":"f`}, {`"result":`, `"other":`}, {`"seq":`, `"at":`},
			{`"check":`, `"cheque":`}},
		"runbook": {
			{}, {`"note":"x"`, `"note":"x","ask":{"question":"y"}`}, {`"note":"x"`, `"when":"true"`}, {`"note"`, `"nota"`}, {"v1alpha1", "v9"}, {`"Runbook"`, `"Runboox"`},
			{`"name":"x"`, `"nam":"x"`}, {`"note":"x"`, `"wait":{"until":"true","within":"soon"}`},
		},
	} {
		good := map[string]string{
			"report":  report,
			"event":   `{"seq":0,"type":"result","result":{"check":"a","status":"ok","saw":"b","elapsed_ns":0}}`,
			"runbook": `{"apiVersion":"calico-probe.io/v1alpha1","kind":"Runbook","metadata":{"name":"x"},"spec":{"title":"t","steps":[{"note":"x"},{"wait":{"until":"true","within":"5m"}},{"choose":[{"name":"a","steps":[{"note":"b"}]}]}]}}`,
		}[name]
		s := compiled(t, name)
		for _, change := range c {
			text := good
			if change[0] != "" {
				text = strings.ReplaceAll(good, change[0], change[1])
			}
			if err := validate(s, text); (err == nil) != (change[0] == "") || change[0] != "" && text == good {
				t.Errorf("%s with %q for %q: %v", name, change[1], change[0], err)
			}
		}
	}
}

// TestSchemasTakeWhatIsNewer requires the schemas to accept files of a later version.
func TestSchemasTakeWhatIsNewer(t *testing.T) {
	t.Parallel()
	_, whole, _ := call(t, "analyze", nights(t)[0].file, "-o", "json")
	for name, text := range map[string]string{"event": `{"seq":0,"type":"of later","later":{"a":1}}`, "report": strings.Replace(whole, `"kind"`, `"later": [1], "kind"`, 1)} {
		if err := validate(compiled(t, name), text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRunbooksFitTheSchema validates the built-in runbooks, as an editor does.
func TestRunbooksFitTheSchema(t *testing.T) {
	t.Parallel()
	s := compiled(t, "runbook")
	for _, it := range must.Get(library(nil))(t) {
		b := must.Get(yaml.YAMLToJSONStrict(it.Text))(t)
		if err := validate(s, string(b)); err != nil {
			t.Errorf("%s: %v", it.Name, err)
		}
	}
}

// TestSchemaPrints requires the published file, and a list of the schemas.
func TestSchemaPrints(t *testing.T) {
	t.Parallel()
	for _, name := range schema.Names() {
		_, out, _ := call(t, "schema", name)
		if b, err := os.ReadFile("../../docs/schema/" + name + ".schema.json"); err != nil || !bytes.Equal(b, []byte(out)) {
			t.Errorf("%s is not the file's: %v", name, err)
		}
	}
	for _, args := range [][]string{{"schema"}, {"schema", "x"}, {"schema", "event", "report"}} {
		if exit, _, errs := call(t, args...); exit != 2 || !strings.Contains(errs, "event, report, fleet, diff, record, runbook") {
			t.Errorf("%v: exit %d %s", args, exit, errs)
		}
	}
}
