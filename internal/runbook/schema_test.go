package runbook_test

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/calico-probe/calico-probe/docs/schema"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe/must"
)

// recordSchema is the published schema of a record, in a third-party validator.
var recordSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	b, err := schema.Of("record")
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("record", doc); err != nil {
		return nil, err
	}
	return c.Compile("record")
})

// fits requires a record to match its schema.
func fits(t *testing.T, r *runbook.Record) {
	t.Helper()
	s := must.Get(recordSchema())(t)
	b := must.Get(json.Marshal(r))(t)
	v := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(b)))(t)
	if err := s.Validate(v); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
}
