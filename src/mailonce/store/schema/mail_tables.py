"""The tables of inboxes and of the mail in them; a mail's row is also the work of reading it."""

from sqlalchemy import Table

from mailonce.store.schema.tables import (
    METADATA,
    attempt_columns,
    columns_of,
    table_of,
    work_columns,
)
from mailonce.store.schema.work_table import WorkTable

# A mail domain belongs to one workspace.
DOMAINS = table_of("domains", "domain text key, workspace text, origin text, created_ms bigint")

# The request's key and fingerprint are those of the call that made it, where that had a key.
INBOXES = table_of(
    "inboxes",
    """
    id text key, workspace text, address text, metadata bytes, created_ms bigint,
    expires_ms bigint null, mails_max integer, bytes_max bigint, seq bigint, forgotten_seq bigint,
    mails bigint, bytes bigint, request_key bytes null, request_fingerprint bytes null,
    agent text null
    """,
)

# Which inbox an address leads to; `until_ms` once it was rotated out. @domain is a catch-all.
ADDRESSES = table_of(
    "addresses", "address text key, workspace text, inbox text, until_ms bigint null"
)

# Bytes of mail and attachments, once in a workspace. `used_ms` is written whenever somebody refers
# to them anew, so that whoever deletes what nobody refers to waits for that. `mail` is the one that
# they came with first.
BLOBS = table_of(
    "blobs",
    """
    workspace text key, sha256 bytes key, content bytes, used_ms bigint, mail bytes null
    """,
)

# `seq` is NULL where no inbox takes the mail; `message` is NULL until it was read. `shares_blob`
# says that its bytes were there before it: only such a mail is in an index by its bytes.
MAILS = Table(
    "mails",
    METADATA,
    *work_columns("digester"),
    *columns_of(
        """
        inbox text, seq bigint null, address text, source text, account text, arrival bytes,
        sha256 bytes, format text, mail_bytes integer, facts bytes, message text null,
        shares_blob boolean
        """
    ),
)
DIGEST_ATTEMPTS = Table("digest_attempts", METADATA, *attempt_columns("mail"))

MESSAGES = table_of(
    "messages",
    """
    id text key, workspace text, inbox text, seq bigint, mail bytes, accepted_ms bigint,
    message_id text, thread text, kind text, sender text, subject text, document bytes
    """,
)

ATTACHMENTS = table_of(
    "attachments",
    """
    message text key, position integer key, workspace text, id text, sha256 bytes, name text,
    type text, attachment_bytes integer, content_id text null
    """,
)

# Mail that was not taken, counted by inbox or address, reason and minute.
MAIL_REFUSALS = table_of(
    "mail_refusals",
    """
    workspace text key, inbox text key, address text key, reason text key, minute integer key,
    process bytes key, code integer, count bigint
    """,
)

# Since when, and until when, each process's SMTP door listened.
LISTENERS = table_of("listeners", "process bytes key, since_ms bigint, until_ms bigint")

DIGEST_TABLE = WorkTable(
    rows=MAILS,
    attempts=DIGEST_ATTEMPTS,
    lane="digester",
    row_of_attempt="mail",
    columns=("workspace", "body", "source", "arrival"),
    # Its bytes stay where they are, in the inbox.
    letter="""
INSERT INTO dead_letters (id, workspace, source, kind, arrival, arrival_key, position, reason,
                          attempts, failed_ms, raw, last_error)
SELECT {letter}, d.workspace, d.source, 'mail', d.arrival, {hex}, 0, {reason}, d.attempts, {now},
       {empty}, d.error
FROM {rows} AS d""",
)
