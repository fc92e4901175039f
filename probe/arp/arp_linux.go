// Package arp finds duplicate addresses. Who broadcasts ARP requests on a link and returns every answer for an
// address. The kernel's own table keeps only one answer.
package arp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// packetLen is the length of an ARP packet for Ethernet and IPv4.
const packetLen = 28

// Who broadcasts two requests for each address on a link. The addresses are the node's own and those of other
// machines. It returns the MACs that answer. It listens until the context ends. It stops earlier if the other machines
// have answered, and a second machine that is ten times slower would also have answered. The requests contain no
// sender address (RFC 5227, section 2.1.1), so they change no ARP tables. Who needs NET_RAW.
func Who(ctx context.Context, link *net.Interface, own netip.Addr, others []netip.Addr,
) (map[netip.Addr][]string, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil, errors.New("an ARP query needs a deadline")
	}
	const kind = unix.ETH_P_ARP
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, kind<<8&0xff00|kind>>8)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "arp")
	defer file.Close()
	to := &unix.SockaddrLinklayer{Protocol: kind<<8&0xff00 | kind>>8, Ifindex: link.Index, Halen: 6,
		Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: to.Protocol, Ifindex: link.Index}); err != nil {
		return nil, fmt.Errorf("binding a packet socket: %w", err)
	}
	addrs, out := append([]netip.Addr{own}, others...), map[netip.Addr][]string{}
	for i := range 2 {
		for _, a := range addrs {
			if err := unix.Sendto(fd, request(link.HardwareAddr, a), 0, to); err != nil {
				return nil, fmt.Errorf("sending an ARP request for %v: %w", a, err)
			}
		}
		until := deadline
		if i == 0 {
			until = time.Now().Add(time.Until(deadline) / 2)
		}
		if err := hear(file, until, own, others, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// minWait is the minimum time that each round of requests waits for a second answer.
const minWait = 50 * time.Millisecond

// request returns an ARP request for an address.
func request(mac net.HardwareAddr, a netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, 1} // Ethernet, IPv4, their lengths, a request
	b = append(append(b, mac...), 0, 0, 0, 0)
	return append(append(b, 0, 0, 0, 0, 0, 0), a.AsSlice()...)
}

// hear collects the answers to one round of requests. It ends at the given time at the latest. If all other
// machines have answered, it ends after ten times the delay of the slowest answer.
func hear(file *os.File, until time.Time, own netip.Addr, others []netip.Addr, into map[netip.Addr][]string) error {
	began, silent := time.Now(), slices.Clone(others)
	b := make([]byte, 128)
	for {
		if err := file.SetReadDeadline(until); err != nil {
			return fmt.Errorf("setting a read deadline: %w", err)
		}
		n, err := file.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading ARP replies: %w", err)
		}
		a, mac, ok := answer(b[:n])
		if !ok || a != own && !slices.Contains(others, a) {
			continue
		}
		if !slices.Contains(into[a], mac) && len(into[a]) < maxAnswers {
			into[a] = append(into[a], mac)
		}
		i := slices.Index(silent, a)
		if i < 0 {
			continue
		}
		if silent = slices.Delete(silent, i, i+1); len(silent) == 0 {
			if early := began.Add(max(minWait, 10*time.Since(began))); early.Before(until) {
				until = early
			}
		}
	}
}

// maxAnswers limits the answers that are kept for one address, because every machine on the link can answer.
const maxAnswers = 8

// answer returns the address and MAC from an ARP reply. It returns false for any other packet.
func answer(b []byte) (netip.Addr, string, bool) {
	const reply = 2
	if len(b) < packetLen || binary.BigEndian.Uint16(b[6:]) != reply || b[4] != 6 || b[5] != 4 {
		return netip.Addr{}, "", false
	}
	return netip.AddrFrom4([4]byte(b[14:18])), net.HardwareAddr(b[8:14]).String(), true
}
