// Package socket finds the processes that hold a socket open, and lists UDP sockets. It reads /proc
// and does not change anything.
package socket

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Owners finds the processes that have the given sockets open: "bird (1234)". It also reports whether it searched all
// processes before ctx ended.
func Owners(ctx context.Context, h *probe.Host, sockets []kernel.Socket,
) (_ map[uint32]string, whole bool) {
	sought := map[uint32]bool{}
	for _, s := range sockets {
		sought[s.Inode] = true
	}
	out := map[uint32]string{}
	processes, err := os.ReadDir(h.Proc)
	if err != nil {
		return out, true
	}
	for _, p := range processes {
		if ctx.Err() != nil {
			return out, false
		}
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		dir := filepath.Join(h.Proc, p.Name())
		open, err := namesIn(filepath.Join(dir, "fd"), maxFiles)
		if err != nil { // the process exited, or is not accessible
			continue
		}
		for _, fd := range open {
			to, err := os.Readlink(filepath.Join(dir, "fd", fd))
			inode := kernel.SocketInode(to)
			if err != nil || !sought[inode] || out[inode] != "" {
				continue
			}
			comm, err := os.ReadFile(filepath.Join(dir, "comm"))
			if err != nil {
				break
			}
			out[inode] = fmt.Sprintf("%s (%s)", strings.TrimSpace(string(comm)), p.Name())
		}
	}
	return out, true
}

// maxFiles is the maximum number of a process's open files to examine, because a process may have a million.
const maxFiles = 4096

// namesIn returns the names of the first files in a folder.
func namesIn(folder string, most int) ([]string, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(most)
}

// UDP calls each for every UDP socket in this network namespace that uses the port. These include the kernel's own
// sockets. It parses text, because the kernel module that lists UDP sockets over netlink may be missing.
func UDP(port uint16, each func(kernel.Socket)) error {
	for _, table := range []string{"udp", "udp6"} {
		f, err := os.Open("/proc/thread-self/net/" + table)
		if os.IsNotExist(err) && table == "udp6" { // IPv6 is disabled
			continue
		}
		if err != nil {
			return fmt.Errorf("listing UDP sockets: %w", err)
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if s, ok := udpSocket(lines.Text()); ok && s.Near.Port() == port {
				each(s)
			}
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return fmt.Errorf("listing UDP sockets: %w", err)
		}
	}
	return nil
}

// udpSocket parses a line of the UDP table: "0: 00000000:12B5 00000000:0000 07 ... 4711 2 0000000000000000 0".
func udpSocket(line string) (kernel.Socket, bool) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return kernel.Socket{}, false
	}
	address, port, _ := strings.Cut(f[1], ":")
	b, err := hex.DecodeString(address)
	n, bad := strconv.ParseUint(port, 16, 16)
	inode, odd := strconv.ParseUint(f[9], 10, 32)
	if err != nil || bad != nil || odd != nil || len(b)%4 != 0 {
		return kernel.Socket{}, false
	}
	for i := 0; i < len(b); i += 4 { // each word is in the machine's byte order
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	return kernel.Socket{Near: netip.AddrPortFrom(a.Unmap(), uint16(n)), Inode: uint32(inode)}, ok
}
