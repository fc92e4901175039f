package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
)

// xfrmError translates errors from the kernel about IPsec.
func xfrmError(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("IPsec policies, without the capability NET_ADMIN: %w", probe.ErrNotVisible)
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return nil // this kernel does not support IPsec
	}
	return fmt.Errorf("listing IPsec policies: %w", err)
}

// XFRMPolicies lists the IPsec policies that apply to all packets. It omits the policies of sockets, marked
// packets and xfrm interfaces.
func XFRMPolicies() ([]XFRMPolicy, error) {
	list, err := Undisturbed(func() ([]netlink.XfrmPolicy, error) { return netlink.XfrmPolicyList(netlink.FAMILY_ALL) })
	if err != nil {
		return nil, xfrmError(err)
	}
	var states []netlink.XfrmState
	if len(list) > 0 {
		if states, err = netlink.XfrmStateList(netlink.FAMILY_ALL); err != nil {
			return nil, xfrmError(err)
		}
	}
	var out []XFRMPolicy
	for _, l := range list {
		if l.Dir > netlink.XFRM_DIR_FWD || l.Mark != nil || l.Ifid != 0 || l.Src == nil || l.Dst == nil {
			continue
		}
		v4 := l.Dst.IP.To4() != nil
		one := XFRMPolicy{From: prefixOf(l.Src, v4), To: prefixOf(l.Dst, v4), Proto: int(l.Proto), FromPort: l.SrcPort,
			ToPort: l.DstPort, Direction: strings.TrimPrefix(l.Dir.String(), "dir "), Priority: l.Priority,
			Blocks: l.Action == netlink.XFRM_POLICY_BLOCK}
		for _, t := range l.Tmpls {
			if t.Optional == 0 && !one.Required {
				one.Required = true
				one.Template = fmt.Sprintf("%s %s %s to %s", t.Proto, t.Mode, anyIP(t.Src), anyIP(t.Dst))
			}
			for _, s := range states {
				one.Associated = one.Associated || associated(s, t, one.To)
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// associated reports whether a security association belongs to a template.
func associated(s netlink.XfrmState, t netlink.XfrmPolicyTmpl, to netip.Prefix) bool {
	if s.Proto != t.Proto || t.Reqid != 0 && s.Reqid != t.Reqid || s.Spi == 0 {
		return false
	}
	if t.Dst == nil || t.Dst.IsUnspecified() {
		a := addrOf(s.Dst)
		return a.IsValid() && to.Contains(a)
	}
	return t.Dst.Equal(s.Dst)
}

func anyIP(a net.IP) string {
	if a == nil || a.IsUnspecified() {
		return "any"
	}
	return a.String()
}
