// Package far puts an address far away from a node of the sandbox: Run delays all packets to it.
package far

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// Run takes an IPv4 address and a delay. It routes packets for the address through a tun device, holds each for the
// delay, and sends it through eth0, like a long link. This kernel has no netem.
func Run(args []string) error {
	if len(args) != 2 {
		return errors.New("name an address and a delay")
	}
	to, err := netip.ParseAddr(args[0])
	if err != nil {
		return err
	}
	delay, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("making a tun device: %w", err)
	}
	defer tun.Close()
	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("opening a raw socket: %w", err)
	}
	defer unix.Close(raw)
	if err := errors.Join(nameTun(tun), unix.BindToDevice(raw, "eth0"),
		unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_MARK, farMark)); err != nil {
		return fmt.Errorf("setting up both ends: %w", err)
	}
	// Delayed packets are already translated: conntrack must not process them again.
	for _, argv := range [][]string{
		{"nft", fmt.Sprintf("add table ip far; add chain ip far out { type filter hook output priority raw; }; "+
			"add rule ip far out meta mark %d notrack", farMark)},
		{"ip", "link", "set", "far", "up"},
		{"ip", "route", "add", to.String(), "dev", "far"},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", argv[0], err, out)
		}
	}
	return passSlowly(tun, raw, to, delay)
}

// nameTun turns the file into the tun device "far".
func nameTun(tun *os.File) error {
	request, err := unix.NewIfreq("far")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	return unix.IoctlIfreq(int(tun.Fd()), unix.TUNSETIFF, request)
}

// passSlowly sends every packet after the delay.
func passSlowly(tun *os.File, raw int, to netip.Addr, delay time.Duration) error {
	type held struct {
		until  time.Time
		packet []byte
	}
	line := make(chan held, 4096)
	go func() {
		at := &unix.SockaddrInet4{Addr: to.As4()}
		for h := range line {
			time.Sleep(time.Until(h.until))
			_ = unix.Sendto(raw, h.packet, 0, at) // links may lose packets
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := unix.Read(int(tun.Fd()), buffer)
		if err != nil {
			return fmt.Errorf("reading packets: %w", err)
		}
		packet := make([]byte, n)
		copy(packet, buffer)
		select {
		case line <- held{time.Now().Add(delay), packet}:
		default: // the link is full
		}
	}
}

// farMark marks delayed packets.
const farMark = 0x66
