"""Whether expectations have anything due: asked each second by every process, usually in vain."""

from typing import Any

from sqlalchemy import Select, exists, or_, select

from mailonce.store.expectations.consumptions import IS_OVER
from mailonce.store.expectations.expectations import IS_OVERDUE, IS_UNREPORTED

# A deadline or a lease that is over at `now_ms`, or an end that was not reported.
HAS_DUE: Select[Any] = select(
    or_(exists().where(*IS_OVERDUE), exists().where(*IS_OVER), exists().where(*IS_UNREPORTED))
)
