CREATE TABLE IF NOT EXISTS webhook_idempotency_never (id smallint PRIMARY KEY);
CREATE TABLE IF NOT EXISTS webhook_idempotency (
    scope text NOT NULL DEFAULT '',
    idempotency_key text NOT NULL,
    request_hash char(64) NOT NULL,
    request_fields text NOT NULL DEFAULT '{}',
    status text NOT NULL CHECK (status IN ('processing', 'completed')),
    response_status integer,
    response_headers text,
    response_body blob,
    created_at text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    completed_at text,
    expires_at text NOT NULL,
    lease_until text,
    fencing_token integer NOT NULL DEFAULT 0,
    recovery_points text NOT NULL DEFAULT '{}',
    unfinished smallint CONSTRAINT only_the_gate_commits__remove_the_commit_from_your_handler
        REFERENCES webhook_idempotency_never DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY (scope, idempotency_key)
);
CREATE INDEX IF NOT EXISTS webhook_idempotency_expires_at ON webhook_idempotency (expires_at);
CREATE TABLE IF NOT EXISTS webhook_outbox (
    id integer PRIMARY KEY AUTOINCREMENT,
    effect_key text NOT NULL UNIQUE,
    topic text NOT NULL,
    body blob NOT NULL,
    status text NOT NULL CHECK (status IN ('due', 'done', 'dead')),
    run_at text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    fencing_token integer NOT NULL DEFAULT 0,
    last_error text,
    created_at text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    done_at text
);
CREATE INDEX IF NOT EXISTS webhook_outbox_due ON webhook_outbox (run_at, id) WHERE status = 'due';
