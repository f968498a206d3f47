"""The state of a run as tensors and JSON: every value is restored with its type and bits, every key with its type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmrs.errors import InputError, StorageError

Tensors = dict[str, Tensor]
Json = Any

DEPTH = 64
"""Deepest nesting allowed: far beyond any real state, so that a tree that contains itself is noticed."""
DTYPES = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8),
}
ARRAY_DTYPES = {
    np.dtype(name)
    for name in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")  # native byte order
}


def encode(tree: Any) -> tuple[Tensors, Json]:
    """Split a tree into its tensors (contiguous, on the CPU, by name) and a JSON document that refers to them.

    In JSON, None, booleans, strings, finite floats, integers of any length and lists stand for themselves. Anything
    else is an object with one key that names its kind, since JSON has neither tuples nor keys that are numbers.

    Raises:
        InputError: for a value that could not be restored exactly, or that is not finite; names its path in the tree.
    """
    tensors: Tensors = {}
    return tensors, _encode(tree, "", tensors, DEPTH)


def decode(document: Json, tensors: Tensors) -> Any:
    """The inverse of `encode`; every tensor must be used exactly once."""
    left = dict(tensors)
    tree = _decode(document, left)
    if left:
        raise StorageError(f"tensors that the state does not mention: {', '.join(sorted(left)[:3])}.")
    return tree


def _encode(value: Any, path: str, tensors: Tensors, depth: int) -> Json:
    if depth == 0:
        raise InputError(f"{_at(path)} is nested more than {DEPTH} deep. Does the state contain itself?")
    # Exact types: numpy's float64 is a float, bool is an int, and each must be restored as what it was.
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return _finite(value, math.isfinite(value), path)
    if type(value) in (list, tuple):
        items = [_encode(item, f"{path}/{i}", tensors, depth - 1) for i, item in enumerate(value)]
        return items if type(value) is list else {"tuple": items}
    if isinstance(value, dict):  # an OrderedDict (a module's state_dict) is restored as a dict, in the same order
        pairs = [[_key(key, path), _encode(item, f"{path}/{key}", tensors, depth - 1)] for key, item in value.items()]
        return {"dict": pairs}
    return _encode_array(value, path, tensors)


def _encode_array(value: Any, path: str, tensors: Tensors) -> Json:
    if isinstance(value, Tensor):
        return {_layout(value): _store(_plain(value, path), path, tensors)}
    if isinstance(value, np.ndarray | np.generic):
        kind = "array" if isinstance(value, np.ndarray) else "number"
        return {kind: _store(_from_numpy(value, path), path, tensors)}
    raise InputError(
        f"{_at(path)} is a {type(value).__module__}.{type(value).__qualname__}, which a checkpoint cannot hold. "
        "Use tensors, numpy arrays, numbers, strings, lists, tuples and dictionaries."
    )


def _decode(document: Json, tensors: Tensors) -> Any:
    if isinstance(document, list):
        return [_decode(item, tensors) for item in document]
    if not isinstance(document, dict):
        return document
    if len(document) != 1:
        raise StorageError(f"state.json holds an object with the keys {sorted(document)[:5]}, expected exactly one.")
    ((kind, content),) = document.items()
    match kind, content:
        case "dict", list():
            return _decode_dict(content, tensors)
        case "tuple", list():
            return tuple(_decode(item, tensors) for item in content)
        case (("tensor" | "channels_last" | "array" | "number"), str()) if content in tensors:
            return _restore(kind, tensors.pop(content))
    raise StorageError(f"state.json refers to {kind!r}: {str(content)[:80]!r}, which the checkpoint does not hold.")


def _decode_dict(pairs: list[Any], tensors: Tensors) -> dict[Any, Any]:
    decoded = {}
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int | None)):
            raise StorageError(f"state.json holds {str(pair)[:80]!r}, expected a key and a value.")
        decoded[pair[0]] = _decode(pair[1], tensors)
    return decoded


def _restore(kind: str, tensor: Tensor) -> Any:
    if kind == "tensor":
        return tensor
    if kind == "channels_last":
        return tensor.contiguous(memory_format=torch.channels_last)
    array = tensor.numpy()
    return array if kind == "array" else array[()]


def _key(key: Any, path: str) -> Json:
    if key is None or type(key) in (str, int, bool):
        return key
    raise InputError(f"{_at(path)} has the key {key!r} of type {type(key).__name__}. Use strings or integers.")


def _layout(tensor: Tensor) -> str:
    # Without its memory format a tensor would be slower after a resume, and other kernels might round otherwise.
    last = tensor.dim() == 4 and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last)
    return "channels_last" if last else "tensor"


def _plain(tensor: Tensor, path: str) -> Tensor:
    if tensor.layout is not torch.strided or tensor.dtype not in DTYPES or tensor.is_meta:
        kind = f"{tensor.dtype} tensor ({tensor.layout}, {tensor.device})"
        raise InputError(f"{_at(path)} is a {kind}, which a checkpoint cannot hold.")
    # Copied, since safetensors refuses tensors that share memory (tied weights, views of one buffer).
    plain = tensor.detach().to("cpu", copy=True).contiguous()
    if plain.is_floating_point():
        _finite(None, bool(torch.isfinite(plain).all()), path)
    return plain


def _from_numpy(value: Any, path: str) -> Tensor:
    array = np.asarray(value)
    if array.dtype not in ARRAY_DTYPES:
        raise InputError(f"{_at(path)} is a numpy array of {array.dtype!r}, which a checkpoint cannot hold.")
    return _plain(torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape)), path)


def _store(tensor: Tensor, path: str, tensors: Tensors) -> str:
    # Numbered, since paths need not be unique (keys 1 and "1"); named, so that people can read the file's header.
    name = f"{len(tensors):05d}{path}".encode("ascii", "backslashreplace").decode()
    tensors[name] = tensor
    return name


def _finite(value: Any, finite: bool, path: str) -> Any:
    if not finite:
        raise InputError(f"{_at(path)} is not finite. A run that holds NaN or infinity is not saved.")
    return value


def _at(path: str) -> str:
    return f"the state's {path.lstrip('/') or 'root'}"
