"""Where each block of commands or code is run, by name; a block that is in none of these fails."""

# In one bash after the other, beside one `mailonce serve --dev`.
ON_A_SERVER = (
    "README.md | A first webhook | 1",
    "README.md | Where events go | 1",
    "README.md | Where events go | 4",
    "deliveries.md | Send it again | 1",
    "develop.md | `mailonce listen`: events on a local port | 1",
    "expectations.md | Expectations: one code, one link, used once | 1",
    "inboxes.md | Inboxes | 1",
    "expectations.md | Expectations: one code, one link, used once | 2",
    "operate.md | Who did it | 1",
    "poll.md | Polling | 1",
    "poll.md | Polling | 2",
    "sends.md | A first send | 3",
    "sends.md | What a mail has | 1",
)

# Each in a folder of its own, where it starts what it needs.
ON_THEIR_OWN = (
    ("simulate.md | Simulate a provider | 1",),
    ("simulate.md | Mail | 1",),
    ("smtp.md | Mail over SMTP | 1",),
    ("providers/sendgrid.md | Try it | 1",),
)

# By a test of another folder, which reads the block from its page.
ELSEWHERE = {
    "README.md | A first inbox | 1": "acceptance/test_readme.py",
    "README.md | The code from the mail, in your test | 1": "acceptance/test_readme_code.py",
    "README.md | Sending, once | 1": "acceptance/test_readme.py",
    "sends.md | A first send | 1": "acceptance/test_dev.py",
    "gate.md | The gate | 1": "gate/test_packaging.py",
    "gate.md | In your framework | 1": "acceptance/test_gate_docs.py",
    "operate.md | Backup on SQLite | 1": "acceptance/test_backup.py",
    "operate.md | Backup on SQLite | 2": "acceptance/test_backup.py",
    "postgresql.md | Move from SQLite | 1": "acceptance/test_move_to_postgres.py",
    "operate.md | Backup on PostgreSQL | 1": "acceptance/test_backup.py",
    "operate.md | Backup on PostgreSQL | 2": "acceptance/test_backup.py",
    # `make docs` copies these from tests and examples, and `make lint` compares.
    "extend.md | A provider | 1": "providers/test_registry.py",
    "extend.md | A noun | 1": "pipeline/notes.py",
    "extend.md | A kind of work | 1": "queue/test_add_a_kind_of_work.py",
    "extend.md | A door | 1": "edge/test_add_a_door.py",
}

# Pictures and grammars, which nobody runs, and what is not run here, with the reason.
NOT_RUN = {
    "README.md | mailonce | 1": "a picture",
    "README.md | Two commands | 1": "installs mailonce, and runs all tests: this one, too",
    "extraction.md | Formats | 1": "a grammar; tests/core/extraction has each form",
    "gate.md | The gate | 2": "the output of the block above, compared by gate/test_packaging.py",
    "mcp.md | Mail for agents, over MCP | 1": "installs from an index of packages",
    "providers/cloudflare.md | Example | 1": "a mail; its golden case is tests/providers/golden",
    "providers/elasticemail.md | Example | 1": "a form; its golden case is tests/providers/golden",
    "pytest.md | Mail in your tests | 3": "the words of a failure; tests/fixtures has each",
    "sends.md | States | 1": "a picture",
    "simulate.md | Hostile mails | 1": "eighty mails; acceptance/test_simulate_mail.py runs them",
}
