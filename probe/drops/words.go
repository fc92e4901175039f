package drops

import (
	"strings"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

// meaning is what a counter counts.
type meaning struct{ kind, says string }

// meanings are the counters whose packets are lost, by table and name. Those that count what goes well, or what is
// lost and sent again by itself, are not here; so of a counter that is not here nothing is said.
var meanings = map[string]map[string]meaning{
	kernel.TallySNMP: {
		"IpInHdrErrors":     {kindTTL, "the TTL ran out here, or the IP header is bad"},
		"IpInAddrErrors":    {kindForwarding, "the address is not this machine's, and it does not forward (ip_forward)"},
		"IpInUnknownProtos": {KindOther, "nothing here takes that protocol"},
		"IpInDiscards":      {KindOther, "IPv4 discards them as they come in"},
		"IpOutDiscards":     {KindOther, "IPv4 discards them as they go out"},
		"IpOutNoRoutes":     {KindRoute, "there is no route for them"},
		"IpReasmFails":      {kindMTU, "their fragments are not put together again"},
		"IpFragFails":       {kindMTU, "they are larger than the MTU of the interface they would leave by, and must not be fragmented"},
		"IcmpInErrors":      {KindOther, "ICMP messages are bad as they come in"},
		"IcmpInCsumErrors":  {kindChecksum, "the checksum of ICMP messages is wrong as they come in"},
		"TcpInErrs":         {KindOther, "TCP segments are bad as they come in"},
		"TcpInCsumErrors":   {kindChecksum, "the checksum of TCP segments is wrong as they come in"},
		"UdpNoPorts":        {kindSocket, "nothing listens on that UDP port"},
		"UdpRcvbufErrors":   {kindSocket, "the receive buffer of a UDP socket is full"},
		"UdpSndbufErrors":   {kindSocket, "the send buffer of a UDP socket is full"},
		"UdpInErrors":       {KindOther, "UDP discards them as they come in"},
		"UdpInCsumErrors":   {kindChecksum, "the checksum of UDP datagrams is wrong as they come in"},

		"Ip6InHdrErrors":     {kindTTL, "the hop limit ran out here, or the IPv6 header is bad"},
		"Ip6InTooBigErrors":  {kindMTU, "they are larger than the MTU of the interface they would leave by"},
		"Ip6InNoRoutes":      {KindRoute, "there is no IPv6 route for them"},
		"Ip6InAddrErrors":    {kindForwarding, "the IPv6 address is not one that they are let in or forwarded for"},
		"Ip6InUnknownProtos": {KindOther, "nothing here takes that protocol"},
		"Ip6InTruncatedPkts": {KindOther, "they are cut off as they come in"},
		"Ip6InDiscards":      {KindOther, "IPv6 discards them as they come in"},
		"Ip6OutDiscards":     {KindOther, "IPv6 discards them as they go out"},
		"Ip6OutNoRoutes":     {KindRoute, "there is no IPv6 route for them"},
		"Ip6ReasmFails":      {kindMTU, "their fragments are not put together again"},
		"Ip6FragFails":       {kindMTU, "they are larger than the MTU of the interface they would leave by"},
		"Icmp6InErrors":      {KindOther, "ICMPv6 messages are bad as they come in"},
		"Icmp6InCsumErrors":  {kindChecksum, "the checksum of ICMPv6 messages is wrong as they come in"},
		"Udp6NoPorts":        {kindSocket, "nothing listens on that UDP port"},
		"Udp6RcvbufErrors":   {kindSocket, "the receive buffer of a UDP socket is full"},
		"Udp6InErrors":       {KindOther, "UDP discards them as they come in"},
		"Udp6InCsumErrors":   {kindChecksum, "the checksum of UDP datagrams is wrong as they come in"},
	},
	kernel.TallyNetstat: {
		"TcpExtListenOverflows":     {kindListen, "the queue of a TCP socket that listens is full: its program does not accept"},
		"TcpExtListenDrops":         {kindListen, "a TCP socket that listens drops new connections"},
		"TcpExtTCPReqQFullDrop":     {kindListen, "too many TCP connections are half open (SYN)"},
		"TcpExtTCPBacklogDrop":      {kindSocket, "the backlog of a TCP socket is full"},
		"TcpExtTCPRcvQDrop":         {kindSocket, "the receive queue of a TCP socket is full"},
		"TcpExtTCPMinTTLDrop":       {kindTTL, "a TCP socket takes a greater TTL alone (TTL security)"},
		"TcpExtPFMemallocDrop":      {KindOther, "the machine is out of memory for packets"},
		"TcpExtIPReversePathFilter": {KindRPFilter, "their source is not expected on the interface they come in by (rp_filter)"},
		"TcpExtTCPMD5NotFound":      {kindPassword, "they come without the TCP-MD5 password that a socket here wants (BGP's password)"},
		"TcpExtTCPMD5Unexpected":    {kindPassword, "they come with a TCP-MD5 password that no socket here wants (BGP's password)"},
		"TcpExtTCPMD5Failure":       {kindPassword, "their TCP-MD5 password is another than that of the socket here (BGP's password)"},
		"TcpExtTCPAORequired":       {kindPassword, "they come without the TCP-AO key that a socket here wants"},
		"TcpExtTCPAOBad":            {kindPassword, "their TCP-AO key is another than that of the socket here"},
		"TcpExtTCPAOKeyNotFound":    {kindPassword, "no socket here has their TCP-AO key"},
		"IpExtInNoRoutes":           {KindRoute, "there is no route to forward them by"},
		"IpExtInTruncatedPkts":      {KindOther, "they are cut off as they come in"},
		"IpExtInCsumErrors":         {kindChecksum, "the checksum of the IPv4 header is wrong as they come in"},
	},
	kernel.TallySoftnet: {
		"dropped":          {KindOther, "the queue between the NIC and the protocols is full (netdev_max_backlog)"},
		"flow_limit_count": {KindOther, "one flow takes too much of the queue between the NIC and the protocols"},
	},
	kernel.TallyConntrack: {
		"drop":          {KindConntrack, "connection tracking has no room for new connections (nf_conntrack_max)"},
		"insert_failed": {KindConntrack, "connection tracking could not insert their entries"},
	},
	kernel.TallyLink: {
		"rx_errors":            {KindInterface, "they are bad as %s receives them"},
		"tx_errors":            {KindInterface, "%s fails to send them"},
		"rx_dropped":           {KindInterface, "%s drops them as they come in"},
		"tx_dropped":           {KindInterface, "%s drops them as they go out: its other end is down or does not take them"},
		"rx_missed_errors":     {KindInterface, "%s has no room for what comes in"},
		"rx_otherhost_dropped": {KindMAC, "they come in by %s with another MAC address than its own"},
	},
	kernel.TallyQueue:    {"drops": {kindQueue, "the queueing discipline or a filter drops them (tc): %s"}},
	kernel.TallyListener: {"drops": {kindListen, "the queue of the TCP socket that listens at %s is full: its program does not accept"}},
}

// meaningOf is what a counter counts; false where that is not lost, or not known.
func meaningOf(k Key) (meaning, bool) {
	if k.Table == kernel.TallyXFRM {
		// All of /proc/net/xfrm_stat counts what IPsec drops, but for what waits for a key (xfrm_proc.rst).
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
