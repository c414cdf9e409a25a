"""Add the guard to tables that were made before there was one."""

from typing import ClassVar

from django.db import migrations
from django.db.migrations.operations.base import Operation

from mailonce.gate.django.operations import AddGuard


class Migration(migrations.Migration):
    """Nothing to do where the first migration has made it."""

    dependencies: ClassVar[list[tuple[str, str]]] = [("mailonce_gate", "0001_initial")]
    operations: ClassVar[list[Operation]] = [AddGuard()]
