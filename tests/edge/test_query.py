"""Query parameters: what is refused, and what is read from the rest."""

import pytest

from mailonce.core.argument_error import ArgumentError
from mailonce.edge.http.query import read_limit


async def test_a_limit_is_bounded_however_it_is_written() -> None:
    for text in ("0", "-1", "1001", "9" * 30, "1e2", "\u0665", "", "0000000051000", "0" * 99 + "1"):
        with pytest.raises(ArgumentError, match="use a whole number from 1 to 1000"):
            await read_limit(text)

    assert [await read_limit(text) for text in ("1", "007", "1000")] == [1, 7, 1000]
