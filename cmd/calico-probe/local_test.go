package main

import (
	"os"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/report"
)

func TestLocalOfAnotherMachine(t *testing.T) {
	t.Parallel()
	code, _, errs := call(t, "run", "--via", "local", "--node", "worker-3.invalid", "--checks", "node-clock")
	host, _ := os.Hostname()
	if code != report.ExitUsage || !strings.Contains(errs, host) {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestDurationWithoutUnit(t *testing.T) {
	t.Parallel()
	code, _, errs := call(t, "run", "--node", "x", "--timeout", "60")
	if code != report.ExitUsage || !strings.Contains(errs, "write 60s") {
		t.Errorf("code %d: %s", code, errs)
	}
}
