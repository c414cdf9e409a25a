"""The kinds of rows that sends bring into the group commit, and what an event proves of a send."""

from mailonce.core.ledger.send_proof import ProofRow
from mailonce.core.sends.send_item import ActRow, ContentRow, RequestRow, SendRow
from mailonce.core.sends.send_lifecycle import PROVABLE, SendState
from mailonce.core.work.states import State
from mailonce.store.schema.row_kind import RowKind
from mailonce.store.schema.send_tables import SEND_ACTS, SEND_CONTENTS, SEND_REQUESTS, SENDS

_ACCEPTED = int(SendState.ACCEPTED)
_DONE = int(State.DONE)

CONTENT_KIND = RowKind(
    row=ContentRow,
    table=SEND_CONTENTS,
    array_of="send_content_row",
    values={"made_ms": "{received_ms}"},
    # All recipients of a request bring the same one.
    is_shared=True,
    group="sends",
)
REQUEST_KIND = RowKind(
    row=RequestRow,
    table=SEND_REQUESTS,
    array_of="send_request_row",
    values={"made_ms": "{received_ms}"},
    is_shared=True,
    lock_order=("key",),
    group="sends",
)
SEND_KIND = RowKind(
    row=SendRow,
    table=SENDS,
    array_of="send_row",
    values={
        "done_ms": f"CASE WHEN {{state}} = {_DONE} THEN {{made_ms}} END",
        **dict.fromkeys(
            ("attempts", "round_began", "redeliveries", "token", "flight", "tries"), "0"
        ),
        **dict.fromkeys(("again", "is_repeat", "is_resent"), "false"),
    },
    lock_order=("key",),
    group="sends",
    lane="sender",
)

ACT_KIND = RowKind(row=ActRow, table=SEND_ACTS, array_of="send_act_row", group="sends")

# An event that carries the id of a send proves that its provider has the mail: whatever the ledger
# thought before, it is accepted, its lease ends, and nothing more is done for it. A call was made
# for it, or the event speaks of somebody else's mail.
_PROVEN = f"""
    send_state = {_ACCEPTED}, state = {_DONE}, lease_ms = NULL, error = NULL,
    done_ms = coalesce(s.done_ms, {{received_ms}}), proof = coalesce(s.proof, {{event}}),
    message_id = coalesce(s.message_id, nullif({{message_id}}, ''))"""
_IS_PROVEN = f"""s.key = {{key}} AND s.workspace = {{workspace}} AND s.flight > 0
    AND {{recipient}} IN ('', s.recipient) AND (
        s.send_state IN ({", ".join(str(int(state)) for state in sorted(PROVABLE))})
        OR (s.send_state = {_ACCEPTED} AND s.message_id IS NULL AND {{message_id}} <> ''))"""
_OF_ROW = {name: f"r.{name}" for name in ProofRow.__struct_fields__}
_OF_PROOF = {name: f"p.{name}" for name in ProofRow.__struct_fields__}
PROOF_KIND = RowKind(
    row=ProofRow,
    table=SENDS,
    array_of="send_proof_row",
    # Of several events of one send in a batch, the first is the proof.
    is_shared=True,
    group="proofs",
    sqlite=f"UPDATE sends AS s SET {_PROVEN} WHERE {_IS_PROVEN}",  # noqa: S608
    postgres=f""", _proofs AS MATERIALIZED (
    SELECT r.* FROM all_won, {{rows}} AS r, sends AS s
    WHERE {_IS_PROVEN.format(**_OF_ROW)} ORDER BY s.key FOR UPDATE OF s
), _proven AS (
    UPDATE sends AS s SET {_PROVEN.format(received_ms="{received_ms}", **_OF_PROOF)}
    FROM _proofs AS p WHERE s.key = p.key
)""",  # noqa: S608
)

SEND_KINDS = (CONTENT_KIND, REQUEST_KIND, SEND_KIND, ACT_KIND, PROOF_KIND)
