"""CUDA graphs and host memory for a GPU: one launch in place of hundreds. On the CPU the same code simply runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

WARMUP_CALLS = 3
"""Eager calls before the capture. Libraries and the allocator need them to settle."""

MAX_GRAPHS = 8
"""Sets of shapes that get a graph. Each graph keeps all its memory, so that ever new shapes would exhaust it."""


class CudaGraphed:
    """A function of tensors, replayed as one CUDA graph after a few calls with the same shapes.

    The function may change tensors it holds (weights, moments, buffers). It must not read a value back from the GPU,
    and must do the same operations for the same shapes. The next call with the same shapes overwrites the output.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        device: torch.device | None = None,
        high_priority: bool = False,
        allow_tf32: bool = False,
    ) -> None:
        """Args:
        function: of tensors, or of none if `device` is given; returns a tensor or a tuple of them.
        device: where the function works; None: where its first input is.
        high_priority: run before the work of other streams that waits on the GPU.
        allow_tf32: let matrix products round their factors to TF32, as torch's convolutions do anyway, and benchmark
            the convolutions. Not where small differences of large numbers matter.
        """
        self.function, self.device = function, device
        self.high_priority, self.allow_tf32 = high_priority, allow_tf32
        self._calls: dict[Any, int] = {}
        self._graphs: dict[Any, tuple[Any, tuple[Tensor, ...], Any]] = {}

    def __call__(self, *inputs: Tensor) -> Any:
        """The function's value."""
        if (self.device or inputs[0].device).type != "cuda":
            return self.function(*inputs)
        shapes = tuple((x.shape, x.dtype, x.stride()) for x in inputs)
        if self._calls.setdefault(shapes, 0) < WARMUP_CALLS:
            self._calls[shapes] += 1
            with _matmul_precision(self.allow_tf32):
                # Copies, as the graph will read: kernels compiled for this memory layout must exist before the capture.
                return _on_side_stream(self.function, _copies(inputs))
        if shapes not in self._graphs and len(self._graphs) >= MAX_GRAPHS:
            with _matmul_precision(self.allow_tf32):
                return self.function(*inputs)
        if shapes not in self._graphs:
            with _matmul_precision(self.allow_tf32):
                self._graphs[shapes] = self._capture(inputs)
        graph, buffers, output = self._graphs[shapes]
        for buffer, value in zip(buffers, inputs, strict=True):
            buffer.copy_(value, non_blocking=True)
        graph.replay()
        return output

    def _capture(self, inputs: tuple[Tensor, ...]) -> tuple[Any, tuple[Tensor, ...], Any]:
        buffers = _copies(inputs)
        graph = torch.cuda.CUDAGraph()
        # Kernels of a graph keep the priority of the stream that they were captured on.
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(priority=-1) if self.high_priority else None):
            output = self.function(*buffers)
        return graph, buffers, output

    def __deepcopy__(self, memo: dict[int, Any]) -> CudaGraphed:
        """A copy captures anew: graphs are bound to the tensors of the original."""
        copied = deepcopy(self.function, memo)
        return CudaGraphed(copied, device=self.device, high_priority=self.high_priority, allow_tf32=self.allow_tf32)


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


@contextmanager
def _matmul_precision(allow_tf32: bool) -> Iterator[None]:
    """Choose which kernels are picked inside. A graph that is captured already keeps its kernels."""
    kept = (torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32)
    if allow_tf32:
        torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32 = kept


def _copies(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.clone(memory_format=torch.preserve_format) for x in inputs)


def _on_side_stream(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> Any:
    """Call on a separate stream, as is required before a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        output = function(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    return output
