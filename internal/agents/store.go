package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
)

// The kinds of kept answers.
const (
	kindRun     = "run"
	kindFleet   = "triage"
	kindMesh    = "mesh"
	kindRunbook = "runbook"
	kindDiff    = "diff"
)

// kept is an answer that tools can show again.
type kept struct {
	id    string
	kind  string
	at    time.Time
	doc   any // a report.Document, report.Fleet, *mesh.Report, *runbook.Record or report.Difference
	run   *report.Run
	saved bool
	json  []byte // encoded doc
}

// Limits for the kept answers. The oldest answers are dropped first.
const (
	mostKept      = 64
	mostKeptBytes = 64 << 20
)

// store keeps the latest answers.
type store struct {
	mu   sync.Mutex
	all  []kept // oldest first
	made int
}

// put keeps an answer and returns a new ID, which is a fixed word and a number. A saved run's own ID is not used,
// because it may be any text.
func (s *store) put(k kept) string {
	k.json, _ = json.Marshal(defanged(k.doc)) // encoding these types cannot fail
	return s.add(k)
}

// add keeps an answer unchanged.
func (s *store) add(k kept) string {
	k.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	k.id = fmt.Sprintf("%s-%d", k.kind, s.made)
	if k.saved {
		k.id = fmt.Sprintf("saved-%d", s.made)
	}
	s.all = append(s.all, k)
	size := 0
	for i, k := range slices.Backward(s.all) {
		if size += len(k.json); i < len(s.all)-1 && (size > mostKeptBytes || len(s.all)-i > mostKept) {
			s.all = slices.Delete(s.all, 0, i+1)
			break
		}
	}
	return k.id
}

// get returns an answer by its ID.
func (s *store) get(id string) (kept, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(k kept) bool { return k.id == id })
	if i < 0 {
		return kept{}, false
	}
	return s.all[i], true
}

// list returns the kept answers, latest first.
func (s *store) list() []kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.all)
	slices.Reverse(out)
	return out
}
