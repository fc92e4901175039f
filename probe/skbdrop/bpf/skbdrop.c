// Three programs that note what becomes of the packets of one question, which calico-probe itself sends: where one
// leaves by an interface, comes in by one, and is dropped. They look on, and change nothing. 'make bpf' compiles them
// into skbdrop.o, which is committed with them; trace_linux.go loads that.
//
// Of the kernel's structures only the fields that are read are declared: their places come from the BTF of the kernel
// that loads this (CO-RE). What is read of a packet is read as probe_read_kernel does: a bad pointer is an error.
//
// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common { unsigned int inum; };
struct net { struct ns_common ns; };
typedef struct { struct net *net; } possible_net_t;
struct net_device { char name[16]; int ifindex; possible_net_t nd_net; };
struct dst_entry { struct net_device *dev; };
struct sock_common { possible_net_t skc_net; };
struct sock { struct sock_common __sk_common; };
struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned long _skb_refdst;
	__u16 network_header;
	unsigned char *head, *data;
};
#pragma clang attribute pop

enum kind { LEFT, CAME, DROPPED };

// What trace_linux.go has too: a change here is one there.
#define ADDRS 4
#define NUMBERS 8
#define CALLS 6
#define NAME 48
#define LAYERS 3 // a packet, inside a tunnel packet, quoted by an ICMP error: any three
#define MOST 1000

struct filter {
	__u8 addrs[ADDRS][16]; // IPv4 as ::ffff:a.b.c.d; one of them is the packet's source or destination
	__u16 numbers[NUMBERS]; // the echo's identifier, or one of the ports; as on the wire
	__u16 vxlan; // port; as on the wire
	__u8 proto; // 6; 1 is ICMP of both families
	__u8 pad;
};

struct packet {
	__u8 src[16], dst[16]; // where a tunnel wraps it or an error quotes it, its own
	__u32 seq;
	__u16 sport, dport;
	__u8 proto, type, ttl, quoted, wrapped, pad[3];
};

struct event {
	__u64 time;
	__u32 kind, reason, netns, ifindex;
	struct packet packet;
	char dev[16];
	char calls[CALLS][NAME]; // of a drop: the function that dropped it, who called that, and so on
};

struct filter filter; // set by trace_linux.go
__u32 noted; // how many events there were, also those for which there was no room

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 19);
} skbdrop_events SEC(".maps");

// How many frames of the stack are looked through for the function that drops.
#define FRAMES 16

struct stack { __u64 frames[FRAMES]; };
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack);
} skbdrop_stacks SEC(".maps");

// What is read of a packet at once: a header of IPv6 or IPv4, and what of the next one is looked at.
struct ip { __u8 bytes[40 + 16]; };

static __always_inline int same(const __u8 *a, const __u8 *b, int n)
{
	for (int i = 0; i < n; i += 4)
		if (*(const __u32 *)(a + i) != *(const __u32 *)(b + i))
			return 0;
	return 1;
}

// addressed tells whether a header has an address that is looked for.
static __noinline int addressed(const __u8 *header)
{
	int v4 = header[0] >> 4 == 4;

	for (int i = 0; i < ADDRS; i++) {
		const __u8 *a = filter.addrs[i];

		if (!(*(__u64 *)a | *(__u64 *)(a + 8)))
			return 0; // no more are looked for
		if (v4 && *(__u32 *)(a + 8) == bpf_htonl(0xffff) && (same(header + 12, a + 12, 4) || same(header + 16, a + 12, 4)))
			return 1;
		if (!v4 && (same(header + 8, a, 16) || same(header + 24, a, 16)))
			return 1;
	}
	return 0;
}

static __noinline int numbered(__u16 n)
{
	for (int i = 0; i < NUMBERS; i++)
		if (n && filter.numbers[i] == n)
			return 1;
	return 0;
}

static __always_inline __u16 u16at(const __u8 *b) { return *(const __u16 *)b; }

// ours tells whether a header, and the beginning of the next one, are those of a packet that is looked for.
static __always_inline int ours(const __u8 *header, const __u8 *l4, __u8 proto)
{
	if ((proto == 58 ? 1 : proto) != filter.proto)
		return 0;
	if (filter.proto != 1)
		return (numbered(u16at(l4)) || numbered(u16at(l4 + 2))) && addressed(header);
	// an echo or its reply
	return (l4[0] == 0 || l4[0] == 8 || l4[0] == 128 || l4[0] == 129) && numbered(u16at(l4 + 4)) && addressed(header);
}

static __always_inline void describe(const __u8 *l4, __u8 proto, struct packet *p)
{
	p->proto = proto;
	if (proto == 1 || proto == 58) {
		p->type = l4[0];
		p->seq = u16at(l4 + 6);
		return;
	}
	p->sport = u16at(l4);
	p->dport = u16at(l4 + 2);
	if (proto == 6) {
		p->type = l4[13];
		p->seq = *(const __u32 *)(l4 + 4);
	}
}

static __always_inline void address4(__u8 *to, const __u8 *from)
{
	*(__u64 *)to = 0;
	*(__u32 *)(to + 8) = bpf_htonl(0xffff);
	*(__u32 *)(to + 12) = *(const __u32 *)from;
}

// error tells whether an ICMP message quotes the packet that it is about.
static __always_inline int error(__u8 proto, __u8 type)
{
	return proto == 1 ? type == 3 || type == 5 || type == 11 || type == 12 : type >= 1 && type <= 4;
}

// find looks for a packet of ours at an IP header, in what a tunnel wraps, and in what an ICMP error quotes.
static __noinline int find(const unsigned char *at, struct packet *p)
{
	struct ip ip;
	__u8 rest[16], quoted = 0;

	for (int layer = 0; layer < LAYERS; layer++) {
		if (bpf_probe_read_kernel(&ip, sizeof(ip), at))
			return 0;
		int version = ip.bytes[0] >> 4;
		__u8 proto, *l4 = ip.bytes + 20;

		if (version == 4 && (ip.bytes[0] & 15) >= 5) {
			proto = ip.bytes[9];
			if (ip.bytes[6] & 0x1f || ip.bytes[7]) // a later fragment has no ports
				return 0;
			at += (ip.bytes[0] & 15) * 4;
			if (ip.bytes[0] != 0x45) { // it has options
				if (bpf_probe_read_kernel(rest, sizeof(rest), at))
					return 0;
				l4 = rest;
			}
		} else if (version == 6) {
			proto = ip.bytes[6];
			at += 40;
			l4 = ip.bytes + 40;
		} else {
			return 0;
		}
		if (proto == 4 || proto == 41) // IP in IP
			continue;
		if (ours(ip.bytes, l4, proto)) {
			__builtin_memset(p, 0, sizeof(*p));
			describe(l4, proto, p);
			p->quoted = quoted;
			p->wrapped = layer > quoted;
			if (version == 4) {
				p->ttl = ip.bytes[8];
				address4(p->src, ip.bytes + 12);
				address4(p->dst, ip.bytes + 16);
			} else {
				p->ttl = ip.bytes[7];
				__builtin_memcpy(p->src, ip.bytes + 8, 16);
				__builtin_memcpy(p->dst, ip.bytes + 24, 16);
			}
			return 1;
		}
		if (proto == 17 && u16at(l4 + 2) == filter.vxlan && filter.vxlan) {
			at += 8 + 8 + 14;
		} else if ((proto == 1 || proto == 58) && error(proto, l4[0])) {
			quoted = 1;
			at += 8;
		} else {
			return 0;
		}
	}
	return 0;
}

static __noinline void device(struct net_device *dev, struct event *e)
{
	e->ifindex = BPF_CORE_READ(dev, ifindex);
	e->netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	BPF_CORE_READ_STR_INTO(&e->dev, dev, name);
}

// where says in which network namespace, and at which interface, a packet was dropped. A packet in a socket has no
// interface any more, and one that was just made by a socket none yet but that of its route.
static __always_inline void where(struct sk_buff *skb, struct event *e)
{
	struct net_device *dev = BPF_CORE_READ(skb, dev);

	if (dev)
		device(dev, e);
	if (e->netns)
		return;
	e->ifindex = 0;
	e->dev[0] = 0;
	if (BPF_CORE_READ(skb, sk))
		e->netns = BPF_CORE_READ(skb, sk, __sk_common.skc_net.net, ns.inum);
	struct dst_entry *dst = (struct dst_entry *)(BPF_CORE_READ(skb, _skb_refdst) & ~1UL);
	if (!dst)
		return;
	dev = BPF_CORE_READ(dst, dev);
	if (dev)
		device(dev, e);
}

static __noinline void name(char *to, __u64 address)
{
	// A call that never returns is the last of its function: what it would return to is another one's.
	__u64 call = address - 1;

	bpf_snprintf(to, NAME, "%ps", &call, sizeof(call));
}

// calls names the functions by which a packet came to be dropped. The kernel writes the names itself, so that no
// address of it leaves it, whatever kptr_restrict says.
static __always_inline void calls(void *ctx, __u64 location, struct event *e)
{
	__u32 zero = 0, n = 1;
	struct stack *s = bpf_map_lookup_elem(&skbdrop_stacks, &zero);

	name(e->calls[0], location);
	if (!s)
		return;
	__builtin_memset(s, 0, sizeof(*s));
	if (bpf_get_stack(ctx, s->frames, sizeof(s->frames), 0) < 0)
		return;
	int found = 0;
	for (int i = 0; i < FRAMES; i++) {
		if (found && n < CALLS && s->frames[i])
			name(e->calls[n++], s->frames[i]);
		if (s->frames[i] == location)
			found = 1;
	}
}

static __always_inline struct event *begin(__u32 kind, const struct packet *p)
{
	if (__sync_fetch_and_add(&noted, 1) >= MOST)
		return 0;
	struct event *e = bpf_ringbuf_reserve(&skbdrop_events, sizeof(*e), 0);
	if (!e)
		return 0;
	__builtin_memset(e, 0, sizeof(*e));
	e->time = bpf_ktime_get_ns();
	e->kind = kind;
	e->packet = *p;
	return e;
}

static __always_inline int note(struct net_device *dev, __u32 kind, const struct packet *p)
{
	struct event *e = begin(kind, p);

	if (!e)
		return 0;
	device(dev, e);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int left(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct packet p;

	if (!find(skb->head + skb->network_header, &p))
		return 0;
	return note((void *)ctx[1], LEFT, &p);
}

SEC("tp_btf/netif_receive_skb")
int came(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct packet p;

	if (!find(skb->data, &p)) // the link's header is taken off already
		return 0;
	return note(skb->dev, CAME, &p);
}

SEC("tp_btf/kfree_skb")
int dropped(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	const unsigned char *data = skb->data, *network = skb->head + skb->network_header;
	struct packet p;

	// Where nobody has looked for the network's header yet, the packet begins with it, or with the link's.
	if (!find(network, &p) && (data == network || !find(data, &p)))
		return 0;
	struct event *e = begin(DROPPED, &p);
	if (!e)
		return 0;
	e->reason = ctx[2];
	where(skb, e);
	calls(ctx, ctx[1], e);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

char license_of[] SEC("license") = "Dual MIT/GPL";
