# One run, in the guest: a load through one qdisc. From the kernel's command line: TRAFFIC, the program; LOAD, its file; START_NS;
# END_NS; QDISC, its words separated by commas; BAND, the qdisc of each band of prio, in the same way; SERVED, 1 to put it before a
# server of 10 Mbit/s, 0 where it shapes by itself; BUCKETS, 1 to give each flow the bucket of its number, where the kernel's hash, whose
# seed is another in every boot, would now and then put two into one.
. "$(dirname "$JOB")/../dumbbell.sh"
for host in robot operator; do
    ip netns add $host
    ip -n $host link set lo up
done
pair robot operator 1 1500

words() { echo "$1" | tr , ' '; }
# HTB as in dumbbell.sh: it asks its leaf for a packet when the one before has been sent. Timers are up to a microsecond late, which the
# four bytes in its bucket make up for. The 14 bytes of the Ethernet header, which taut's packets do not have, are taken off at the root.
if [ "$SERVED" = 1 ]; then
    in_ robot tc qdisc add dev operator root handle 1: stab overhead -14 htb default 1
    in_ robot tc class add dev operator parent 1: classid 1:1 htb rate 10mbit burst 4 cburst 4
    in_ robot tc qdisc add dev operator parent 1:1 handle 2: $(words "$QDISC")
else
    in_ robot tc qdisc add dev operator root handle 2: $(words "$STAB") $(words "$QDISC")
fi
if [ -n "${BAND:-}" ]; then
    for band in 1 2 3; do in_ robot tc qdisc add dev operator parent 2:$band $(words "$BAND"); done
fi

in_ operator "$TRAFFIC" record robot /run/out/arrived "$END_NS" &
in_ operator "$TRAFFIC" sink "$END_NS" &
in_ robot "$TRAFFIC" replay 10.1.0.2 "$LOAD" "$START_NS" $((BUCKETS * 2)) &
wait
in_ robot tc -s -j qdisc show dev operator > /run/out/tc
