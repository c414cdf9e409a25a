"""Keys: equal for copies, different for anything else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.events.key import (
    KEY_BYTES,
    WHOLE,
    Alias,
    Identity,
    KeyScope,
    Recipe,
    conflict_key,
    dead_key,
    keys_of,
)

SCOPE = KeyScope("w", "p", "a")
RECIPE = Recipe(name="r", version=1, identity=("id", "@to"), content=("type", "@from"))
FIELDS = {"id": "1", "to": "ann@example.net", "type": "open", "from": "bob@example.net", "n": 1}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(value=st.dictionaries(st.text(), json_values, max_size=5))
def test_the_order_of_fields_makes_no_other_event(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))

    assert keys_of(SCOPE, Identity(WHOLE, turned)) == keys_of(SCOPE, Identity(WHOLE, value))


def test_a_key_is_made_of_identity_and_a_fingerprint_of_content() -> None:
    first = keys_of(SCOPE, Identity(RECIPE, FIELDS))
    changed = {name: keys_of(SCOPE, Identity(RECIPE, {**FIELDS, name: "other"})) for name in FIELDS}

    assert {name for name, one in changed.items() if one.key != first.key} == {"id", "to"}
    assert {name for name, one in changed.items() if one.fingerprint != first.fingerprint} == {
        "type",
        "from",
    }
    assert {len(first.key), len(first.fingerprint)} == {KEY_BYTES}


@pytest.mark.parametrize("written", ["ANN@Example.NET", " ann@example.net "])
def test_an_address_is_compared_without_case_and_spaces(written: str) -> None:
    same = keys_of(SCOPE, Identity(RECIPE, {**FIELDS, "to": written}))

    assert same == keys_of(SCOPE, Identity(RECIPE, FIELDS))


def test_a_field_that_is_missing_is_one_that_is_null() -> None:
    without = {name: value for name, value in FIELDS.items() if name != "id"}

    assert RECIPE.inputs(without) == RECIPE.inputs({**FIELDS, "id": None})


@pytest.mark.parametrize(
    "scope", [KeyScope("v", "p", "a"), KeyScope("w", "q", "a"), KeyScope("w", "p", "b")]
)
def test_the_same_words_elsewhere_are_another_event(scope: KeyScope) -> None:
    assert keys_of(scope, Identity(RECIPE, FIELDS)).key != (
        keys_of(SCOPE, Identity(RECIPE, FIELDS)).key
    )


def test_scopes_whose_names_run_together_stay_apart() -> None:
    assert KeyScope("a", "bc", "d").key([]) != KeyScope("ab", "c", "d").key([])


def test_an_alias_is_bound_to_the_event_it_leads_to() -> None:
    alias = (Alias("id", "evt-1"),)

    one, same, other = (
        keys_of(SCOPE, Identity(RECIPE, fields, alias))
        for fields in (FIELDS, {**FIELDS, "n": 2}, {**FIELDS, "type": "click"})
    )

    assert one.aliases == same.aliases
    assert one.aliases[0].key == other.aliases[0].key
    assert one.aliases[0].fingerprint != other.aliases[0].fingerprint


def test_an_alias_with_content_of_its_own_is_bound_to_that_alone() -> None:
    alias = (Alias("id", "evt-1", content=("type",)),)

    one, other = (
        keys_of(SCOPE, Identity(RECIPE, fields, alias)) for fields in (FIELDS, {**FIELDS, "id": 2})
    )

    assert one.key != other.key
    assert one.aliases == other.aliases


def test_a_new_version_claims_what_the_previous_one_claimed() -> None:
    newer = Recipe(name="r", version=2, identity=("id", "type"), previous=RECIPE)

    before = keys_of(SCOPE, Identity(RECIPE, FIELDS))
    after = keys_of(SCOPE, Identity(newer, FIELDS))

    assert after.previous is not None
    assert (after.previous.alias.key, after.previous.alias.fingerprint) == (
        before.key,
        before.fingerprint,
    )
    assert after.key != before.key
    assert bytes(after.previous.holder.fingerprint) == bytes(after.key)
    assert after.others == (after.previous.alias, after.previous.holder)


def test_the_fields_in_which_two_events_differ_are_named() -> None:
    other = {**FIELDS, "to": "ANN@example.net", "type": "click", "n": 2}

    assert RECIPE.differing(FIELDS, other) == ["type"]


def test_other_content_has_one_key_of_its_own_for_each_content() -> None:
    first = keys_of(SCOPE, Identity(RECIPE, FIELDS))
    other = keys_of(SCOPE, Identity(RECIPE, {**FIELDS, "type": "click"}))

    made = {conflict_key(first.key, one.fingerprint) for one in (first, other, other)}

    assert len(made) == 2
    assert first.key not in made


def test_what_cannot_be_read_is_known_by_its_bytes_and_its_account() -> None:
    keys = {dead_key(w, a, what) for w in "vw" for a in "ab" for what in (b"x", b"y")}

    assert len(keys) == 8
    assert dead_key("w", "a", b"x") in keys
