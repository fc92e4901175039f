// Package checktest is the test kit that tests of checks share. Node builds a node from files, Run runs one check on
// it, and Want compares the results. The files real_*.go start real daemons and network namespaces for e2e tests.
package checktest
