"""What tuning has found, across visits: in the browser's IndexedDB.

Storage may be refused or full; then findings last as long as the page.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from ..tuning import Key, Tuning, tunings
from .bridge import script

__all__ = ["forget", "recall", "remember"]

_store: Any = None
_recalled: asyncio.Future[None] | None = None


def store() -> Any:
    """The functions of findings.js, or None where the page has no IndexedDB."""
    global _store
    if _store is None:
        _store = script("findings")
    return _store


async def tried(action: Callable[[], Awaitable[Any]]) -> Any:
    """The answer of the browser's store, or None where it has refused."""
    try:
        return await action()
    except Exception:
        return None


async def recall() -> None:
    """Take what earlier visits have found into `tunings`, once."""
    global _recalled
    if _recalled is None:
        _recalled = asyncio.ensure_future(_recall())
    await asyncio.shield(_recalled)


async def _recall() -> None:
    text = await tried(store().all) if store() else None
    for item in json.loads(text or "[]"):
        try:
            tuning = Tuning.from_dict(json.loads(item))
        except (KeyError, TypeError, ValueError):
            continue  # of a version that kept other things
        if tunings.get(tuning.key) is None:
            tunings.add(tuning)


async def remember(tuning: Tuning) -> None:
    """Use a finding from now on, and forget those of other versions of its operator."""
    stale = [
        other.key
        for other in tunings
        if other.key.operator == tuning.key.operator and other.key.version != tuning.key.version
    ]
    for key in stale:
        await forget(key)
    tunings.add(tuning)
    if store():
        await tried(lambda: store().put(text_of(tuning.key), json.dumps(asdict(tuning))))


async def forget(key: Key | None = None) -> None:
    """Forget one finding, or all."""
    if key is None:
        tunings.clear()
    else:
        tunings.discard(key)
    if store():
        await tried(store().clear if key is None else lambda: store().remove(text_of(key)))


def text_of(key: Key) -> str:
    return json.dumps(asdict(key))
