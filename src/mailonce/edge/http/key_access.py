"""What the caller's own key may do."""

from typing import Annotated

from fastapi import APIRouter, Depends
from typing_extensions import TypedDict

from mailonce.core.access import Caller
from mailonce.edge.http.access import caller
from mailonce.edge.http.query import KNOWN_QUERY

router = APIRouter(prefix="/v1/access", tags=["keys"], dependencies=KNOWN_QUERY)


class AccessJson(TypedDict):
    """In which workspace a key acts, and as what; `expectation` is the one that a child key has."""

    workspace: str
    scope: str
    expectation: str | None


@router.get("", summary="Say what this key may do")
async def show(proven: Annotated[Caller, Depends(caller)]) -> AccessJson:
    """For any key."""
    return {
        "workspace": proven.workspace,
        "scope": proven.scope.value,
        "expectation": None if proven.child is None else proven.child.expectation,
    }
