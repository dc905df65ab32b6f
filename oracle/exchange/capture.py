"""capture.py DEVICE FILE END_NS: every packet of DEVICE to a pcap file, until END_NS of CLOCK_MONOTONIC."""

import socket
import struct
import sys
import time

ETH_P_ALL, ETHERNET, NANOSECONDS = 3, 1, 0xA1B23C4D

device, path, end = sys.argv[1], sys.argv[2], int(sys.argv[3])
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
tap.bind((device, 0))
with open(path, "wb") as file:
    file.write(struct.pack("<IHHiIII", NANOSECONDS, 2, 4, 0, 0, 65535, ETHERNET))
    while (left := end - time.monotonic_ns()) > 0:
        tap.settimeout(left / 1e9)
        try:
            frame = tap.recv(65536)
        except TimeoutError:
            break
        now = time.monotonic_ns()
        file.write(struct.pack("<IIII", now // 10**9, now % 10**9, len(frame), len(frame)) + frame)
