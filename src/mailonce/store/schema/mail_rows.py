"""The kinds of rows that mail brings into the group commit.

An inbox numbers its mail in the statement that keeps it, under the lock of the inbox's row: so
numbers become visible in their order, and none is left out. A mail whose inbox was deleted
meanwhile is kept without a number. A message is kept only where its mail still is: who deletes a
mail would never find a message that comes later.

Bytes name the mail that they came with. Each further mail with the same bytes says that it shares
them, and is found by an index; the first, as most are, costs no such entry.
"""

from mailonce.core.inboxes.mail_items import BlobRow, MailRow
from mailonce.core.inboxes.message_items import AttachmentRow, DigestedRow, MessageRow
from mailonce.store.schema.mail_tables import ATTACHMENTS, BLOBS, MAILS, MESSAGES
from mailonce.store.schema.row_kind import Fold, RowKind

_FIELDS = (
    "key, workspace, digester, inbox, address, source, account, arrival, sha256, format, "
    "mail_bytes, facts, state, due_ms, deadline_ms, made_ms, seq, lane, attempts, round_began, "
    "redeliveries, token, again, shares_blob"
)
_MESSAGE = ", ".join(MessageRow.__struct_fields__)
_ATTACHMENT = ", ".join(AttachmentRow.__struct_fields__)


def _columns(fields: str) -> str:
    return ", ".join(f"r.{name}" for name in fields.split(", "))


def _marks(fields: str) -> str:
    return ", ".join(f"{{{name}}}" for name in fields.split(", "))


BLOB_KIND = RowKind(
    row=BlobRow,
    table=BLOBS,
    array_of="blob_row_2",
    values={"used_ms": "{received_ms}"},
    fold={"used_ms": Fold.GREATEST},
    lock_order=("workspace", "sha256"),
    # One mail may come to many inboxes.
    is_shared=True,
    group="mail",
    content="content",
    postgres=""", _blobs AS (
    INSERT INTO blobs AS kept (workspace, sha256, content, used_ms, mail)
    SELECT r.workspace, r.sha256, r.content, {received_ms}, r.mail
    FROM all_won, {rows} AS r
    ORDER BY r.workspace, r.sha256
    ON CONFLICT (workspace, sha256)
        DO UPDATE SET used_ms = greatest(kept.used_ms, excluded.used_ms)
    RETURNING workspace, sha256, mail
)""",
)
MAIL_KIND = RowKind(
    row=MailRow,
    table=MAILS,
    array_of="mail_row",
    group="mail",
    lane="digester",
    # A trigger brings the inbox's own number and counts up to date after each row: the last row of
    # an inbox must be the one with the highest number.
    sqlite=f"""
INSERT OR ROLLBACK INTO mails ({_FIELDS})
SELECT r.key, r.workspace, r.digester, r.inbox, r.address, r.source, r.account, r.arrival,
    r.sha256, r.format, r.mail_bytes, r.facts, r.state, {{received_ms}},
    {{received_ms}} + r.deadline_s * 1000, {{received_ms}},
    i.seq + row_number() OVER (PARTITION BY r.inbox ORDER BY r.key), 0, 0, 0, 0, 0, false,
    b.mail IS NOT r.key
FROM {{rows}} AS r LEFT JOIN inboxes AS i ON i.id = r.inbox
    LEFT JOIN blobs AS b ON b.workspace = r.workspace AND b.sha256 = r.sha256
ORDER BY r.inbox, r.key
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
        n.seq + row_number() OVER (PARTITION BY r.inbox ORDER BY r.key), 0, 0, 0, 0, 0, false,
        b.mail IS DISTINCT FROM r.key
    FROM all_won, {{rows}} AS r LEFT JOIN _inboxes AS n ON n.id = r.inbox
        LEFT JOIN _blobs AS b ON b.workspace = r.workspace AND b.sha256 = r.sha256
    ON CONFLICT DO NOTHING
)""",  # noqa: S608
)
# Before the messages: it finds and locks the mails that they were read from. Whoever deletes one of
# these has done so, and its row is not there; or waits for us.
DIGESTED_KIND = RowKind(
    row=DigestedRow,
    table=MAILS,
    array_of="digested_row",
    group="messages",
    sqlite="""
UPDATE mails SET message = {message}, sha256 = coalesce({sha256}, sha256),
    format = coalesce({format}, format), mail_bytes = coalesce({mail_bytes}, mail_bytes),
    shares_blob = shares_blob OR {sha256} IS NOT NULL
WHERE key = {mail}
""",
    postgres=""", _mails_read AS MATERIALIZED (
    SELECT m.key, r.message, r.sha256, r.format, r.mail_bytes
    FROM all_won, mails AS m JOIN {rows} AS r ON r.mail = m.key
    ORDER BY m.key FOR NO KEY UPDATE OF m
), _digested AS (
    UPDATE mails AS m SET message = r.message, sha256 = coalesce(r.sha256, m.sha256),
        format = coalesce(r.format, m.format), mail_bytes = coalesce(r.mail_bytes, m.mail_bytes),
        shares_blob = m.shares_blob OR r.sha256 IS NOT NULL
    FROM _mails_read AS r WHERE m.key = r.key
)""",
)
MESSAGE_KIND = RowKind(
    row=MessageRow,
    table=MESSAGES,
    array_of="message_row",
    lock_order=("id",),
    group="messages",
    sqlite=f"""
INSERT INTO messages ({_MESSAGE})
SELECT {_marks(_MESSAGE)} WHERE EXISTS (SELECT 1 FROM mails WHERE key = {{mail}})
ON CONFLICT DO NOTHING
""",  # noqa: S608
    postgres=f""", _messages AS (
    INSERT INTO messages ({_MESSAGE})
    SELECT {_columns(_MESSAGE)} FROM {{rows}} AS r JOIN _mails_read AS m ON m.key = r.mail
    ORDER BY r.id ON CONFLICT DO NOTHING RETURNING id
)""",  # noqa: S608
)
ATTACHMENT_KIND = RowKind(
    row=AttachmentRow,
    table=ATTACHMENTS,
    array_of="attachment_row",
    lock_order=("message", "position"),
    group="messages",
    sqlite=f"""
INSERT INTO attachments ({_ATTACHMENT})
SELECT {_marks(_ATTACHMENT)} WHERE EXISTS (SELECT 1 FROM messages WHERE id = {{message}})
ON CONFLICT DO NOTHING
""",  # noqa: S608
    postgres=f""", _attachments AS (
    INSERT INTO attachments ({_ATTACHMENT})
    SELECT {_columns(_ATTACHMENT)} FROM {{rows}} AS r JOIN _messages AS m ON m.id = r.message
    ORDER BY r.message, r.position ON CONFLICT DO NOTHING
)""",  # noqa: S608
)

MAIL_KINDS = (BLOB_KIND, MAIL_KIND, DIGESTED_KIND, MESSAGE_KIND, ATTACHMENT_KIND)
