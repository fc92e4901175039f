// Package checktest has what tests of checks share: nodes made of files, runs of one check, and what a result is
// wanted to be.
package checktest
