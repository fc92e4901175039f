package injector

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestWriteCondition requires exactly one condition and one annotation in the request. It is a strategic merge patch:
// any other patch replaces the whole list, including the kubelet's conditions.
func TestWriteCondition(t *testing.T) {
	t.Parallel()
	var asked string
	var sent map[string]any
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type")
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(b, &sent)
		}
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Node","apiVersion":"v1"}`)
	}))
	defer srv.Close()
	c := must.Get(NewClient(&rest.Config{Host: srv.URL}))(t)
	for name, c := range map[string]struct {
		write func() error
		want  map[string]any
	}{
		"written": {
			func() error {
				return c.WriteCondition(t.Context(), "node-a",
					&corev1.NodeCondition{Type: "X", Status: corev1.ConditionFalse}, "key", "")
			},
			map[string]any{"type": "X", "status": "False", "lastHeartbeatTime": nil, "lastTransitionTime": nil},
		},
		"removed": {
			func() error { return c.RemoveCondition(t.Context(), "node-a", "X", "key") },
			map[string]any{"type": "X", "$patch": "delete"},
		},
	} {
		sent = nil
		if err := c.write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := map[string]any{"status": map[string]any{"conditions": []any{c.want}},
			"metadata": map[string]any{"annotations": map[string]any{"key": nil}}}
		if !reflect.DeepEqual(sent, want) ||
			asked != "PATCH /api/v1/nodes/node-a/status application/strategic-merge-patch+json" {
			t.Errorf("%s: %s with %v, want %v", name, asked, sent, want)
		}
	}
}
