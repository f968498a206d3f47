"""Between the host and a GPU without waiting for the work that is under way there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
