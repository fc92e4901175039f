package skbdrop

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestRefused checks the reasons for the kernel's rejection of a program. The lines are from kernel/bpf/verifier.c: a
// locked-down kernel denies the function that reads its memory.
func TestRefused(t *testing.T) {
	why := func(err error) Why {
		u, is := errors.AsType[*UnavailableError](refused(fmt.Errorf("loading: %w", err)))
		if !is {
			return ""
		}
		return u.Why
	}
	verifier := func(line string, cause error) error {
		return &ebpf.VerifierError{Cause: cause, Log: []string{"0: R1=ctx()", line}}
	}
	for want, err := range map[Why]error{
		NoRight:  unix.EPERM,
		Lockdown: verifier("program of this type cannot use helper bpf_probe_read_kernel#113", unix.EINVAL),
		"":       verifier("R3 pointer arithmetic prohibited", unix.EACCES),
	} {
		if got := why(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := why(verifier("unknown func bpf_probe_read_kernel#113", unix.EINVAL)); got != Lockdown {
		t.Errorf("an older kernel's words: %q", got)
	}
	if err := refused(fs.ErrInvalid); !errors.Is(err, fs.ErrInvalid) || why(fs.ErrInvalid) != "" {
		t.Error(err)
	}
}
