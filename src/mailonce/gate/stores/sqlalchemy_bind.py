"""What a store on SQLAlchemy was given: the bind of its engine or its sessions."""

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
from sqlalchemy.orm import sessionmaker

from mailonce.errors import ConfigError


def bind_of(source: Any) -> Any:
    """Give the engine or connection that blocking sessions work on.

    Raises: ConfigError where a blocking store cannot use it.
    """
    if isinstance(source, Engine):
        return source
    if isinstance(source, AsyncEngine | async_sessionmaker):
        raise _other_kind(source, "AsyncSqlalchemyStore")
    if not callable(source):
        raise _no_source(source, "a sessionmaker or an engine", "create_engine")
    with source() as session:
        return session.get_bind()


def async_bind_of(source: Any) -> Any:
    """Give the engine or connection that async sessions work on.

    Raises: ConfigError where an async store cannot use it.
    """
    if isinstance(source, AsyncEngine):
        return source.sync_engine
    if isinstance(source, Engine | sessionmaker):
        raise _other_kind(source, "SqlalchemyStore")
    if not callable(source):
        raise _no_source(source, "an async_sessionmaker or an async engine", "create_async_engine")
    return source().get_bind()


def _other_kind(source: object, store: str) -> ConfigError:
    return ConfigError(
        f"this store cannot use the {type(source).__name__}, because only one of the two awaits; "
        f"give it to {store}"
    )


def _no_source(source: object, kinds: str, maker: str) -> ConfigError:
    return ConfigError(
        f"the store takes {kinds}, not a {type(source).__name__}; make one with `{maker}(url)`"
    )
