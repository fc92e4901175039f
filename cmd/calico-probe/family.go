package main

import (
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/probe"
)

// families returns a function that maps a check to its family, a value of --checks. The family is the check's first
// tag, or "calico-probe" for results of the client. A check that this version does not have maps to "".
func families() func(check string) string {
	of := map[string]string{}
	for _, c := range examine.Suite() {
		switch {
		case c.From == probe.FromClient:
			of[c.ID] = "calico-probe"
		case len(c.Tags) > 0:
			of[c.ID] = c.Tags[0]
		}
	}
	return func(check string) string { return of[check] }
}
