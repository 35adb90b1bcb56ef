#!/usr/bin/env python3
"""A switch in user space: hands Ethernet frames on between devices, each after a delay, and loses some of them.

    relay.py DELAY_S LOSS SEED DEVICE...

Runs in the namespace that holds the switch ends of the nodes' cables. Frames go to the device behind which their
destination was seen, or to all others.
"""

import heapq
import itertools
import random
import select
import socket
import sys
import time

ETH_P_ALL = 3
PACKET_OUTGOING = 4


def main():
    delay, loss, seed, devices = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    draw = random.Random(seed)
    sockets = {}
    for device in devices:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        end.bind((device, 0))
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sockets[end] = device
    behind, queue, order = {}, [], itertools.count()
    print("relay", flush=True)
    while True:
        wait = max(0.0, queue[0][0] - time.monotonic()) if queue else None
        for end in select.select(list(sockets), [], [], wait)[0]:
            while True:
                try:
                    frame, address = end.recvfrom(65536)
                except BlockingIOError:
                    break
                if address[2] == PACKET_OUTGOING:
                    continue
                behind[frame[6:12]] = end
                if draw.random() >= loss:
                    heapq.heappush(queue, (time.monotonic() + delay, next(order), end, frame))
        while queue and queue[0][0] <= time.monotonic():
            _, _, source, frame = heapq.heappop(queue)
            known = behind.get(frame[:6])
            for end in [known] if known else [other for other in sockets if other is not source]:
                try:
                    if end is not source:
                        end.send(frame)
                except OSError:
                    pass  # the cable is cut, or the queue full: as on a wire


if __name__ == "__main__":
    main()
