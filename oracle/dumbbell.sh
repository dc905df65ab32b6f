# Two hosts, a router each, and a link between the routers that is slow, short of room and long:
#
#   robot ─── near ═══ far ─── operator          10.1.0.1 … 10.2.0.1
#
# bottleneck RATE QUEUE_BYTES DELAY LOSS makes that link, the same both ways but for LOSS, which is random, behind the queue, and
# towards the operator alone.

in_() { ip netns exec "$@"; }

# pair LEFT RIGHT NETWORK MTU: a cable; its devices have the names of what they lead to, and know each other's hardware addresses,
# because an ARP request would take its place in the queue.
pair() {
    ip link add "$2" netns "$1" address "02:00:00:00:0$3:01" type veth \
        peer name "$1" netns "$2" address "02:00:00:00:0$3:02"
    ip -n "$1" addr add "10.$3.0.1/24" dev "$2"
    ip -n "$2" addr add "10.$3.0.2/24" dev "$1"
    ip -n "$1" link set "$2" up mtu "$4" gso_max_segs 1
    ip -n "$2" link set "$1" up mtu "$4" gso_max_segs 1
    ip -n "$1" neigh add "10.$3.0.2" lladdr "02:00:00:00:0$3:02" dev "$2" nud permanent
    ip -n "$2" neigh add "10.$3.0.1" lladdr "02:00:00:00:0$3:01" dev "$1" nud permanent
}

# dumbbell MTU
dumbbell() {
    for host in robot near far operator; do
        ip netns add $host
        ip -n $host link set lo up
    done
    pair robot near 1 "$1"
    pair near far 3 1500
    pair operator far 2 "$1"
    ip -n robot route add default via 10.1.0.2
    ip -n near route add default via 10.3.0.2
    ip -n far route add default via 10.3.0.1
    ip -n operator route add default via 10.2.0.2
    for host in near far; do in_ $host sysctl -qw net.ipv4.ip_forward=1; done
}

# A server and its queue as a device has them: HTB lets a packet go when the one before it has been sent, to the nanosecond, because
# its bucket has no room to save up; until then packets wait in a FIFO counted in bytes, which does not contain the one in
# service. The time of service itself passes on the far side, in netem, whose queue is long enough for all that is under way. A
# qdisc would count the 14 bytes of the Ethernet header.
bottleneck() {
    one_way near far operator "$1" "$2" "$3" "$4"
    one_way far near robot "$1" "$2" "$3" 0%
}

one_way() {
    in_ "$1" tc qdisc add dev "$2" root handle 1: stab overhead -14 htb default 1
    in_ "$1" tc class add dev "$2" parent 1: classid 1:1 htb rate "$4" burst 1 cburst 1
    in_ "$1" tc qdisc add dev "$2" parent 1:1 bfifo limit "$5"
    in_ "$2" tc qdisc add dev "$3" root stab overhead -14 netem rate "$4" delay "$6" loss "$7" limit 100000
}
