package install

import (
	"encoding/json"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"

	"github.com/calico-probe/calico-probe/internal/conditions"
	"github.com/calico-probe/calico-probe/probe/must"
)

// admits reports whether the rules allow an update from one Node to another, both as JSON.
func admits(t *testing.T, before, after string) (allowed bool, why string) {
	t.Helper()
	env := must.Get(cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType),
		cel.Variable("oldObject", cel.DynType)))(t)
	var of [2]map[string]any
	for i, text := range []string{before, after} {
		if err := json.Unmarshal([]byte(text), &of[i]); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	for _, rule := range policyRules() {
		tree, issues := env.Compile(rule.Expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(tree)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := program.Eval(map[string]any{"oldObject": of[0], "object": of[1]})
		if err != nil {
			t.Fatalf("%s: %v", rule.Message, err)
		}
		if out.Value() != true {
			return false, rule.Message
		}
	}
	return true, ""
}

// TestPolicyRules evaluates the rules. TestConditions tests on a cluster that an API server does the same.
func TestPolicyRules(t *testing.T) {
	t.Parallel()
	const (
		kubelet = `{"manager":"kubelet","operation":"Update","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}}}}}`
		own     = `{"manager":"x","operation":"Update","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"CalicoHealthy\"}":{}}}}}`
		noted   = `{"manager":"x","fieldsV1":{"f:metadata":{"f:annotations":{"f:calico-probe.io/pending-condition":{}}}}}`
		old     = `{"manager":"ancient-changes","operation":"Update","fieldsV1":{"f:spec":{}}}`
		ready   = `{"type":"Ready","status":"True"}`
	)
	node := func(annotation, managers string, conditions ...string) string {
		return `{"metadata":{"name":"a","resourceVersion":"1","annotations":{"x":"y"` + annotation + `},"managedFields":[` +
			managers + `]},"spec":{},"status":{"conditions":[` + strings.Join(append(conditions, ready), ",") + `]}}`
	}
	ours := func(status, reason, message string) string {
		return `{"type":"CalicoHealthy","status":"` + status + `","reason":"` + reason + `","message":"` + message + `"}`
	}
	pending := func(text string) string { return `,"` + conditions.PendingKey + `":"` + text + `"` }
	good := ours("False", "SwapOn", strings.Repeat("m", maxConditionMessage))
	plain := node("", kubelet)
	for what, c := range map[string]struct {
		before, after string
		refused       string // a part of the message, "" = it is allowed
	}{
		"ours":          {plain, node("", kubelet+","+own, good), ""},
		"ours, pending": {plain, node(pending("False since 2026-11-26T03:00:00Z"), kubelet+","+noted), ""},
		"ours removed":  {node(pending("x"), kubelet+","+own, good), plain, ""},
		"of another form, kept": {node(pending("x"), kubelet, ours("Odd", "", "")),
			node(pending("x"), kubelet, ours("Odd", "", "")), ""},
		"merged managers": {plain, node("", old+","+own, good), ""},
		"a long message": {plain, node("", kubelet, ours("False", "SwapOn",
			strings.Repeat("m", maxConditionMessage+1))), "message short"},
		"another status":     {plain, node("", kubelet, ours("Maybe", "SwapOn", "")), "True, False or Unknown"},
		"a reason of words":  {plain, node("", kubelet, ours("True", "not a word", "")), "reason one word"},
		"another annotation": {plain, node(pending("True since 2026-11-26T03:00:00Z"), kubelet), "a status and a time"},
		"a long annotation": {plain,
			node(pending("False since 2026-11-26T03:00:00Z and so on"), kubelet), "a status and a time"},
		"another condition": {plain,
			strings.Replace(plain, `"Ready","status":"True"`, `"Ready","status":"False"`, 1), "only the condition"},
		"a condition more": {plain, node("", kubelet, `{"type":"Pressure","status":"True"}`), "only the condition"},
		"the spec": {plain,
			strings.Replace(plain, `"spec":{}`, `"spec":{"unschedulable":true}`, 1), "the spec"},
		"a label": {plain,
			strings.Replace(plain, `"name":"a"`, `"name":"a","labels":{"x":"y"}`, 1), "in the metadata"},
		"no managers":             {plain, node("", own, good), "managed fields"},
		"another's manager":       {plain, node("", strings.Replace(kubelet, "Ready", "Other", 1)), "managed fields"},
		"a manager more":          {plain, node("", kubelet+`,{"manager":"z"}`), "managed fields"},
		"managers set to nothing": {plain, node("", "{}"), "managed fields"},
	} {
		allowed, why := admits(t, c.before, c.after)
		if allowed != (c.refused == "") || !strings.Contains(why, c.refused) {
			t.Errorf("%s: allowed %v, %q", what, allowed, why)
		}
	}
	for _, status := range []string{conditions.True, conditions.False, conditions.Unknown} {
		if allowed, why := admits(t, plain, node("", kubelet, ours(status, "NotKnown", ""))); !allowed {
			t.Errorf("%s: %s", status, why)
		}
	}
}
