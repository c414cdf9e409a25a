"""A steady load: requests at a fixed rate, whatever the server does, in a process of its own."""

import json
import select
import socket
import sys
import time
from collections import deque

from benchmarks.requests import single_events

CONNECTIONS = 32


def pace(port: int, path: str, first: int, rate: int, seconds: int) -> dict[int, float]:
    """Send `rate` events a second; give for each answered with 200 when it should have been sent.

    The time it should have been sent, so that a server that makes us wait is not excused.
    """
    requests = single_events(path, first, rate * seconds)
    poll = select.epoll()
    by_fd = {}
    for _ in range(CONNECTIONS):
        one = socket.create_connection(("127.0.0.1", port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        by_fd[one.fileno()] = one
        poll.register(one, select.EPOLLIN)
    free = deque(by_fd)
    waiting: dict[int, int] = {}
    sent: dict[int, float] = {}
    begun = time.time()
    following = 0
    while following < len(requests) or waiting:
        now = time.time()
        while free and following < len(requests) and begun + following / rate <= now:
            fd = free.popleft()
            by_fd[fd].sendall(requests[following])
            waiting[fd] = following
            following += 1
        wait_s = 1.0
        if free and following < len(requests):
            wait_s = max(0.0, begun + following / rate - time.time())
        for fd, _ in poll.poll(wait_s):
            answer = by_fd[fd].recv(65536)
            place = waiting.pop(fd)
            if answer.startswith(b"HTTP/1.1 200"):
                sent[first + place] = begun + place / rate
            free.append(fd)
    return sent


if __name__ == "__main__":
    port, path, first, rate, seconds = sys.argv[1:]
    print(json.dumps(pace(int(port), path, int(first), int(rate), int(seconds))))
