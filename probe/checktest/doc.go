// Package checktest is the shared test kit for checks. Node builds a node from files, Run runs one check on it, and
// Want compares the results. The files real_*.go start real daemons and network namespaces for e2e tests.
package checktest
