"""Large bodies: how much is taken of an arrival whose sender has proven nothing yet.

A webhook has some kilobytes, a mail many megabytes. So only a source whose provider hands over mail
takes bodies of that size, and where the source demands a password, a token or an address, only from
a sender whose head has it: what a signature proves is not known before the last byte.
"""

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.source import Source
from mailonce.core.signatures import proof
from mailonce.errors import ConfigError
from mailonce.pipeline.receive import Receiving, Reply, provider_of, receive


def bytes_max_of(
    parts: Receiving, source: Source, head: Arrival, *, usual: int, mail: int
) -> int | Reply:
    """Say how large a body this source takes from such a sender, or refuse it by its head.

    `head` has no body. `usual` is the limit of webhooks, `mail` that of mail.
    """
    try:
        takes_mail = provider_of(source).inbound is not None
    except ConfigError:
        return usual
    if not takes_mail:
        return usual
    if proof.check(source, head) is None:
        return mail
    # It answers and counts as for any other arrival without proof; the body is never asked for.
    flow = receive(parts, source.id, head)
    try:
        next(flow)
    except StopIteration as end:
        reply: Reply = end.value
        return reply
    flow.close()
    return usual
