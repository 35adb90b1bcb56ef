#!/usr/bin/env python3
"""Calls a port again and again without the job's token: silence, noise, other protocols, and what was overheard, whole,
cut short, and altered. `overhear` first, in the namespace of the switch:

    strangers.py overhear DEVICE FILE        until the end: what leaves DEVICE over TCP, stream by stream
    strangers.py call HOST PORT COUNT FILE   prints how many calls there were and whether anybody answered a wrong one
"""

import collections
import json
import random
import select
import signal
import socket
import struct
import sys
import time

AT_ONCE = 200
STAY_S = 0.3


def overhear(device, path):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    end.bind((device, 0))
    streams = collections.OrderedDict()

    def save(*_):
        with open(path, "w", encoding="utf-8") as file:
            json.dump([bytes(stream).hex() for stream in streams.values() if stream], file)
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    print("overhears", flush=True)
    while True:
        frame, address = end.recvfrom(65536)
        if address[2] == socket.PACKET_OUTGOING or frame[12:14] != b"\x08\x00" or frame[23] != 6:
            continue
        ip = frame[14:14 + struct.unpack(">H", frame[16:18])[0]]
        tcp = ip[(ip[0] & 15) * 4:]
        stream = streams.setdefault((ip[16:20], tcp[:4]), bytearray())
        if len(stream) < 65536:
            stream += tcp[(tcp[12] >> 4) * 4:]


def words(draw, overheard):
    kind = draw.randrange(7)
    if kind == 0 or not overheard:
        return draw.randbytes(draw.randrange(1, 400))
    if kind == 1:
        return b""
    if kind == 2:
        return b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
    text = bytearray(bytes.fromhex(draw.choice(overheard)))
    if kind in (3, 4):  # from the beginning, cut somewhere
        return bytes(text[:draw.randrange(1, len(text) + 1)])
    if kind == 5:
        text[draw.randrange(min(len(text), 200))] ^= 1 << draw.randrange(8)
    return bytes(text)


def call(host, port, count, path):
    with open(path, encoding="utf-8") as file:
        overheard = json.load(file)
    draw = random.Random(1)
    calls, made, refused = [], 0, 0
    while made < count or calls:
        while made < count and len(calls) < AT_ONCE:
            end = socket.socket()
            end.setblocking(False)
            end.connect_ex((host, port))
            calls.append((end, words(draw, overheard), time.monotonic() + STAY_S))
            made += 1
        for end, text, until in list(calls):
            writable = text is not None and select.select([], [end], [], 0)[1]
            try:
                if writable:
                    end.send(text)
                    calls[calls.index((end, text, until))] = (end, None, until)
                    continue
                closed = not writable and end.recv(4096, socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                closed = False
            except OSError:
                closed, refused = True, refused + 1
            if closed or time.monotonic() > until:
                calls.remove((end, text, until))
                end.close()
        time.sleep(0.001)
    print(json.dumps({"calls": made, "refused": refused, "overheard": len(overheard)}), flush=True)


def main():
    if sys.argv[1] == "overhear":
        overhear(sys.argv[2], sys.argv[3])
    else:
        call(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])


if __name__ == "__main__":
    main()
