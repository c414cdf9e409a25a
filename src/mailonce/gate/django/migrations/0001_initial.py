"""Make the gate's tables."""

from typing import ClassVar

from django.db import migrations, models
from django.db.migrations.operations.base import Operation

from mailonce.gate.django.operations import MakeTables


class Migration(migrations.Migration):
    """The first state of the tables."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[Operation]] = [
        MakeTables(),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "scope",
                        "idempotency_key",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("scope", models.TextField(default="")),
                ("idempotency_key", models.TextField()),
                ("request_hash", models.CharField(max_length=64)),
                ("request_fields", models.TextField(default="{}")),
                (
                    "status",
                    models.TextField(
                        choices=[("processing", "processing"), ("completed", "completed")]
                    ),
                ),
                ("response_status", models.IntegerField(null=True)),
                ("response_headers", models.TextField(null=True)),
                ("response_body", models.BinaryField(null=True)),
                ("created_at", models.DateTimeField()),
                ("completed_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField()),
                ("lease_until", models.DateTimeField(null=True)),
                ("fencing_token", models.BigIntegerField(default=0)),
                ("recovery_points", models.TextField(default="{}")),
            ],
            options={"db_table": "webhook_idempotency", "managed": False},
        ),
        migrations.CreateModel(
            name="OwedEffect",
            fields=[
                ("effect_key", models.TextField(unique=True)),
                ("topic", models.TextField()),
                ("body", models.BinaryField()),
                (
                    "status",
                    models.TextField(choices=[("due", "due"), ("done", "done"), ("dead", "dead")]),
                ),
                ("run_at", models.DateTimeField()),
                ("attempts", models.IntegerField(default=0)),
                ("fencing_token", models.BigIntegerField(default=0)),
                ("last_error", models.TextField(null=True)),
                ("created_at", models.DateTimeField()),
                ("done_at", models.DateTimeField(null=True)),
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ],
            options={"db_table": "webhook_outbox", "managed": False},
        ),
    ]
