package injector

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// TestMain drops client-go's logs, as the program does: a hostile node causes thousands of lines, which hide the reason
// of a failed test.
func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
