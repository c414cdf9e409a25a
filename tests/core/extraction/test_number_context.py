"""A number is a price, a measure, a date or part of something by what stands right beside it."""

import pytest

from mailonce.core.extraction.extraction import Evidence
from mailonce.core.extraction.number_context import rejection

NONE = None
CASES: dict[str, Evidence | None] = {
    "code 4829 is": NONE,
    "code: 4829.": NONE,
    "(4829)": NONE,
    "*4829*": NONE,
    "$4829": Evidence.CURRENCY,
    "Rs. 4829": Evidence.CURRENCY,
    "4829 €": Evidence.CURRENCY,
    "4829 zł": Evidence.CURRENCY,
    "4829円": Evidence.CURRENCY,
    "R$ 4829": Evidence.CURRENCY,
    "4829 руб": Evidence.CURRENCY,
    "4829 minutes": Evidence.UNIT,
    "4829%": Evidence.UNIT,
    "4829 KB": Evidence.UNIT,
    "4829年": Evidence.UNIT,
    "4829 минут": Evidence.UNIT,
    "4829 mints": NONE,
    "4829 日本": NONE,
    "+4829": Evidence.PHONE,
    "(415) 4829": Evidence.PHONE,
    "#4829": Evidence.HASH_SIGN,
    "10:4829": Evidence.TIME,
    "4829:10": Evidence.TIME,
    "4829.50": Evidence.PART_OF_NUMBER,
    "3,4829": Evidence.PART_OF_NUMBER,
    "2026/4829": Evidence.PART_OF_NUMBER,
    "4829/7": Evidence.PART_OF_NUMBER,
    "a=4829": Evidence.PART_OF_NUMBER,
    "4829.example": Evidence.PART_OF_NUMBER,
    "**** 4829": Evidence.MASKED_NUMBER,
    "Nov 4829": Evidence.DATE,
    "3 de noviembre de 4829": Evidence.DATE,
    "November 3, 4829": Evidence.DATE,
    "marvellous 4829": NONE,
}  # fmt: skip


def test_what_stands_beside_a_number(subtests: pytest.Subtests) -> None:
    for text, evidence in CASES.items():
        with subtests.test(text):
            start = text.index("4829")

            assert rejection(text, start, start + 4) is evidence


def test_three_groups_that_are_a_date(subtests: pytest.Subtests) -> None:
    for shape, is_date in {"03-11-26": True, "26-11-03": True, "90-41-77": False}.items():
        with subtests.test(shape):
            assert (rejection(shape, 0, len(shape)) is Evidence.DATE) is is_date
