package main

import (
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/probe"
)

// families tells the family of a check, as --checks takes it: the first of those it belongs to,
// the program's own name for what the client answers, "" for a check that this version does not know.
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
