"""An expectation with all that its state follows from."""

from typing import NamedTuple

from sqlalchemy import Connection

from mailonce.core.expectations.consumption import Consumption, standings
from mailonce.core.expectations.expectation import Expectation, ExpectationState
from mailonce.core.expectations.settle import MailMatch, Settlement, settle
from mailonce.store.expectations import consumptions, expectations, matches


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
    expectation = expectations.get(tx, workspace, id_)
    if expectation is None:
        return None
    mails = matches.that_count(tx, id_)
    artifacts = {one.artifact for mail in mails for one in mail.candidates}
    used = {one.id: one for one in consumptions.of_artifacts(tx, sorted(artifacts))}
    if expectation.state is ExpectationState.CONSUMED:
        # What was consumed here counts, also where its mails are deleted.
        used |= {one.id: one for one in consumptions.of_expectation(tx, id_)}
    return ExpectationStanding(
        expectation,
        mails,
        [used[key] for key in sorted(used)],
        expectations.has_unread_mail(tx, expectation),
    )
