package ui

import (
	"bytes"
	"strings"
	"testing"
)

// TestSayStopping wants a signal at a question to say that nothing was removed, and to say
// what is usual before and after it.
func TestSayStopping(t *testing.T) {
	t.Parallel()
	i := &Interrupts{}
	said := func() string {
		var out bytes.Buffer
		i.sayStopping(&out)
		return out.String()
	}
	if text := said(); !strings.Contains(text, "stopping: removing what was created") {
		t.Error(text)
	}
	back := i.Stopping("nothing was removed")
	if text := said(); !strings.HasPrefix(text, "\n") || !strings.HasSuffix(text, "nothing was removed\n") ||
		strings.Contains(text, "created") {
		t.Errorf("%q", text)
	}
	back()
	if text := said(); !strings.Contains(text, "stopping: removing what was created") {
		t.Error(text)
	}
}
