"""The tables of expectations, the mails that they judged, artifacts and their consumptions."""

from mailonce.store.schema.tables import table_of

# `state` and `reason` are as last settled; `reported`: its end was recorded as an event.
EXPECTATIONS = table_of(
    "expectations",
    """
    id bytes key, workspace text, inbox text, address text, subject text, policy bytes,
    watermark bigint, opened_ms bigint, deadline_ms bigint, resends integer, granted integer,
    granted_ms bigint null, state text, reason text, by text, reported boolean,
    request_key bytes null, request_fingerprint bytes null
    """,
)

# What each mail was to an expectation; `verdict` has the words of the matchers, and no text of it.
EXPECTATION_MAILS = table_of(
    "expectation_mails",
    """
    expectation bytes key, message text key, seq bigint, received_ms bigint, sender text,
    outcome text, reason text, is_stale boolean, verdict bytes
    """,
)

# No two with the same workspace, subject, kind, digest and generation.
ARTIFACTS = table_of(
    "artifacts",
    """
    id bytes key, workspace text, subject text, kind text, digest bytes, generation integer,
    made_ms bigint, token bigint, sealed bytes null
    """,
)

# `holder` is the artifact while nobody else may have it, which is unique; else NULL.
CONSUMPTIONS = table_of(
    "consumptions",
    """
    id bytes key, workspace text, expectation bytes, artifact bytes, by text, consume_key bytes,
    token bigint, state text, leased_ms bigint, lease_ms bigint, ended_ms bigint null,
    holder bytes null, redemption bytes null
    """,
)

# What was done to a consumption, and by whom.
CONSUMPTION_ACTS = table_of(
    "consumption_acts", "consumption bytes key, id bytes key, at_ms bigint, act text, by text"
)

# How many values a child key has consumed.
CHILD_KEYS = table_of("child_keys", "id bytes key, workspace text, uses integer, expires_ms bigint")
