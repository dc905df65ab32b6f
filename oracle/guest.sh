# One run, in the guest: TCP on a dumbbell, and where it is said a telehaptic stream and constant cross traffic beside it. From the
# kernel's command line: TRAFFIC, the program; RATE, QUEUE and DELAY of the link; LOSS at random towards the operator, `0%` for none;
# SEGMENT, TCP's full packet; END_NS; HAPTIC_NS, CROSS_NS and BULK_NS, when each begins; HAPTIC_BYTES and CROSS_PERIOD_NS, 0 for
# none; CONGESTION, `none` for no TCP; SYSCTLS of both hosts, separated by commas; QUICKACK, 1 to acknowledge every segment.
. "$(dirname "$JOB")/dumbbell.sh"
dumbbell "$SEGMENT"
bottleneck "$RATE" "$QUEUE" "$DELAY" "$LOSS"
for setting in $(echo "$SYSCTLS" | tr , ' '); do
    in_ robot sysctl -qw "$setting"
    in_ operator sysctl -qw "$setting"
done
in_ operator ip route change default via 10.2.0.2 quickack "$QUICKACK"

over_ns=$((END_NS + 100000000))
in_ robot "$TRAFFIC" record near /run/out/sent $over_ns &
in_ operator "$TRAFFIC" record far /run/out/arrived $over_ns &
in_ robot "$TRAFFIC" sink $over_ns &
in_ operator "$TRAFFIC" sink $over_ns &
if [ "$HAPTIC_BYTES" -gt 0 ]; then
    in_ robot "$TRAFFIC" steady 10.2.0.1 5002 "$HAPTIC_BYTES" 1000000 "$HAPTIC_NS" "$END_NS" &
    in_ operator "$TRAFFIC" steady 10.1.0.1 5002 86 1000000 "$HAPTIC_NS" "$END_NS" &
fi
if [ "$CROSS_PERIOD_NS" -gt 0 ]; then
    in_ robot "$TRAFFIC" steady 10.2.0.1 5003 150 "$CROSS_PERIOD_NS" "$CROSS_NS" "$END_NS" &
fi
if [ "$CONGESTION" != none ]; then
    in_ robot "$TRAFFIC" bulk 10.2.0.1 5001 "$CONGESTION" "$BULK_NS" "$END_NS" &
fi
wait
