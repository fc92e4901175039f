package injector

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestAudited requires docs/security.md to list exactly the pod's fields that decide its privileges.
func TestAudited(t *testing.T) {
	o := options
	o.Needed = []string{"NET_RAW", "NET_ADMIN", "SYS_PTRACE", "SYS_ADMIN"}
	b := must.Get(json.Marshal(podFor(o, nil).Spec))(t)
	var spec any
	must.Do(t, json.Unmarshal(b, &spec))
	doc := must.Get(os.ReadFile("../docs/security.md"))(t)
	_, rest, _ := strings.Cut(string(doc), "<!-- pod -->\n")
	table, _, ends := strings.Cut(rest, "<!-- /pod -->")
	if !ends {
		t.Fatal("docs/security.md has no table of the pod")
	}
	// Names, image, arguments, place and lifetime.
	named := []string{
		"nodeName", "activeDeadlineSeconds", "containers.name", "containers.image", "containers.args",
		"containers.volumeMounts.name", "volumes.name",
	}
	all := leaves("", spec)
	rows := 0
	for path, value := range all {
		if slices.Contains(named, path) {
			continue
		}
		rows++
		if row := fmt.Sprintf("| `%s` | `%s` |", path, value); !strings.Contains(table, row) {
			t.Errorf("docs/security.md does not say %s", row)
		}
	}
	if got := strings.Count(table, "\n| `"); got != rows {
		t.Errorf("docs/security.md says %d fields, the pod has %d", got, rows)
	}
}

// leaves returns the fields of v and their values by path. Lists of objects have one element each, so paths have no
// index.
func leaves(path string, v any) map[string]string {
	out := map[string]string{}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			maps.Copy(out, leaves(strings.TrimPrefix(path+"."+name, "."), x))
		}
	case []any:
		if _, deep := v[0].(map[string]any); deep {
			return leaves(path, v[0])
		}
		var items []string
		for _, x := range v {
			items = append(items, fmt.Sprint(x))
		}
		out[path] = strings.Join(items, ", ")
	default:
		out[path] = fmt.Sprint(v)
	}
	return out
}
