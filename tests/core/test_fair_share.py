"""Slots go to whoever has the fewest, and never beyond a limit."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.work.fair_share import Demand, fair_share, surplus

demands = st.lists(
    st.builds(
        Demand,
        route=st.text("abcdefgh", min_size=1, max_size=3),
        workspace=st.sampled_from(["one", "two", "three"]),
        running=st.integers(0, 20),
        most=st.integers(0, 20),
    ),
    unique_by=lambda one: one.route,
)


@given(st.integers(0, 50), demands, st.integers(1, 40))
def test_nothing_is_given_beyond_a_limit_and_nothing_kept_back(
    slots: int, routes: list[Demand], workspace_max: int
) -> None:
    given_ = fair_share(slots, routes, workspace_max=workspace_max)

    by_route = {one.route: one for one in routes}
    running: Counter[str] = Counter()
    for one in routes:
        running[one.workspace] += one.running
    room = {
        name: min(
            max(0, workspace_max - running[name]),
            sum(one.most for one in routes if one.workspace == name),
        )
        for name in running
    }
    assert all(0 < number <= by_route[route].most for route, number in given_.items())
    assert sum(given_.values()) == min(slots, sum(room.values()))


def test_a_small_workspace_is_served_beside_one_that_owes_much() -> None:
    large = [Demand(f"large-{n}", "large", 30, 32) for n in range(50)]

    given_ = fair_share(40, [*large, Demand("small", "small", 0, 32)], workspace_max=2_000)

    assert given_["small"] == 32


def test_routes_of_a_workspace_share_what_it_gets() -> None:
    given_ = fair_share(
        10,
        [Demand("busy", "one", 6, 30), Demand("idle", "one", 0, 30)],
        workspace_max=100,
    )

    assert given_ == {"idle": 8, "busy": 2}


def test_a_workspace_whose_endpoints_hang_leaves_room() -> None:
    given_ = fair_share(20, [Demand("hangs", "one", 70, 30)], workspace_max=75)

    assert given_ == {"hangs": 5}


def test_a_route_with_nothing_under_way_has_a_slot_though_all_are_taken() -> None:
    slow = [Demand(f"slow-{n}", "one", 32, 8) for n in range(16)]

    given_ = fair_share(0, [*slow, Demand("quick", "one", 0, 32)], workspace_max=512, own_slots=10)

    assert given_ == {"quick": 1}


@given(st.integers(0, 50), demands, st.integers(1, 40), st.integers(0, 5))
def test_slots_of_their_own_come_first_and_are_as_many_as_said(
    slots: int, routes: list[Demand], workspace_max: int, own_slots: int
) -> None:
    given_ = fair_share(slots, routes, workspace_max=workspace_max, own_slots=own_slots)

    idle = [one for one in routes if one.most > 0 and not one.running]
    served = sum(one.route in given_ for one in idle)
    assert served >= min(len(idle), own_slots)
    assert sum(given_.values()) <= max(slots, min(len(idle), own_slots))
    assert all(given_[one.route] <= one.most for one in routes if one.route in given_)


def test_lanes_that_one_cannot_keep_up_with_are_shared_evenly() -> None:
    assert surplus(8, [0]) == 4
    assert surplus(8, [0, 0, 0]) == 6
    assert surplus(5, [4]) == 0
    assert surplus(1, [0]) == 0
    assert surplus(0, [0]) == 0
    assert surplus(8, []) == 0


@given(st.integers(0, 60), st.lists(st.integers(0, 60), max_size=6))
def test_sharing_lanes_comes_to_rest(behind: int, others: list[int]) -> None:
    given_ = surplus(behind, others)

    assert 0 <= given_ <= behind
    assert behind == 0 or behind - given_ >= 1
    if others:
        fewest = min(others)
        there = [given_ + fewest if n == others.index(fewest) else o for n, o in enumerate(others)]
        assert surplus(behind - given_, there) == 0
