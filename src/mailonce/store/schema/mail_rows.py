"""The kinds of rows that mail brings into the group commit.

An inbox numbers its mail in the statement that keeps it, under the lock of the inbox's row: so
numbers become visible in their order, and none is left out. A mail whose inbox was deleted
meanwhile is kept without a number.
"""

from mailonce.core.inboxes.mail_items import BlobRow, MailRow
from mailonce.core.inboxes.message_items import AttachmentRow, DigestedRow, MessageRow
from mailonce.store.schema.mail_tables import ATTACHMENTS, BLOBS, MAILS, MESSAGES
from mailonce.store.schema.row_kind import Fold, RowKind

_FIELDS = (
    "key, workspace, digester, inbox, address, source, account, arrival, sha256, format, "
    "mail_bytes, facts, state, due_ms, deadline_ms, made_ms, seq, lane, attempts, round_began, "
    "redeliveries, token, again"
)

BLOB_KIND = RowKind(
    row=BlobRow,
    table=BLOBS,
    array_of="blob_row",
    values={"used_ms": "{received_ms}"},
    fold={"used_ms": Fold.GREATEST},
    lock_order=("workspace", "sha256"),
    group="mail",
)
MAIL_KIND = RowKind(
    row=MailRow,
    table=MAILS,
    array_of="mail_row",
    group="mail",
    lane="digester",
    # A trigger brings the inbox's own number and counts up to date after each row.
    sqlite=f"""
INSERT INTO mails ({_FIELDS})
VALUES ({{key}}, {{workspace}}, {{digester}}, {{inbox}}, {{address}}, {{source}}, {{account}},
    {{arrival}}, {{sha256}}, {{format}}, {{mail_bytes}}, {{facts}}, {{state}}, {{received_ms}},
    {{received_ms}} + {{deadline_s}} * 1000, {{received_ms}},
    (SELECT seq + 1 FROM inboxes WHERE id = {{inbox}}), 0, 0, 0, 0, 0, false)
ON CONFLICT DO NOTHING
""",  # noqa: S608
    postgres=f""", _mail_counts AS (
    SELECT inbox, count(*) AS mails, sum(mail_bytes) AS bytes FROM {{rows}} AS r GROUP BY inbox
), _inboxes AS MATERIALIZED (
    SELECT i.id, i.seq, i.mails + c.mails AS mails, i.bytes + c.bytes AS bytes, c.mails AS new
    FROM all_won, inboxes AS i JOIN _mail_counts AS c ON i.id = c.inbox
    ORDER BY i.id FOR UPDATE OF i
), _numbered AS (
    UPDATE inboxes AS i SET seq = n.seq + n.new, mails = n.mails, bytes = n.bytes
    FROM _inboxes AS n WHERE i.id = n.id
), _mails AS (
    INSERT INTO mails ({_FIELDS})
    SELECT r.key, r.workspace, r.digester, r.inbox, r.address, r.source, r.account, r.arrival,
        r.sha256, r.format, r.mail_bytes, r.facts, r.state, {{received_ms}},
        {{received_ms}} + r.deadline_s * 1000, {{received_ms}},
        n.seq + row_number() OVER (PARTITION BY r.inbox ORDER BY r.key), 0, 0, 0, 0, 0, false
    FROM all_won, {{rows}} AS r LEFT JOIN _inboxes AS n ON n.id = r.inbox
    ON CONFLICT DO NOTHING
)""",  # noqa: S608
)
MESSAGE_KIND = RowKind(
    row=MessageRow,
    table=MESSAGES,
    array_of="message_row",
    lock_order=("id",),
    group="messages",
)
ATTACHMENT_KIND = RowKind(
    row=AttachmentRow,
    table=ATTACHMENTS,
    array_of="attachment_row",
    lock_order=("message", "position"),
    group="messages",
)
DIGESTED_KIND = RowKind(
    row=DigestedRow,
    table=MAILS,
    array_of="digested_row",
    group="messages",
    sqlite="UPDATE mails SET message = {message} WHERE key = {mail}",
    postgres=""", _digested AS (
    UPDATE mails AS m SET message = r.message
    FROM all_won, {rows} AS r WHERE m.key = r.mail
)""",
)

MAIL_KINDS = (BLOB_KIND, MAIL_KIND, MESSAGE_KIND, ATTACHMENT_KIND, DIGESTED_KIND)
