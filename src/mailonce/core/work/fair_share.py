"""Share a process's slots between workspaces and their routes, and lanes between processes."""

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Demand(NamedTuple):
    """A route that could start `most` attempts now and has `running` under way."""

    route: str
    workspace: str
    running: int
    most: int


def fair_share(
    slots: int, demands: Iterable[Demand], *, workspace_max: int, own_slots: int = 0
) -> dict[str, int]:
    """Give each free slot to the workspace that has the fewest, within it to such a route.

    A workspace never has more than `workspace_max` at once, so that one whose endpoints are all
    slow leaves room for the others. A route with nothing under way has a slot of its own even
    where all are taken, so that the slow ones of its workspace cannot keep it waiting; of those
    there are `own_slots` left.
    """
    by_workspace: dict[str, list[tuple[int, str, int]]] = {}
    running: dict[str, int] = {}
    given: dict[str, int] = {}
    for one in demands:
        running[one.workspace] = running.get(one.workspace, 0) + one.running
        most = one.most
        if most > 0 and not one.running and len(given) < own_slots:
            given[one.route] = 1
            running[one.workspace] += 1
            slots -= 1
            most -= 1
        if most > 0:
            heap = by_workspace.setdefault(one.workspace, [])
            heap.append((one.running + given.get(one.route, 0), one.route, most))
    turns = [(running[name], name) for name in by_workspace]
    heapq.heapify(turns)
    for heap in by_workspace.values():
        heapq.heapify(heap)
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


def surplus(behind: int, others: Sequence[int]) -> int:
    """Say how many of the lanes that we cannot keep up with to give to other workers.

    `others` has the lanes that each other worker holds, whether or not it keeps up with them.
    While we keep up, lanes stay where they are: a wake-up from the same process is the quickest.
    """
    if not others:
        return 0
    fair = -(-(behind + sum(others)) // (len(others) + 1))
    return max(0, behind - fair)
