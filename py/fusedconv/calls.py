"""What the asynchronous functions return: awaitables whose work begins with the call."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

__all__ = ["Call", "Turn", "Turns", "kept", "submitted", "turns"]

T = TypeVar("T")
# Python 3.11, where nothing runs, has no eager tasks.
_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}
_tasks: set[asyncio.Task[Any]] = set()


class Call(Coroutine[Any, Any, T], Generic[T]):
    """A call that has begun. Awaiting it costs nothing where it is done already.

    It counts as a coroutine, so that `asyncio.create_task` and `gather` take it, but it may be
    awaited more than once, and runs even if nobody awaits it.
    """

    __slots__ = ("_error", "_result", "_steps", "_task")

    def __init__(
        self,
        result: T | None = None,
        error: BaseException | None = None,
        task: asyncio.Task[T] | None = None,
    ) -> None:
        self._result = result
        self._error = error
        self._task = task
        self._steps: Any = None

    @classmethod
    def later(cls, steps: Coroutine[Any, Any, T]) -> Call[T]:
        """A call whose rest needs the event loop; it runs at once up to where it first waits."""
        loop = asyncio.get_running_loop()
        try:
            task: asyncio.Task[T] = asyncio.Task(steps, loop=loop, **_EAGER)
        except BaseException:
            steps.close()
            raise
        if task.done():
            return cls(task=task)
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
        return cls(task=task)

    @property
    def done(self) -> bool:
        """Whether awaiting it will not wait."""
        return self._task is None or self._task.done()

    def __await__(self) -> Call[T]:
        return self

    def __iter__(self) -> Call[T]:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        if self._task is None:
            if self._error is not None:
                raise self._error
            raise StopIteration(self._result)
        if self._steps is None:
            self._steps = self._task.__await__()
        try:
            return self._steps.send(value)
        except BaseException:
            self._steps = None
            raise

    def throw(self, *args: Any) -> Any:
        if self._steps is None:
            raise args[1] if len(args) > 1 and args[1] is not None else args[0]
        return self._steps.throw(*args)

    def close(self) -> None:
        """Nothing to close: the work goes on."""


async def kept(promise: Awaitable[T], unwanted: Callable[[T], None]) -> T:
    """Await a promise of JavaScript's; a result that comes after a cancellation is `unwanted`."""
    future = asyncio.ensure_future(promise)

    def late(done: asyncio.Future[T]) -> None:
        if not done.cancelled() and done.exception() is None:
            unwanted(done.result())

    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(late)
        raise


class Turns:
    """Calls submit in the order in which they were made, however long each has to prepare."""

    def __init__(self) -> None:
        self.last: asyncio.Future[None] | None = None

    def take(self) -> Turn:
        return Turn(self)


class Turn:
    """A place in the order; to be given up with `end`."""

    __slots__ = ("_before", "_mine", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._before = turns.last
        self._mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turns.last = self._mine

    async def wait(self) -> None:
        """Until everything called before has been submitted (or has failed)."""
        if self._before is not None and not self._before.done():
            await asyncio.wait([self._before])
        self._before = None

    def end(self) -> None:
        if self._mine.done():
            return
        if self._before is not None and not self._before.done():
            # Given up before its turn: whoever comes after still waits for those before.
            self._before.add_done_callback(lambda _: self._finish())
        else:
            self._finish()

    def _finish(self) -> None:
        if not self._mine.done():
            self._mine.set_result(None)
        if self._turns.last is self._mine:
            self._turns.last = None


turns = Turns()


async def submitted() -> None:
    """Wait until everything that was called so far has been submitted."""
    if turns.last is not None:
        turn = turns.take()
        try:
            await turn.wait()
        finally:
            turn.end()
