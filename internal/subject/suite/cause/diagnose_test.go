package cause

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/probe"
)

func TestRules(t *testing.T) {
	if wrong := validate(All().Rules); wrong != "" {
		t.Error(wrong)
	}
}

// TestRecorded explains every recorded stream of testdata. A file says in its head
// what night it is from; its section want has one line for each cause in order,
// "ID about: confidence", an empty one wants no cause, and lines "unexplained ID" at
// the end; with a line "hence ID about" below a cause, all causes that follow from
// others are compared too. Its section stream is what 'run -o ndjson' wrote, or as much of it as
// matters. Its section said has what people read of each cause: -update writes it, and never want.
func TestRecorded(t *testing.T) {
	files := nightfile.All()
	if len(files) == 0 {
		t.Fatal("no recorded streams")
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var want, stream, said []byte
			for _, section := range txtar.Parse(b).Files {
				switch section.Name {
				case "want":
					want = section.Data
				case "stream":
					stream = section.Data
				case "said":
					said = section.Data
				default:
					t.Fatalf("no section %q is known", section.Name)
				}
			}
			f := read(t, stream)
			d := diagnose.Explain(f, All())
			if got := told(d, bytes.Contains(want, []byte("hence "))); got != string(want) {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
			compareSaid(t, name, b, string(said), d.Causes)
			for _, c := range d.Causes {
				for _, text := range append([]string{c.Says, c.Fix.Says, c.Fix.Radius}, commandsOf(c.Fix)...) {
					if gap.MatchString(text) {
						t.Errorf("%s: not filled in: %s", c.ID, text)
					}
				}
				if len(c.For) == 0 {
					t.Errorf("%s has no evidence", c.ID)
				}
			}
		})
	}
}

// gap is a name in a text that nobody has filled in; JSON and JSONPath have others.
var gap = regexp.MustCompile(`\{[a-z]+\}`)

func read(t testing.TB, stream []byte) diagnose.Findings {
	t.Helper()
	f := diagnose.Findings{}
	d := probe.NewDecoder(bytes.NewReader(stream))
	d.Noise = func(line string) {
		if strings.TrimSpace(line) != "" {
			t.Errorf("no event: %s", line)
		}
	}
	for {
		ev, err := d.Next()
		if err != nil {
			return f
		}
		if ev.Node == "" {
			ev.Node = "node-a"
		}
		f.Add(ev)
	}
}

// causesOf are all causes of some findings in order, "ID about confidence".
func causesOf(f diagnose.Findings) string {
	var out []string
	for _, c := range diagnose.Explain(f, All()).Causes {
		out = append(out, strings.TrimSpace(c.ID+" "+c.About)+" "+string(c.Confidence))
	}
	return strings.Join(out, ", ")
}

func told(d diagnose.Diagnosis, hence bool) string {
	var b strings.Builder
	for _, c := range d.Causes {
		b.WriteString(strings.TrimSpace(c.ID+" "+c.About) + ": " + string(c.Confidence) + "\n")
		for _, follow := range c.Explains {
			if hence && follow.Cause != "" {
				b.WriteString("hence " + follow.Cause + "\n")
			}
		}
	}
	for _, id := range d.Unexplained {
		b.WriteString("unexplained " + id + "\n")
	}
	return b.String()
}
