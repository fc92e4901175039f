package netns

import (
	"slices"
	"strings"
	"testing"
)

// table is what Linux 6.18 writes for two listeners and a connection.
const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1234 1 0000000000000000 100 0 0 10 0
   1: 00000000:3A99 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1235 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1B9E 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1236 1 0000000000000000 20 4 30 10 -1
`

func TestListening(t *testing.T) {
	if got := listening(strings.NewReader(table)); !slices.Equal(got, []uint16{7070, 15001}) {
		t.Error(got)
	}
}

func FuzzListening(f *testing.F) {
	f.Add(table)
	f.Add("\n 0: : x 0A\n 0: :FFFFF x 0A\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n := len(listening(strings.NewReader(text))); n > strings.Count(text, "\n") {
			t.Errorf("%d ports", n)
		}
	})
}
