package cluster

import (
	"context"
	"testing"
	"time"
)

// TestFirstOf requires a share of the caller's time, and no limit if the caller has none.
func TestFirstOf(t *testing.T) {
	t.Parallel()
	free, cancel := firstOf(context.Background())
	defer cancel()
	if at, limited := free.Deadline(); limited || free.Err() != nil {
		t.Errorf("%v, %v: the caller has no deadline", at, free.Err())
	}
	whole, end := context.WithTimeout(context.Background(), time.Hour)
	defer end()
	share, stop := firstOf(whole)
	defer stop()
	if at, limited := share.Deadline(); !limited || time.Until(at) >= time.Hour || share.Err() != nil {
		t.Errorf("%v %v, want a part of an hour", at, limited)
	}
}
