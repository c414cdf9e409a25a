"""A server whose resolver is lied to: `python rebinding.py serve …`.

`rebind.example` is a public address at the first look-up and ours at each one after it.
"""

import socket
from typing import Any

import aiohttp

from mailonce.edge.cli.main import run
from mailonce.net import http

# Public and routed nowhere since the relays of 6to4 were given up.
PUBLIC, PRIVATE = "192.88.99.1", "127.0.0.1"
asked = 0


class Rebinding(aiohttp.ThreadedResolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> Any:
        global asked  # noqa: PLW0603
        if host != "rebind.example":
            return await super().resolve(host, port, family)
        asked += 1
        address = PUBLIC if asked == 1 else PRIVATE
        return [
            {
                "hostname": host, "host": address, "port": port, "family": socket.AF_INET,
                "proto": 0, "flags": socket.AI_NUMERICHOST,
            }
        ]  # fmt: skip


if __name__ == "__main__":
    aiohttp.ThreadedResolver = Rebinding  # type: ignore[misc]
    http.DNS_KEEP_S = 0
    run()
