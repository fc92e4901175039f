package api

import (
	"slices"
	"testing"
)

// TestOrder wants every check of the subjects in the order, and nothing else there: one that is missing would come
// first.
func TestOrder(t *testing.T) {
	var ids []string
	for _, c := range Checks(nil) {
		ids = append(ids, c.ID)
	}
	if !slices.Equal(ids, order) {
		t.Errorf("the checks are %v, in the order %v", ids, order)
	}
}
