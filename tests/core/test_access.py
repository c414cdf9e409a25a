"""What a key may be used for."""

import pytest

from mailonce.core.access import READS, WRITES, Caller, Scope, demand, digest_of
from mailonce.errors import AccessError


@pytest.mark.parametrize("scope", Scope)
def test_each_scope_passes_where_it_is_named_and_only_there(scope: Scope) -> None:
    caller = Caller("w", scope)

    for wanted in (READS, WRITES, frozenset({Scope.ADMIN})):
        if scope in wanted:
            demand(caller, wanted)
        else:
            with pytest.raises(AccessError, match=f"yours has the scope {scope}"):
                demand(caller, wanted)


def test_the_scope_that_would_do_is_named_and_never_more_than_needed() -> None:
    agent = Caller("w", Scope.AGENT)

    with pytest.raises(AccessError, match="needs an admin key"):
        demand(agent, frozenset({Scope.ADMIN}))
    with pytest.raises(AccessError, match="needs an operator key"):
        demand(agent, WRITES)


def test_who_writes_also_reads_and_an_agent_does_neither() -> None:
    assert WRITES < READS
    assert not {Scope.AGENT, Scope.SENDER} & READS


def test_only_the_admin_is_one() -> None:
    assert [scope for scope in Scope if Caller("w", scope).is_admin] == [Scope.ADMIN]


def test_digests_differ_and_do_not_hold_the_key() -> None:
    digests = {digest_of(one) for one in ("mok_a", "mok_b", "", "\ud800")}

    assert len(digests) == 4
    assert all(b"mok" not in digest for digest in digests)
