"""A server whose resolver is lied to: `python rebinding.py serve …`.

`rebind.example` is a public address at the first look-up and ours at each one after it.
"""

from mailonce.edge.cli.main import run
from mailonce.net import dialer, names

# Public and routed nowhere since the relays of 6to4 were given up.
PUBLIC, PRIVATE = "192.88.99.1", "127.0.0.1"
asked = 0


class Rebinding(names.SystemResolver):
    async def resolve(self, host: str) -> tuple[str, ...]:
        global asked  # noqa: PLW0603
        if host != "rebind.example":
            return await super().resolve(host)
        asked += 1
        return (PUBLIC if asked == 1 else PRIVATE,)


if __name__ == "__main__":
    dialer.SystemResolver = Rebinding  # type: ignore[attr-defined]
    names.DNS_KEEP_S = 0.0
    run()
