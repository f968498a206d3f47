"""Which of several groups of environments has stepped: whichever is done first, so that none waits for another."""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue
from threading import Thread
from weakref import finalize

from mmrs.envs.training import TrainingEnvs

Message = tuple[int, BaseException | None]


class Arrivals:
    """Hands out the numbers of groups whose steps are done, in the order in which they are.

    A thread a group blocks until its simulators are done and does nothing else: all work stays in the caller's thread.
    """

    def __init__(self, groups: Sequence[TrainingEnvs]) -> None:
        self._done: SimpleQueue[Message] = SimpleQueue()
        self._under_way: list[SimpleQueue[bool]] = []
        for number, envs in enumerate(groups if len(groups) > 1 else ()):  # the caller can wait for one itself
            self._under_way.append(SimpleQueue())
            Thread(target=_watch, args=(number, envs, self._under_way[number], self._done), daemon=True).start()
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


def _watch(number: int, envs: TrainingEnvs, orders: SimpleQueue[bool], done: SimpleQueue[Message]) -> None:
    while orders.get():
        try:
            envs.block()
        except BaseException as error:  # whatever it is, the caller raises it
            done.put((number, error))
        else:
            done.put((number, None))
