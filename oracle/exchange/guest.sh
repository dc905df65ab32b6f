# One conversation over the dumbbell, in the guest. From the kernel's command line: PROTOCOL dccp2, dccp3 or sctp; CLIENT and SERVER
# taut or linux; EXCHANGE, taut's program; RATE, QUEUE, DELAY of the link, LOSS towards the operator and LOSS_BACK; CLIENT_SAYS
# and SERVER_SAYS, what each is told, in words separated by commas; NATIVE 1 for SCTP over IP, not UDP, between Linux and Linux; CAPTURE 1 for a capture of the robot's device; END_NS.
# The client is the robot.
here=$(dirname "$JOB")
. "$here/../dumbbell.sh"
dumbbell 1500
one_way near far operator "$RATE" "$QUEUE" "$DELAY" "$LOSS"
one_way far near robot "$RATE" "$QUEUE" "$DELAY" "$LOSS_BACK"

port=6511
if [ "$PROTOCOL" = sctp ]; then
    port=9899
fi
if [ "$PROTOCOL" = sctp ] && [ "$NATIVE" = 0 ]; then
    for host in robot operator; do
        # The kernel's SCTP over UDP (RFC 6951); a packet as long as taut's.
        in_ $host sysctl -qw net.sctp.encap_port=9899
    done
fi

# end HOST DEVICE WHO ROLE LOCAL REMOTE SAYS
end() {
    if [ "$3" = taut ]; then
        if [ "$PROTOCOL" != sctp ]; then
            # The kernel does not know that a raw socket has this protocol, and answers everything with Reset, No Connection.
            in_ "$1" tc qdisc add dev "$2" clsact
            in_ "$1" tc filter add dev "$2" egress protocol ip u32 match ip protocol 33 0xff \
                match u8 0x0f 0xff at 28 match u8 0x03 0xff at 44 action drop
        fi
        in_ "$1" "$EXCHANGE" "$4" "$PROTOCOL" "$5:$port" "$6:$port" "end_ns=$END_NS" $(echo "$7" | tr , ' ')
    else
        [ "$PROTOCOL" != sctp ] || [ "$NATIVE" = 1 ] || in_ "$1" sysctl -qw net.sctp.udp_port=9899
        in_ "$1" /usr/bin/env python3 "$here/peer.py" "$4" "$PROTOCOL" "$5:$port" "$6:$port" $(echo "$7" | tr , ' ')
    fi > "/run/out/$4"
}

[ "$CAPTURE" = 0 ] || in_ robot /usr/bin/env python3 "$here/capture.py" near /run/out/pcap "$END_NS" &
end operator far "$SERVER" server 10.2.0.1 10.1.0.1 "$SERVER_SAYS" &
sleep 1
end robot near "$CLIENT" client 10.1.0.1 10.2.0.1 "$CLIENT_SAYS" &
# An end that never hears of the other's goodbye would wait for ever.
sleep $((END_NS / 1000000000 + 3))
