package main

import (
	"io"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/ui"
)

// Every verb speaks through these; package ui says how.
type (
	exit       = ui.Exit
	usageError = ui.UsageError
)

func badUsage(format string, args ...any) error { return ui.BadUsage(format, args...) }

func say(w io.Writer, format string, args ...any) { ui.Say(w, format, args...) }

func oneLine(text string) string { return probe.OneLine(text) }

func explainError(err error) string { return cluster.Explain(err) }
