"""One end of a conversation by the kernel's own DCCP or SCTP: what `crates/io/examples/exchange.rs` is for taut's.

    peer.py client|server dccp2|dccp3|sctp LOCAL:PORT REMOTE:PORT [NAME=VALUE …]

The same arguments, the same messages, the same record, and the same answer: one line of facts. Besides: `streams`, over how many of
SCTP's streams messages go in turn; `refuse=1`, what a full send buffer does not take is gone; `sndbuf` and `rcvbuf`, bytes as the kernel counts them."""

import errno
import socket
import struct
import sys
import threading
import time

SOCK_DCCP, IPPROTO_DCCP, SOL_DCCP = 6, 33, 269
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SCTP_SNDINFO = 32, 33, 2
SERVICE, CCID, TX_CCID, RX_CCID = 2, 13, 14, 15
IPPROTO_SCTP, SCTP_NODELAY, SCTP_STATUS = 132, 3, 14
TAUT = int.from_bytes(b"taut", "big")


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def open_socket(protocol, options):
    if protocol == "sctp":
        line = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SCTP)
        line.setsockopt(IPPROTO_SCTP, SCTP_NODELAY, 1)
    else:
        line = socket.socket(socket.AF_INET, SOCK_DCCP, IPPROTO_DCCP)
        line.setsockopt(SOL_DCCP, SERVICE, struct.pack("!I", TAUT))
        line.setsockopt(SOL_DCCP, CCID, bytes([int(protocol[4:])]))
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for name, option in (("sndbuf", SO_SNDBUFFORCE), ("rcvbuf", SO_RCVBUFFORCE)):
        if name in options:
            # The kernel takes it twice.
            line.setsockopt(socket.SOL_SOCKET, option, options[name] // 2)
    return line


def on_stream(number):
    """struct sctp_sndinfo: stream, flags, payload protocol, context, association."""
    return [(IPPROTO_SCTP, SCTP_SNDINFO, struct.pack("=HHIIi", number, 0, 0, 0, 0))]


def speak(line, options, prefix, made):
    """Sends until it is done or the connection is over; `made` has one entry, how many."""
    send, size = options.get("send", 0), options.get("size", 75)
    period, close = options.get("period_ns", 0), options.get("close_ns", 1 << 62)
    streams, flags = options.get("streams", 0), socket.MSG_DONTWAIT if options.get("refuse") else 0
    following = max(time.monotonic_ns(), options.get("begin_ns", 0))
    for number in range(send):
        wait = following - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        while True:
            if time.monotonic_ns() >= close:
                return
            stamp = following if period else time.monotonic_ns()
            message = bytes(prefix) + struct.pack("<QQ", number, stamp)
            try:
                line.sendmsg([message.ljust(size, b"\0")], on_stream(number % streams) if streams else [], flags)
                break
            except BlockingIOError:
                if flags:
                    break
                # DCCP never waits for room in its queue of five, not even where it is asked to.
                time.sleep(0.0002)
            except OSError:
                return
        made[0] = number + 1
        following += period


def facts(line, protocol):
    if protocol == "sctp":
        status = line.getsockopt(IPPROTO_SCTP, SCTP_STATUS, 176)
        return f"state={struct.unpack_from('<i', status, 4)[0]}"
    ccids = [line.getsockopt(SOL_DCCP, name, 4)[0] for name in (TX_CCID, RX_CCID)]
    return f"tx_ccid={ccids[0]} rx_ccid={ccids[1]}"


def main():
    role, protocol, local, remote = sys.argv[1:5]
    words = dict(word.split("=", 1) for word in sys.argv[5:])
    path = words.pop("record", None)
    options = {name: int(value) for name, value in words.items()}
    started = time.monotonic_ns()
    line = open_socket(protocol, options)
    line.bind(address(local))
    if role == "client":
        line.connect(address(remote))
    else:
        line.listen(1)
        line, _ = line.accept()
        if protocol == "sctp":
            line.setsockopt(IPPROTO_SCTP, SCTP_NODELAY, 1)
    connected = time.monotonic_ns()
    known, made, received, record = facts(line, protocol), [0], 0, bytearray()
    prefix = 0 if protocol == "sctp" else 4
    threading.Thread(target=speak, args=(line, options, prefix, made), daemon=True).start()
    if "close_ns" in options:
        def goodbye():
            time.sleep(max(0, options["close_ns"] - time.monotonic_ns()) / 1e9)
            line.shutdown(socket.SHUT_RDWR)
        threading.Thread(target=goodbye, daemon=True).start()
    ended = "closed"
    while True:
        try:
            data = line.recv(65536)
        except OSError as error:
            ended = errno.errorcode[error.errno]
            break
        if not data:
            break
        received += 1
        record += data[prefix:prefix + 16] + struct.pack("<Q", time.monotonic_ns())
    closed = time.monotonic_ns()
    line.close()
    if path:
        with open(path, "wb") as file:
            file.write(record)
    print(f"connected_ms={(connected - started) / 1e6:.3f} closed_ms={(closed - started) / 1e6:.3f} made={made[0]} "
          f"received={received} {known} ended={ended}")


if __name__ == "__main__":
    main()
