package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// capabilities lists the Linux capabilities that checks can use (linux/capability.h).
var capabilities = []struct {
	bit  uint
	name string
}{
	{1, "DAC_OVERRIDE"}, {2, "DAC_READ_SEARCH"}, {12, "NET_ADMIN"}, {13, "NET_RAW"}, {19, "SYS_PTRACE"}, {21, "SYS_ADMIN"},
	{38, "PERFMON"}, {39, "BPF"},
}

// held lists the access that this process actually has. It may be less than the client requested.
func held() []string {
	out := []string{fmt.Sprintf("uid %d", os.Getuid())}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(status)) {
		hex, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		if err != nil {
			continue
		}
		for _, c := range capabilities {
			if set&(1<<c.bit) != 0 {
				out = append(out, c.name)
			}
		}
	}
	// If this program runs in its own PID namespace, it is process 1.
	if os.Getpid() != 1 {
		out = append(out, "host processes")
	}
	return out
}
