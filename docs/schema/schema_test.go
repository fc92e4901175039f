package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

var update = flag.Bool("update", false, "write the schemas")

// TestDocsSchema compares the schemas with the types. It needs the sources, because the descriptions are their
// comments.
func TestDocsSchema(t *testing.T) {
	t.Chdir("../..")
	for _, name := range Names() {
		s := made(t, name)
		b := must.Get(json.MarshalIndent(s, "", "  "))(t)
		b = append(b, '\n')
		file := filepath.Join("docs/schema", name+suffix)
		if *update {
			must.Do(t, os.WriteFile(file, b, 0o644))
			continue
		}
		if is, err := Of(name); err != nil || !bytes.Equal(is, b) {
			t.Errorf("%s is not what the types say (%v): 'make docs' writes it", file, err)
		}
	}
}

// made returns the schema with a name.
func made(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	version := fmt.Sprintf("v%d", probe.Version)
	r := &jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, AllowAdditionalProperties: true, Mapper: mapped}
	var of any
	var title string
	switch name {
	case "event":
		of, title = probe.Event{}, "A line of 'calico-probe run -o ndjson' and of a session's transcript"
	case "report":
		of, title = report.Document{}, "What 'calico-probe run -o json' writes"
	case "fleet":
		of, title = report.Fleet{}, "What 'calico-probe run --all-nodes -o json' writes"
	case "diff":
		of, title = report.Difference{}, "What 'calico-probe diff -o json' writes"
	case "record":
		of, title = runbook.Record{}, "What 'calico-probe runbook run -o json' writes, and posts to webhooks"
	case "runbook":
		of, title = runbook.Runbook{}, "A runbook"
		version = runbook.APIVersion[strings.LastIndexByte(runbook.APIVersion, '/')+1:]
		r.AllowAdditionalProperties = false // what it would not read is a slip
	}
	for _, folder := range []string{"probe", "internal/report", "internal/runbook"} {
		must.Do(t, r.AddGoComments("github.com/calico-probe/calico-probe", folder, jsonschema.WithFullComment()))
	}
	for key, text := range r.CommentMap {
		r.CommentMap[key] = strings.Join(strings.Fields(text), " ")
	}
	s := r.Reflect(of)
	if name != "runbook" {
		s.Comments = additions
	}
	s.ID, s.Title = jsonschema.ID("https://calico-probe.io/schema/"+version+"/"+name+suffix), title
	def := func(name string) *jsonschema.Schema {
		d := s.Definitions[name]
		if d == nil {
			t.Fatalf("%s is no type any more", name)
		}
		return d
	}
	switch name {
	case "event":
		s.Description += " " + grows
		property(t, s, "type").Description = "what the line says: one of these, or one that is newer; readers skip types they do not know"
		carries(s, map[string][]probe.EventType{
			"start": {probe.EventStart, probe.EventRecheck, probe.EventSession, probe.EventRun}, "result": {probe.EventResult},
			"end": {probe.EventEnd}, "cause": {probe.EventCause}, "verdict": {probe.EventVerdict}, "group": {probe.EventGroup},
		})
		verdict(t, def("Verdict"))
		nullable(t, def("Start"), "checks")
		nullable(t, def("Cause"), "for")
	case "report":
		s.Description += " " + grows
		property(t, s, "kind").Const = report.KindReport
		verdict(t, s)
		nullable(t, def("Cause"), "for")
		// of the embedded pointer, which is never nil
		s.Required = append(s.Required, "verdict", "exit", "counts", "elapsed_ns")
		slices.Sort(s.Required)
		s.Required = slices.Compact(s.Required)
	case "fleet":
		s.Description += " " + grows
		property(t, s, "kind").Const = report.KindFleet
		verdict(t, s)
		nullable(t, def("Cause"), "for")
		// of the embedded pointer, which is never nil
		s.Required = append(s.Required, "verdict", "exit", "counts", "elapsed_ns")
		slices.Sort(s.Required)
		s.Required = slices.Compact(s.Required)
	case "diff":
		s.Description += " " + grows
		property(t, s, "kind").Const = report.KindDiff
	case "record":
		s.Description += " " + grows
		property(t, s, "kind").Const = runbook.KindRecord
		nullable(t, def("Result"), "lines")
		nullable(t, def("Result"), "facts")
		nullable(t, def("Cause"), "for")
	case "runbook":
		property(t, s, "apiVersion").Const = runbook.APIVersion
		property(t, s, "kind").Const = runbook.Kind
		var does []string
		for _, f := range reflect.VisibleFields(reflect.TypeFor[runbook.Step]()) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "name" && name != "when" {
				does = append(does, name)
			}
		}
		oneOf(t, def("Step"), does...)
		oneOf(t, def("Notify"), "webhook", "command")
		oneOf(t, def("Nodes"), "names", "selector", "others")
		oneOf(t, def("Check"), "command", "that")
	}
	return s
}

// additions are the minor versions, with the fields that each adds.
const additions = "version 1.1 adds title to causes, affected and between to groups of nodes"

// grows describes what readers may rely on.
const grows = "Fields and types of events may be added: readers skip those they do not know. The values of status, verdict, exit and confidence are closed lists as long as v is the same."

// verdict lists the possible results of a run.
func verdict(t *testing.T, s *jsonschema.Schema) {
	t.Helper()
	for _, word := range report.Verdicts() {
		property(t, s, "verdict").Enum = append(property(t, s, "verdict").Enum, word)
	}
	for _, code := range []int{report.ExitHealthy, report.ExitFault, report.ExitWarnings, report.ExitIncomplete} {
		property(t, s, "exit").Enum = append(property(t, s, "exit").Enum, code)
	}
}

// mapped are the types whose values are in a list in the code.
func mapped(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[probe.Status]():
		return listed(probe.Statuses(), "how a check was answered: "+strings.Join(texts(probe.Statuses()), ", "))
	case reflect.TypeFor[probe.EventType]():
		s := &jsonschema.Schema{Type: "string"} // and no closed list: there will be others
		for _, v := range probe.EventTypes() {
			s.Examples = append(s.Examples, string(v))
		}
		return s
	case reflect.TypeFor[probe.Confidence]():
		return listed(probe.Confidences(), "")
	case reflect.TypeFor[probe.Counts]():
		return &jsonschema.Schema{
			Type: "object", PropertyNames: listed(probe.Statuses(), ""),
			AdditionalProperties: &jsonschema.Schema{Type: "integer", Minimum: "0"},
		}
	case reflect.TypeFor[runbook.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`, Description: "a time as 90s or 5m"}
	}
	return nil
}

func listed[T ~string](of []T, description string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string", Description: description}
	for _, v := range of {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

func texts[T ~string](of []T) []string {
	var out []string
	for _, v := range of {
		out = append(out, string(v))
	}
	return out
}

// carries returns the fields that an event of each type must have.
func carries(s *jsonschema.Schema, fields map[string][]probe.EventType) {
	for _, field := range slices.Sorted(func(yield func(string) bool) {
		for field := range fields {
			if !yield(field) {
				return
			}
		}
	}) {
		is := jsonschema.NewProperties()
		is.Set("type", listed(fields[field], ""))
		s.AllOf = append(s.AllOf, &jsonschema.Schema{
			If: &jsonschema.Schema{Properties: is}, Then: &jsonschema.Schema{Required: []string{field}},
		})
	}
}

// oneOf requires exactly one of these fields.
func oneOf(t *testing.T, s *jsonschema.Schema, fields ...string) {
	t.Helper()
	for _, field := range fields {
		property(t, s, field)
		s.OneOf = append(s.OneOf, &jsonschema.Schema{Required: []string{field}})
	}
}

// nullable allows null for an empty list, which Go writes.
func nullable(t *testing.T, s *jsonschema.Schema, field string) {
	t.Helper()
	was := property(t, s, field)
	s.Properties.Set(field, &jsonschema.Schema{OneOf: []*jsonschema.Schema{was, {Type: "null"}}})
}

func property(t *testing.T, s *jsonschema.Schema, field string) *jsonschema.Schema {
	t.Helper()
	p, ok := s.Properties.Get(field)
	if !ok {
		t.Fatalf("there is no field %s any more", field)
	}
	return p
}
