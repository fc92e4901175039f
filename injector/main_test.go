package injector

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// TestMain drops what client-go logs, as the program does: a hostile node makes it write
// thousands of lines, which bury the one that says why a test failed.
func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
