package drops

import (
	"strings"

	"github.com/calico-probe/calico-probe/probe/tally"
)

// meaning describes what a counter counts.
type meaning struct{ kind, says string }

// meanings maps the counters of lost packets, by table and name, to their meanings. It omits counters of success. It
// also omits counters of losses that the sender repairs automatically. Counters that are not in this map are ignored.
var meanings = map[string]map[string]meaning{
	tally.SNMP: {
		"IpInHdrErrors":     {kindTTL, "the TTL ran out here, or the IP header is bad"},
		"IpInAddrErrors":    {kindForwarding, "the address is not this machine's, and it does not forward (ip_forward)"},
		"IpInUnknownProtos": {KindOther, "nothing here handles that protocol"},
		"IpInDiscards":      {KindOther, "IPv4 discards them on input"},
		"IpOutDiscards":     {KindOther, "IPv4 discards them on output"},
		"IpOutNoRoutes":     {KindRoute, "no route for them"},
		"IpReasmFails":      {kindMTU, "their fragments cannot be reassembled"},
		"IpFragFails":       {kindMTU, "they are larger than the MTU of the outgoing interface, and must not be fragmented"},
		"IcmpInErrors":      {KindOther, "received ICMP messages have errors"},
		"IcmpInCsumErrors":  {kindChecksum, "received ICMP messages have a wrong checksum"},
		"TcpInErrs":         {KindOther, "received TCP segments have errors"},
		"TcpInCsumErrors":   {kindChecksum, "received TCP segments have a wrong checksum"},
		"UdpNoPorts":        {kindSocket, "nothing listens on that UDP port"},
		"UdpRcvbufErrors":   {kindSocket, "the receive buffer of a UDP socket is full"},
		"UdpSndbufErrors":   {kindSocket, "the send buffer of a UDP socket is full"},
		"UdpInErrors":       {KindOther, "UDP discards them on input"},
		"UdpInCsumErrors":   {kindChecksum, "received UDP datagrams have a wrong checksum"},

		"Ip6InHdrErrors":     {kindTTL, "the hop limit ran out here, or the IPv6 header is bad"},
		"Ip6InTooBigErrors":  {kindMTU, "they are larger than the MTU of the outgoing interface"},
		"Ip6InNoRoutes":      {KindRoute, "no IPv6 route for them"},
		"Ip6InAddrErrors":    {kindForwarding, "the IPv6 address is not accepted or forwarded here"},
		"Ip6InUnknownProtos": {KindOther, "nothing here handles that protocol"},
		"Ip6InTruncatedPkts": {KindOther, "they arrive truncated"},
		"Ip6InDiscards":      {KindOther, "IPv6 discards them on input"},
		"Ip6OutDiscards":     {KindOther, "IPv6 discards them on output"},
		"Ip6OutNoRoutes":     {KindRoute, "no IPv6 route for them"},
		"Ip6ReasmFails":      {kindMTU, "their fragments cannot be reassembled"},
		"Ip6FragFails":       {kindMTU, "they are larger than the MTU of the outgoing interface"},
		"Icmp6InErrors":      {KindOther, "received ICMPv6 messages have errors"},
		"Icmp6InCsumErrors":  {kindChecksum, "received ICMPv6 messages have a wrong checksum"},
		"Udp6NoPorts":        {kindSocket, "nothing listens on that UDP port"},
		"Udp6RcvbufErrors":   {kindSocket, "the receive buffer of a UDP socket is full"},
		"Udp6InErrors":       {KindOther, "UDP discards them on input"},
		"Udp6InCsumErrors":   {kindChecksum, "received UDP datagrams have a wrong checksum"},
	},
	tally.Netstat: {
		"TcpExtListenOverflows":     {kindListen, "the queue of a listening TCP socket is full: its program does not accept"},
		"TcpExtListenDrops":         {kindListen, "a listening TCP socket drops new connections"},
		"TcpExtTCPReqQFullDrop":     {kindListen, "too many TCP connections are half open (SYN)"},
		"TcpExtTCPBacklogDrop":      {kindSocket, "the backlog of a TCP socket is full"},
		"TcpExtTCPRcvQDrop":         {kindSocket, "the receive queue of a TCP socket is full"},
		"TcpExtTCPMinTTLDrop":       {kindTTL, "a TCP socket requires a higher TTL (TTL security)"},
		"TcpExtPFMemallocDrop":      {KindOther, "the machine is out of memory for packets"},
		"TcpExtIPReversePathFilter": {KindRPFilter, "their source is not expected on their incoming interface (rp_filter)"},
		"TcpExtTCPMD5NotFound":      {kindPassword, "they lack the TCP-MD5 password that a socket here requires (the BGP password)"},
		"TcpExtTCPMD5Unexpected":    {kindPassword, "they have a TCP-MD5 password that no socket here expects (the BGP password)"},
		"TcpExtTCPMD5Failure":       {kindPassword, "their TCP-MD5 password differs from that of the socket here (the BGP password)"},
		"TcpExtTCPAORequired":       {kindPassword, "they lack the TCP-AO key that a socket here requires"},
		"TcpExtTCPAOBad":            {kindPassword, "their TCP-AO key differs from that of the socket here"},
		"TcpExtTCPAOKeyNotFound":    {kindPassword, "no socket here has their TCP-AO key"},
		"IpExtInNoRoutes":           {KindRoute, "no route to forward them"},
		"IpExtInTruncatedPkts":      {KindOther, "they arrive truncated"},
		"IpExtInCsumErrors":         {kindChecksum, "their IPv4 header arrives with a wrong checksum"},
	},
	tally.Softnet: {
		"dropped":          {KindOther, "the queue between the NIC and the protocols is full (netdev_max_backlog)"},
		"flow_limit_count": {KindOther, "one flow uses too much of the queue between the NIC and the protocols"},
	},
	tally.Conntrack: {
		"drop":          {KindConntrack, "connection tracking has no room for new connections (nf_conntrack_max)"},
		"insert_failed": {KindConntrack, "connection tracking could not insert their entries"},
	},
	tally.Link: {
		"rx_errors":            {KindInterface, "%s receives them with errors"},
		"tx_errors":            {KindInterface, "%s fails to send them"},
		"rx_dropped":           {KindInterface, "%s drops them on input"},
		"tx_dropped":           {KindInterface, "%s drops them on output: its other end is down or does not accept them"},
		"rx_missed_errors":     {KindInterface, "%s has no room for incoming packets"},
		"rx_otherhost_dropped": {KindMAC, "they arrive on %s for another MAC address"},
	},
	tally.Queue:    {"drops": {kindQueue, "the queueing discipline or a filter drops them (tc): %s"}},
	tally.Listener: {"drops": {kindListen, "the queue of the TCP socket listening on %s is full: its program does not accept"}},
}

// meaningOf returns the meaning of a counter. It returns false if a counter is unknown or does not count losses.
func meaningOf(k Key) (meaning, bool) {
	if k.Table == tally.XFRM {
		// All counters in /proc/net/xfrm_stat count packets that IPsec drops, except for packets
		// that wait for a key (xfrm_proc.rst).
		if k.Name == "XfrmAcquireError" {
			return meaning{}, false
		}
		direction := "in"
		switch {
		case strings.HasPrefix(k.Name, "XfrmOut"):
			direction = "out"
		case strings.HasPrefix(k.Name, "XfrmFwd"):
			direction = "through"
		}
		return meaning{kindIPsec, "IPsec (xfrm) drops them on their way " + direction}, true
	}
	m, known := meanings[k.Table][k.Name]
	return m, known
}
