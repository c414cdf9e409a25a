"""Share a process's slots between workspaces, and within each between its routes."""

import heapq
from collections.abc import Iterable
from typing import NamedTuple


class Hungry(NamedTuple):
    """A route that could start `most` attempts now and has `running` under way."""

    route: str
    workspace: str
    running: int
    most: int


def share(slots: int, hungry: Iterable[Hungry], *, workspace_max: int) -> dict[str, int]:
    """Give each free slot to whoever has the fewest: first the workspace, then its route.

    A workspace never has more than `workspace_max` at once, so that one whose endpoints are all
    slow leaves room for the others.
    """
    by_workspace: dict[str, list[tuple[int, str, int]]] = {}
    running: dict[str, int] = {}
    for one in hungry:
        running[one.workspace] = running.get(one.workspace, 0) + one.running
        if one.most > 0:
            heap = by_workspace.setdefault(one.workspace, [])
            heap.append((one.running, one.route, one.most))
    turns = [(running[name], name) for name in by_workspace]
    heapq.heapify(turns)
    for heap in by_workspace.values():
        heapq.heapify(heap)
    given: dict[str, int] = {}
    while slots > 0 and turns:
        has, workspace = turns[0]
        heap = by_workspace[workspace]
        if not heap or has >= workspace_max:
            heapq.heappop(turns)
            continue
        under_way, route, most = heap[0]
        given[route] = given.get(route, 0) + 1
        slots -= 1
        if most > 1:
            heapq.heapreplace(heap, (under_way + 1, route, most - 1))
        else:
            heapq.heappop(heap)
        heapq.heapreplace(turns, (has + 1, workspace))
    return given
