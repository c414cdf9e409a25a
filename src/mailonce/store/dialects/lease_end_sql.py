"""What the statements of both databases share: how the end of a lease changes its row `d`.

The values come from `core/work/lifecycle.py`. Which of two moves it is, the plain one or that of a
redelivery asked for meanwhile, is known only as the row is changed.
"""

from mailonce.core.work.job import End
from mailonce.core.work.lifecycle import ENDS, NEXT_ROUND, end_of_lease

# A lease that is given back: its attempt does not count, all else stays.
GIVE_BACK = (
    f"state = {end_of_lease(End.UNTRIED).state:d}, attempts = d.attempts - 1, lease_ms = NULL"
)


def end_values(given: str, *, now: str, later: str) -> str:
    """Spell the changes of a row; `given` stands before the name of a value, `later` is max()."""
    ends = ", ".join(str(int(state)) for state in ENDS)
    return f"""
        state = CASE WHEN d.again THEN {NEXT_ROUND.state:d} ELSE {given}state END,
        lane = {later}(d.lane, CASE WHEN d.again THEN {NEXT_ROUND.lane:d} ELSE {given}lane END),
        due_ms = CASE WHEN d.again THEN {now} ELSE coalesce({now} + {given}due_in_ms, d.due_ms) END,
        round_began = CASE WHEN d.again THEN d.attempts ELSE d.round_began END,
        done_ms = CASE WHEN NOT d.again AND {given}state IN ({ends}) THEN {now} END,
        again = false, lease_ms = NULL, status = {given}status, error = {given}error
"""
