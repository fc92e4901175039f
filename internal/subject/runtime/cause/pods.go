package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// pauseImageMissing matches a missing pause image that cannot be pulled: no sandbox starts
// (kubernetes/kubernetes#72295).
func pauseImageMissing(f diagnose.Findings) []diagnose.Case {
	pods, image := evidence.Obstructed(f, facts.ObstaclePauseImage)
	if len(pods) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("no pod can start on {node}: the pause image %s is missing and cannot be pulled: %s%s", image, refusedBy(pods[0], image), pods[0].Facts.Str(facts.Message)),
		For:  evidence.Said(pods), Covers: evidence.KeptDown(pods),
	}}
}

// refusedBy returns the reason of a failed pull, as the beginning of a sentence; "" if the message shows none.
func refusedBy(r diagnose.Finding, image string) string {
	refusal := evidence.RefusedWords[facts.PullFailed(r.Facts.Str(facts.Message))]
	if refusal == "" {
		return ""
	}
	return fmt.Sprintf("registry %s: %s: ", facts.RegistryOf(image), refusal)
}
