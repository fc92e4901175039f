package main

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/injector"
)

// debugProfile is the value of --debug-profile.
type debugProfile struct{ profile **injector.DebugProfile }

func (d debugProfile) String() string {
	if d.profile == nil || *d.profile == nil { // pflag also calls it on the zero value
		return ""
	}
	return (*d.profile).Name
}

func (d debugProfile) Type() string { return "string" }

func (d debugProfile) Set(name string) error {
	profile, err := injector.NewDebugProfile(name)
	if err != nil {
		return fmt.Errorf("%w: use one of %s", err, strings.Join(injector.Profiles, ", "))
	}
	*d.profile = profile
	return nil
}
