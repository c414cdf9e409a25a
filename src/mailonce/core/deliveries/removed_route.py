"""What can be done about deliveries whose route was removed, in words."""

from shlex import quote


def removed_route_words(
    name: str | None, *, is_taken: bool = False, delivery: str | None = None
) -> str:
    """Say why nothing is sent to a route that was removed, and what to do.

    `name` is what it had, as far as that is known; `is_taken`: another route has it now.
    `delivery`, where one is to be sent again that may have no dead letter.
    """
    if name is None:
        return "its route was removed; send its event to another one: `mailonce reprocess EVENT`"
    removed = f"its route {name} was removed"
    if is_taken:
        command = f"mailonce reprocess EVENT --route {quote(name)}"
        return f"{removed}; send its event to the one that has its name now: `{command}`"
    return f"{removed}; {put_back_words(name, delivery=delivery)}"


def put_back_words(name: str, *, delivery: str | None = None) -> str:
    """Say how the dead letters of a removed route, or one delivery, are sent after all."""
    again = f"dead retry --route {quote(name)}" if delivery is None else f"redeliver {delivery}"
    # Its secret went with it: an endpoint that checks signatures would refuse them all.
    return (
        f"put the route back with `mailonce route add {quote(name)} …` (`--secret` keeps its "
        f"secret; else give its endpoint the new one), then `mailonce {again}`"
    )
