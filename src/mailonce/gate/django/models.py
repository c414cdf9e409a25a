"""The gate's records, read-only: for the admin, or for queries of your own."""

from django.db import models

from mailonce.gate.sql.outbox import OUTBOX
from mailonce.gate.sql.statements import TABLE


class IdempotencyRecord(models.Model):
    """The record of a key. Only the gate writes it, in SQL of its own."""

    pk = models.CompositePrimaryKey("scope", "idempotency_key")
    scope = models.TextField(default="")
    idempotency_key = models.TextField()
    request_hash = models.CharField(max_length=64)
    request_fields = models.TextField(default="{}")
    status = models.TextField(choices=[("processing", "processing"), ("completed", "completed")])
    response_status = models.IntegerField(null=True)
    response_headers = models.TextField(null=True)  # noqa: DJ001 - NULL until there is a response
    response_body = models.BinaryField(null=True)
    created_at = models.DateTimeField()
    completed_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()
    lease_until = models.DateTimeField(null=True)
    fencing_token = models.BigIntegerField(default=0)
    recovery_points = models.TextField(default="{}")

    class Meta:
        """The table's name is seed 000's."""

        db_table = TABLE
        # Made and changed by the migrations of this app, which run the gate's own SQL.
        managed = False

    def __str__(self) -> str:
        """Say which record it is, without its content."""
        return f"{self.idempotency_key} ({self.status})"


class OwedEffect(models.Model):
    """An effect outside the database that is due, done or given up."""

    effect_key = models.TextField(unique=True)
    topic = models.TextField()
    body = models.BinaryField()
    status = models.TextField(choices=[(word, word) for word in ("due", "done", "dead")])
    run_at = models.DateTimeField()
    attempts = models.IntegerField(default=0)
    fencing_token = models.BigIntegerField(default=0)
    last_error = models.TextField(null=True)  # noqa: DJ001 - NULL until one failed
    created_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True)
    id = models.BigAutoField(primary_key=True)

    class Meta:
        """Made by the same migration."""

        db_table = OUTBOX
        managed = False

    def __str__(self) -> str:
        """Say which effect it is, without its content."""
        return f"{self.topic} {self.effect_key} ({self.status})"
