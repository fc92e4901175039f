package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/kubectl/pkg/cmd/debug"

	"github.com/calico-probe/calico-probe/injector"
)

// debugProfiles are the profiles of 'kubectl debug' that --debug-profile takes. kubectl removes its profile legacy in
// 1.39.
var debugProfiles = []string{debug.ProfileGeneral, debug.ProfileSysadmin, debug.ProfileNetadmin}

// debugProfile is the value of the flag --debug-profile.
type debugProfile struct{ profile **injector.Profile }

func (d debugProfile) String() string {
	if d.profile == nil || *d.profile == nil { // pflag also calls it on the zero value
		return ""
	}
	return (*d.profile).Name
}

func (d debugProfile) Type() string { return "string" }

func (d debugProfile) Set(name string) error {
	known := strings.Join(debugProfiles, ", ")
	kubectl, err := debug.NewProfileApplier(name, debug.KeepFlags{}) // which is about copies of pods
	if err != nil {
		return fmt.Errorf("%w: it takes %s", err, known)
	}
	profile, err := injector.NewProfile(name, kubectl)
	switch {
	case err != nil:
		return fmt.Errorf("%w: it takes %s", err, known)
	case !slices.Contains(debugProfiles, name):
		return fmt.Errorf("kubectl removes this profile: it takes %s", known)
	}
	*d.profile = profile
	return nil
}
