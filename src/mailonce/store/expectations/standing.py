"""Expectations with all that their states follow from, read for many at once."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, literal, select

from mailonce.core.expectations.consumption import Consumption, standings
from mailonce.core.expectations.expectation import Expectation, ExpectationState
from mailonce.core.expectations.settle import MailMatch, Settlement, settle
from mailonce.store.expectations import consumptions, expectations, matches
from mailonce.store.schema.expectation_tables import EXPECTATION_MAILS, EXPECTATIONS

# Of expectations that have mails, which may be many, so few are read with one statement.
WITH_MAILS_MAX = 20
# A statement with another number of ids is another statement, which must be prepared anew.
_SIZES = (1, 4, 16, 64)


def _first(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    # Of EXISTS in a list of columns PostgreSQL may make a walk through the whole other table, once
    # for all rows; of this one it cannot.
    return select(literal(1)).where(*conditions).limit(1).scalar_subquery().is_not(None)


_HAS_MAILS = _first(
    EXPECTATION_MAILS.c.expectation == EXPECTATIONS.c.id,
    EXPECTATION_MAILS.c.outcome.in_(matches.COUNTED),
)
# Made once: each statement that is made anew leaves some twenty kilobytes to the garbage collector.
LOAD = select(
    *expectations.COLUMNS,
    _first(*expectations.IS_UNREAD_MAIL).label("is_reading"),
    _HAS_MAILS.label("has_mails"),
).where(EXPECTATIONS.c.id.in_(bindparam("ids", expanding=True)))


class ExpectationStanding(NamedTuple):
    """An expectation, the mails that count, and the consumptions of what they had."""

    expectation: Expectation
    mails: list[MailMatch]
    # Of these artifacts, also those that other expectations of the same subject made.
    consumptions: list[Consumption]
    is_reading: bool

    def settle(self, *, now_ms: int) -> Settlement:
        return settle(
            self.expectation,
            self.mails,
            standings(self.consumptions),
            now_ms=now_ms,
            is_reading=self.is_reading,
        )


def load(tx: Connection, workspace: str, id_: bytes) -> ExpectationStanding | None:
    """Read an expectation and all that its state follows from; None where there is none."""
    known = load_all(tx, [id_]).get(id_)
    return None if known is None or known.expectation.workspace != workspace else known


def load_all(tx: Connection, ids: Collection[bytes]) -> dict[bytes, ExpectationStanding]:
    """Read expectations of any workspace, with few statements however many they are.

    Whether there is mail to be read is looked at before the mails that were: one that is read in
    between is not missed. Most expectations have no mail yet, and need the first statement alone.
    """
    if not ids:
        return {}
    known: dict[bytes, ExpectationStanding] = {}
    with_mails: list[Expectation] = []
    is_reading: dict[bytes, bool] = {}
    for row in tx.execute(LOAD, {"ids": padded(sorted(ids))}).mappings():
        expectation = expectations.read(row)
        is_reading[expectation.id] = bool(row["is_reading"])
        if row["has_mails"] or expectation.state is ExpectationState.CONSUMED:
            with_mails.append(expectation)
        else:
            known[expectation.id] = ExpectationStanding(
                expectation, [], [], is_reading[expectation.id]
            )
    for start in range(0, len(with_mails), WITH_MAILS_MAX):
        some = with_mails[start : start + WITH_MAILS_MAX]
        for expectation, mails, used in _with_mails(tx, some):
            known[expectation.id] = ExpectationStanding(
                expectation, mails, used, is_reading[expectation.id]
            )
    return known


def padded(ids: Sequence[bytes]) -> list[bytes]:
    """Repeat the last id, so that statements have few lengths."""
    size = next((size for size in _SIZES if size >= len(ids)), _SIZES[-1])
    size *= -(-len(ids) // size)
    return [*ids, *[ids[-1]] * (size - len(ids))]


def _with_mails(
    tx: Connection, some: Sequence[Expectation]
) -> Iterable[tuple[Expectation, list[MailMatch], list[Consumption]]]:
    mails = matches.that_count(tx, [one.id for one in some])
    artifacts = {id_: _artifacts(own) for id_, own in mails.items()}
    used = consumptions.of_artifacts(tx, sorted(set().union(*artifacts.values())))
    # What was consumed by an expectation counts, also where its mails are deleted.
    consumed = [one.id for one in some if one.state is ExpectationState.CONSUMED]
    of_own = consumptions.of_expectations(tx, consumed)
    for one in some:
        counts: Mapping[bytes, Consumption] = {
            it.id: it for it in used if it.artifact in artifacts.get(one.id, ())
        } | {it.id: it for it in of_own if it.expectation == one.id}
        yield one, mails.get(one.id, []), [counts[key] for key in sorted(counts)]


def _artifacts(mails: Iterable[MailMatch]) -> set[bytes]:
    return {one.artifact for mail in mails for one in mail.candidates}
