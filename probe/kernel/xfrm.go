package kernel

import (
	"fmt"
	"net/netip"
)

// XFRMPolicy is an IPsec policy. It determines how the kernel treats packets that match its selector: before they
// leave ("out"), when they arrive for this machine ("in"), or when the kernel forwards them ("fwd").
type XFRMPolicy struct {
	From, To         netip.Prefix
	Proto            int // 0 = any
	FromPort, ToPort int // 0 = any
	Direction        string
	Priority         int  // the lowest priority wins
	Blocks           bool // true if the policy drops packets; otherwise they pass, encrypted if there are templates
	Required         bool // true if packets must be encrypted
	Template         string
	Associated       bool // true if a security association exists for a template
}

// String formats the policy as one line.
func (p XFRMPolicy) String() string {
	switch text := p.Direction + " " + p.Selector(); {
	case p.Blocks:
		return text + " block"
	case p.Required:
		return text + " by " + p.Template
	default:
		return text + " allow"
	}
}

// Selector formats the selector like 'ip xfrm policy'.
func (p XFRMPolicy) Selector() string {
	text := fmt.Sprintf("src %s dst %s", p.From, p.To)
	if p.Proto != 0 {
		text += fmt.Sprintf(" proto %d", p.Proto)
	}
	if p.FromPort != 0 {
		text += fmt.Sprintf(" sport %d", p.FromPort)
	}
	if p.ToPort != 0 {
		text += fmt.Sprintf(" dport %d", p.ToPort)
	}
	return text
}
