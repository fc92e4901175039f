package do

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestLogRace reads a log while its folder is swapped with links to folders with other files, inside the node's root
// and outside.
func TestLogRace(t *testing.T) {
	t.Parallel()
	const secret = "verysecret"
	outside := files(t, map[string]string{"0.log": cut("stdout", "F", secret)})
	root := files(t, map[string]string{logFile: cut("stdout", "F", "its own"), "etc/0.log": cut("stdout", "F", secret)})
	folder := filepath.Join(root, filepath.Dir(logFile))
	links := []string{folder + "-1", folder + "-2"}
	for i, to := range []string{"/etc", outside} {
		must.Do(t, os.Symlink(to, links[i]))
	}
	stop, swapped := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { swapped <- n }()
		for ; ; n++ {
			link := links[n/2%2] // there and back
			if err := unix.Renameat2(unix.AT_FDCWD, folder, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	good := 0
	for range 3_000 {
		r, out := reads(t, root)
		if strings.Contains(out+r.Saw, secret) {
			t.Fatalf("%q, %+v", out, r)
		}
		if r.Status == probe.OK {
			good++
		}
	}
	close(stop)
	if n := <-swapped; n < 100 || good < 10 {
		t.Errorf("%d rounds, read %d times: nothing was tried", n, good)
	}
}
