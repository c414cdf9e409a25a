"""Rigs: each is one way of putting the gate before an app, over one store.

A module here ends in `RIGS`; `ALL` collects them, and the conformance suite runs over each.
"""

from tests.gate.rigs import django, flask, plain, web
from tests.gate.rigs.contract import Kind

ALL: dict[str, Kind] = {
    kind.name: kind for module in (plain, web, django, flask) for kind in module.RIGS
}
