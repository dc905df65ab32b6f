# One flow of commands over MPTCP and two paths, in the guest. From the kernel's command line: DELAY_A and DELAY_B, one way; LOSS at
# random on both paths and both ways, from a second before the first command on; CUT_S, when path A goes dead, seconds since boot, and BACK_S, when it returns (0: not);
# PERIOD_NS, BEGIN_NS, COUNT and SIZE of the commands; RCVBUF, the robot's receive buffer, 0 for the kernel's own; SYSCTLS of both hosts, separated by commas; END_S.
here=$(dirname "$JOB")
. "$here/../dumbbell.sh"
for host in controller robot; do
    ip netns add $host
    ip -n $host link set lo up
done

# path NAME NETWORK DELAY: a cable of its own, with netem at either end; neighbours by hand, for an ARP request would take a place.
path() {
    ip link add "path-$1" netns controller address "02:00:00:00:0$2:01" type veth \
        peer name "path-$1" netns robot address "02:00:00:00:0$2:02"
    ip -n controller addr add "10.$2.0.1/24" dev "path-$1"
    ip -n robot addr add "10.$2.0.2/24" dev "path-$1"
    for host in controller robot; do
        ip -n $host link set "path-$1" up gso_max_segs 1
        in_ $host tc qdisc add dev "path-$1" root netem delay "$3" limit 100000
    done
    ip -n controller neigh add "10.$2.0.2" lladdr "02:00:00:00:0$2:02" dev "path-$1" nud permanent
    ip -n robot neigh add "10.$2.0.1" lladdr "02:00:00:00:0$2:01" dev "path-$1" nud permanent
}
path a 1 "$DELAY_A"
path b 2 "$DELAY_B"
for host in controller robot; do
    for setting in $(echo "$SYSCTLS" | tr , ' '); do in_ $host sysctl -qw "$setting"; done
    ip -n $host mptcp limits set subflow 2 add_addr_accepted 2
done
# The robot tells of its second address, and the controller's kernel opens the second subflow to it.
ip -n robot mptcp endpoint add 10.2.0.2 dev path-b id 2 signal

# lossy PATH DELAY LOSS: both ways; what is on its way still arrives.
lossy() {
    for host in controller robot; do in_ $host tc qdisc change dev "path-$1" root netem delay "$2" loss "$3" limit 100000; done
}
in_ robot /usr/bin/env python3 "$here/peer.py" receive "$RCVBUF" "$SIZE" "$COUNT" /run/out/arrived "$END_S" &
sleep 1
in_ controller /usr/bin/env python3 "$here/peer.py" send 10.1.0.2 "$SIZE" "$COUNT" "$PERIOD_NS" "$BEGIN_NS" "$END_S" > /run/out/sender &
# Until SECONDS since boot.
until_() { /usr/bin/env python3 -c "import sys, time; time.sleep(max(0, float(sys.argv[1]) - time.monotonic()))" "$1"; }
# Both subflows are there: a join that is lost is not tried again.
until_ $((BEGIN_NS / 1000000000 - 1))
lossy a "$DELAY_A" "$LOSS"
lossy b "$DELAY_B" "$LOSS"
if [ "$CUT_S" != 0 ]; then
    until_ "$CUT_S"
    lossy a "$DELAY_A" 100%
    if [ "$BACK_S" != 0 ]; then
        until_ "$BACK_S"
        lossy a "$DELAY_A" "$LOSS"
    fi
fi
wait
for host in controller robot; do in_ $host cat /proc/net/netstat > "/run/out/counters-$host"; done
for path in a b; do in_ controller cat "/sys/class/net/path-$path/statistics/tx_packets" > "/run/out/packets-$path" || true; done
