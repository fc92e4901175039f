package runbook

import "os/exec"

// alone does nothing here: a program is ended without what it started.
func alone(*exec.Cmd) {}
