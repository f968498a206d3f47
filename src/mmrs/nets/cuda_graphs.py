"""Work on a GPU as captured graphs: one launch in place of hundreds. On the CPU the same code simply runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

EAGER_CALLS = 3
"""Real calls before the capture, which libraries and the allocator need to settle."""

MOST_GRAPHS = 8
"""Sets of shapes that get a graph. Each holds all its memory for good, so that ever new shapes would use it up."""


class Captured:
    """A function of tensors that is replayed as one CUDA graph once it was called a few times with these shapes.

    The function may change tensors it holds (weights, moments, buffers), must not ask the GPU for a value, and must
    always do the same for the same shapes. Its output is overwritten by the next call of the same shapes.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        device: torch.device | None = None,
        urgent: bool = False,
        coarse: bool = False,
    ) -> None:
        """Args:
        function: of tensors, or of none if `device` is given; returns a tensor or a tuple of them.
        device: where the function works; None: where its first input is.
        urgent: go before the work of other streams that waits on the GPU.
        coarse: let products round their factors to TF32, as torch's convolutions do anyway, and take whichever
            convolution proves fastest here. Not where small differences of large numbers count.
        """
        self.function, self.device, self.urgent, self.coarse = function, device, urgent, coarse
        self._calls: dict[Any, int] = {}
        self._graphs: dict[Any, tuple[Any, tuple[Tensor, ...], Any]] = {}

    def __call__(self, *inputs: Tensor) -> Any:
        """The function's value."""
        if (self.device or inputs[0].device).type != "cuda":
            return self.function(*inputs)
        shapes = tuple((x.shape, x.dtype, x.stride()) for x in inputs)
        if self._calls.setdefault(shapes, 0) < EAGER_CALLS:
            self._calls[shapes] += 1
            with _numerics(self.coarse):
                # Copies, as the graph will read: kernels compiled for where they lie must be there before the capture.
                return _aside(self.function, _copies(inputs))
        if shapes not in self._graphs and len(self._graphs) >= MOST_GRAPHS:
            with _numerics(self.coarse):
                return self.function(*inputs)
        if shapes not in self._graphs:
            with _numerics(self.coarse):
                self._graphs[shapes] = self._capture(inputs)
        graph, held, output = self._graphs[shapes]
        for place, value in zip(held, inputs, strict=True):
            place.copy_(value, non_blocking=True)
        graph.replay()
        return output

    def _capture(self, inputs: tuple[Tensor, ...]) -> tuple[Any, tuple[Tensor, ...], Any]:
        held = _copies(inputs)
        graph = torch.cuda.CUDAGraph()
        # Kernels of a graph keep the priority of the stream that they were captured on.
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(priority=-1) if self.urgent else None):
            output = self.function(*held)
        return graph, held, output

    def __deepcopy__(self, memo: dict[int, Any]) -> Captured:
        """A copy captures anew: graphs are bound to the tensors of the original."""
        copied = deepcopy(self.function, memo)
        return Captured(copied, device=self.device, urgent=self.urgent, coarse=self.coarse)


@contextmanager
def _numerics(coarse: bool) -> Iterator[None]:
    """Which kernels are taken inside; what a graph has captured stays."""
    kept = (torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32)
    if coarse:
        torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32 = kept


def _copies(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.clone(memory_format=torch.preserve_format) for x in inputs)


def _aside(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> Any:
    """Call on a stream of its own, as must be before a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        output = function(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    return output


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate; on a GPU in place, where captured graphs read it."""
    for group in optimizer.param_groups:
        device = group["params"][0].device
        if device.type != "cuda":
            group["lr"], group["capturable"] = rate, False
        elif isinstance(group["lr"], Tensor) and group["lr"].device == device:
            group["lr"].fill_(rate)
        else:
            group["lr"], group["capturable"] = torch.tensor(rate, device=device), True
            for state in (optimizer.state[p] for p in group["params"] if p in optimizer.state):
                state["step"] = state["step"].to(device, torch.float32)  # restored from a CPU's


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """The values on a device; to a GPU through pinned memory, since a plain copy first waits for all work before it."""
    if device.type != "cuda" or values.is_cuda:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def seen_from(device: torch.device, values: Tensor) -> Tensor:
    """Values of the host as a tensor of the device. On a GPU it is the same memory, which must be pinned.

    Kernels then read and write the host in place (`copy_words`): for the few bytes of an action, and the few thousand
    that it is chosen from, that is several times sooner than a transfer, which wakes an engine of its own.
    """
    if device.type != "cuda":
        return values
    seen: Tensor = torch.as_tensor(_Mapped(values), device=device)
    return seen


def fetched(seen: Tensor) -> Tensor:
    """What `seen_from` shows, in the device's own memory; on the host it is there already."""
    if not seen.is_cuda:
        return seen
    own = torch.empty_like(seen)
    copy_words(seen, own)
    return own


def copy_words(source: Tensor, place: Tensor) -> None:
    """Copy bit by bit between tensors of one device, shape and type; on a GPU always by a kernel."""
    if source.is_cuda:
        torch.bitwise_or(as_words(source), 0, out=as_words(place))
    else:
        place.copy_(source)


def as_words(values: Tensor, leading: int = 1) -> Tensor:
    """The same memory, all but the leading axes as one of words, the longest that fit: each is written at once."""
    flat = values.view(*values.shape[:leading], -1).view(torch.uint8)
    for word in (torch.int64, torch.int32):
        if flat.shape[-1] % word.itemsize == 0:
            return flat.view(word)
    return flat


class _Mapped:
    """Pinned memory in the words of the CUDA array interface: under unified addressing a GPU uses the same address."""

    def __init__(self, values: Tensor) -> None:
        assert values.is_pinned() and values.is_contiguous(), "only pinned memory has an address on the GPU"
        self.values = values  # kept alive for as long as the tensor made from this
        array: Any = values.numpy().__array_interface__
        self.__cuda_array_interface__ = {**array, "data": (values.data_ptr(), False), "version": 2}
