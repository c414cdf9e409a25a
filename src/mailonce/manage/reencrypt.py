"""Reencrypt: after a new master key was put in front, let it seal what the older ones still seal.

Somebody asks for it, and it is not done at a start: while a key is rolled out process by process,
those that do not have it yet would lose every source at once. It runs in slices, each of them a
transaction: what was sealed stays so, whatever stops the rest, and to run it again, or twice at the
same time, does no harm.
"""

from dataclasses import dataclass

from mailonce.manage.managing import Parts
from mailonce.store import sealed_values
from mailonce.store.sealed_values import SealedSlice, SealedTable

SLICE_ROWS = 200
# Of one request; whoever asked asks again.
ROWS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Reencryption:
    """How many values were sealed anew, and how many an older key still seals."""

    encrypted: int
    left: int


async def reencrypt(
    parts: Parts, *, slice_rows: int = SLICE_ROWS, rows_max: int = ROWS_MAX
) -> Reencryption:
    """Seal with the first master key what the others seal, up to a number of rows."""
    encrypted = 0
    for table in sealed_values.TABLES:
        after = None
        while encrypted < rows_max:
            done = await _seal_slice(parts, table, after, slice_rows)
            encrypted += done.rows
            after = done.last
            if after is None:
                break
    if encrypted:
        await parts.configuration.announce()
    older = parts.sealer.older_ids
    left = await parts.database.read(lambda tx: sealed_values.count_under(tx, older))
    return Reencryption(encrypted, left)


async def _seal_slice(parts: Parts, table: SealedTable, after: object, rows: int) -> SealedSlice:
    sealer, chance = parts.sealer, parts.clock.chance
    return await parts.database.write(
        lambda tx: sealed_values.seal_slice(
            tx, table, sealer, after=after, limit=rows, chance=chance
        )
    )
