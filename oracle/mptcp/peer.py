"""Both ends of a flow of commands over the kernel's MPTCP.

    peer.py receive RCVBUF SIZE COUNT FILE END_S
    peer.py send ADDRESS SIZE COUNT PERIOD_NS BEGIN_NS END_S

A command is its number, when it was made (CLOCK_MONOTONIC, ns) and filling, SIZE bytes with its length in front, as taut frames it.
FILE gets number, made and arrived of each, i64. RCVBUF is the receive buffer as the kernel counts it, 0 for its own. The sender prints how many subflows there were when half was sent."""

import select
import socket
import struct
import sys
import time

IPPROTO_MPTCP, SOL_MPTCP, MPTCP_INFO = 262, 284, 1
SO_RCVBUFFORCE = 33
PORT = 5600
HEAD = struct.Struct("<Iqq")
ENTRY = struct.Struct("<qqq")


def open_socket():
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return stream


def receive(buffer_size, size, count, path, end):
    listener = open_socket()
    if buffer_size:
        # The kernel takes it twice.
        listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, buffer_size // 2)
    # On every address: the second subflow comes to the second one.
    listener.bind(("", PORT))
    listener.listen(1)
    stream, _ = listener.accept()
    buffer, arrived, length = b"", 0, HEAD.size + size - 16
    with open(path, "wb") as file:
        while arrived < count and (left := end - time.monotonic()) > 0:
            # A connection whose paths are all dead says nothing of its end.
            if not select.select([stream], [], [], left)[0]:
                break
            piece = stream.recv(65536)
            if not piece:
                break
            now = time.monotonic_ns()
            buffer += piece
            while len(buffer) >= length:
                _, number, made = HEAD.unpack_from(buffer)
                file.write(ENTRY.pack(number, made, now))
                buffer = buffer[length:]
                arrived += 1


def send(address, size, count, period, begin, end):
    stream = open_socket()
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.connect((address, PORT))
    for number in range(count):
        made = begin + number * period
        if (left := made - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
        if number == count // 2:
            # struct mptcp_info begins with how many subflows there are beside the first.
            print(f"subflows={1 + stream.getsockopt(SOL_MPTCP, MPTCP_INFO, 64)[0]}", flush=True)
        stream.sendall(HEAD.pack(size, number, made).ljust(HEAD.size + size - 16, b"\0"))
    time.sleep(max(0, end - time.monotonic()))


def main():
    match sys.argv[1:]:
        case ["receive", buffer_size, size, count, path, end]:
            receive(int(buffer_size), int(size), int(count), path, int(end))
        case ["send", address, *numbers]:
            send(address, *map(int, numbers))


if __name__ == "__main__":
    main()
