"""Which of several groups of environments has stepped: whichever is done first, so that none waits for another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from weakref import finalize

Message = tuple[int, BaseException | None]


class Arrivals:
    """Hands out the numbers of groups whose steps are done, in the order in which they are.

    A thread a group blocks until its simulators are done and fetches what they show; all else is the caller's.
    """

    def __init__(self, fetch: Sequence[Callable[[], None]]) -> None:
        """Args:
        fetch: of each group, blocks until its step is done; called in a thread of its own, after `expect`.
        """
        self._done: SimpleQueue[Message] = SimpleQueue()
        self._under_way: list[SimpleQueue[bool]] = []
        for number, one in enumerate(fetch if len(fetch) > 1 else ()):  # the caller can wait for one itself
            self._under_way.append(SimpleQueue())
            Thread(target=_watch, args=(number, one, self._under_way[number], self._done), daemon=True).start()
        self.close = finalize(self, _end, self._under_way)

    def expect(self, number: int) -> None:
        """A step of this group was started."""
        if self._under_way:
            self._under_way[number].put(True)
        else:
            self._done.put((number, None))

    def next(self) -> int:
        """The number of the group that is done first; waits for it."""
        number, error = self._done.get()
        if error is not None:
            raise error
        return number


def _end(under_way: list[SimpleQueue[bool]]) -> None:
    for orders in under_way:
        orders.put(False)


def _watch(number: int, fetch: Callable[[], None], orders: SimpleQueue[bool], done: SimpleQueue[Message]) -> None:
    while orders.get():
        try:
            fetch()
        except BaseException as error:  # whatever it is, the caller raises it
            done.put((number, error))
        else:
            done.put((number, None))
