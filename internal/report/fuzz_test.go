package report

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// FuzzLoad reads a file that somebody else may have made. What is read is clean, and a run without its verdict says
// what it lacks.
func FuzzLoad(f *testing.F) {
	example := must.Get(os.ReadFile("../../docs/example.ndjson"))(f)
	lines := bytes.SplitAfter(example, []byte("\n"))
	f.Add(bytes.Join(lines[:3], nil))
	f.Add(bytes.Join(lines[len(lines)-3:], nil))
	f.Add([]byte(`{"v":1,"kind":"Report","node":"a\u001b","results":[{"check":"a-b","status":"ok","way":"pod"}],` +
		`"ways":[{"way":"pod","complete":true}],"verdict":{"verdict":"healthy"}}`))
	f.Add([]byte(`{"seq":0,"type":"fleet","start":{"v":1}}` + "\n" + `{"type":"verdict","node":"a","verdict":{}}` + "\n"))
	f.Add([]byte(`{"seq":0,"type":"asked","node":"a","start":{"checks":["a-b"]},"at":"2026-01-01T00:00:00Z"}` + "\n" +
		`{"type":"result","node":"a","result":{"check":"a-b","status":"ok"}}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		saved, err := Load(bytes.NewReader(in))
		if err != nil {
			return
		}
		for _, run := range saved.Runs {
			if run.Verdict == nil && run.Lacks == "" && saved.Deeds == nil {
				t.Errorf("a run without a verdict is whole: %+v", run)
			}
			if run.Node != probe.Line(run.Node) || run.Version != probe.Line(run.Version) {
				t.Errorf("node %q, version %q", run.Node, run.Version)
			}
			for _, ev := range run.Events {
				was := must.Get(json.Marshal(ev))(t)
				if is, err := json.Marshal(ev.Cleaned()); err != nil || !bytes.Equal(was, is) {
					t.Errorf("not clean (%v): %s\n%s", err, was, is)
				}
			}
		}
	})
}
