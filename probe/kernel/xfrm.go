package kernel

import (
	"fmt"
	"net/netip"
)

// XFRMPolicy is a policy of IPsec: what the kernel does with packets that its selector matches, before they leave
// ("out"), after they came for this machine ("in"), or where they are forwarded ("fwd").
type XFRMPolicy struct {
	From, To         netip.Prefix
	Proto            int // 0 = any
	FromPort, ToPort int // 0 = any
	Direction        string
	Priority         int  // the lowest wins
	Blocks           bool // it drops them; else they pass, encrypted where there are templates
	Required         bool // they must be encrypted
	Template         string
	Associated       bool // there is a security association for a template
}

// String is the policy in one line.
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

// Selector is what the policy matches, as 'ip xfrm policy' shows it.
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
