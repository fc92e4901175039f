// Package evidence is the vocabulary that the causes of several subjects share. It reads the findings of a run, and
// offers what a cause's file may name:
//
//	diagnose.Findings -> selections  which findings a cause looks for, such as the silent neighbours
//	                  -> weights     how much they prove
//	                  -> covers      which other bad results follow from a cause
//	                  -> args        values of a fix that several causes share
//
// Shared is the entry point: it joins them for package causefile. Causes in Go call the exported functions. The
// package names no cause itself.
package evidence
