"""The Worker of `examples/cloudflare-worker` posts a mail for each recipient."""

from mailonce.testing.mail import SimulatedHook, SimulatedMail
from mailonce.testing.simulator import Post, Simulator
from mailonce.testing.simulators.cloudflare import worker_post


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    del mode
    secret = simulator.secret
    return [worker_post(secret, mail.raw, mail.sender, one, now_s=now_s) for one in mail.recipients]


HOOK = SimulatedHook(modes=("raw",), write=write)
