package ask

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// offloadsChecksums reports whether an interface leaves the checksums of its packets to another interface or to the
// hardware. It does not need any privileges.
func offloadsChecksums(name string) (bool, error) {
	var request struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	if len(name) >= unix.IFNAMSIZ {
		return false, fmt.Errorf("interface %q: the name is too long", name)
	}
	copy(request.name[:], name)
	value := struct{ cmd, data uint32 }{cmd: unix.ETHTOOL_GTXCSUM}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&value)
	request.data = unsafe.Pointer(&value)
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("looking up interface %s: %w", name, err)
	}
	defer func() { _ = unix.Close(socket) }()
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return false, fmt.Errorf("reading the offloads of interface %s: %w", name, errno)
	}
	return value.data != 0, nil
}
