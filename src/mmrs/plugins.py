"""Modules of the user: imported by name or path before a run, and again in every process that works on it.

Such a module registers rewards (`mmrs.register`), environments (`gymnasium.register`) or families of environments when
it is imported. A run records its modules, so that resuming, evaluating and workers of sweeps import them too.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from mmrs.errors import InputError, did_you_mean, ensure_period

T = TypeVar("T")
REWARD_GROUP = "mmrs.rewards"
"""Entry point group of rewards in installed packages: the name of a reward and its class."""
_loaded: dict[str, None] = {}
"""What this process has imported, as absolute paths and names of modules, in order."""


def locate(names: Sequence[str]) -> tuple[str, ...]:
    """Names of modules in a form that any process can import: what lies in the current folder, by its absolute path."""
    return tuple(dict.fromkeys(_located(name) for name in names))


def load(names: Sequence[str]) -> None:
    """Import modules, given by name or as paths of files or packages; each once per process.

    The folder of each path, and the current folder, are appended to `sys.path`: installed packages come first.

    Raises:
        InputError: A module cannot be imported; says why and where.
    """
    for name in names:
        located = _located(name)
        if located not in _loaded:
            _import(located)
            _loaded[located] = None


def found_here(module: str) -> bool:
    """Whether a module lies in the current folder, and no installed package has its name."""
    first = module.partition(".")[0]
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):  # such as a module without a specification: it is there
        return False
    if spec is None:
        return any(Path(path).exists() for path in (f"{first}.py", first))
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    return any(place and Path.cwd() in Path(place).resolve().parents[:2] for place in places)


def local_modules(references: Sequence[str]) -> tuple[str, ...]:
    """The modules of references ``module:name`` that lie in the current folder."""
    modules = dict.fromkeys(reference.partition(":")[0] for reference in references if ":" in reference)
    return tuple(module for module in modules if found_here(module))


def carried(make: Callable[..., T]) -> Callable[..., T]:
    """The function, preceded by the imports of this process: it may be called in another one."""
    return functools.partial(_load_and_call, tuple(_loaded), make) if _loaded else make


def get_object(reference: str, what: str) -> Any:
    """The object that ``module:name`` refers to.

    Args:
        reference: For example ``minigrid.wrappers:ImgObsWrapper``.
        what: What it is, for messages.
    """
    module_name, colon, name = reference.partition(":")
    if not colon or not name or not module_name:
        raise InputError(f"{what} {reference!r}: expected module:name, for example minigrid.wrappers:ImgObsWrapper.")
    found: Any = _import_module(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            known = [one for one in vars(found) if not one.startswith("_")]
            raise InputError(f"{what} {reference!r}: {module_name} has no {part!r}. {did_you_mean(part, known)}")
        found = getattr(found, part)
    return found


def reward_entry_points() -> dict[str, Callable[[], Any]]:
    """Rewards that installed packages offer: a function per name that imports the class."""
    return {point.name: functools.partial(_load_point, point) for point in entry_points(group=REWARD_GROUP)}


def _load_point(point: Any) -> Any:
    try:
        return point.load()
    except Exception as error:
        raise InputError(f"the reward {point.name!r} ({point.value}) cannot be imported: {_reason(error)}") from error


def _load_and_call(names: Sequence[str], make: Callable[..., T], *args: Any, **options: Any) -> T:
    load(names)
    return make(*args, **options)


def _located(name: str) -> str:
    if not name:
        raise InputError("--import got an empty name; expected a module, for example my_reward or my_reward.py.")
    if _is_path(name):
        path = Path(name).expanduser().resolve()
        script = path.with_name(f"{path.name}.py")
        return str(script if script.exists() and not path.exists() else path)
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(f"--import got {name!r}; expected a module, for example my_reward or my_reward.py.")
    if not found_here(name):
        return name
    path = Path(*name.split("."))
    for candidate in (path.with_suffix(".py"), path):
        # A module below a folder without __init__.py has another name when it is imported by its path.
        if candidate.exists() and _name_of(candidate.resolve())[1] == name:
            return str(candidate.resolve())
    return name


def _is_path(name: str) -> bool:
    return name.endswith(".py") or "/" in name or "\\" in name


def _name_of(path: Path) -> tuple[Path, str]:
    """The folder to search and the name of the module at a path; packages are the folders with an __init__.py."""
    parts = [] if path.name == "__init__.py" else [path.stem if path.suffix == ".py" else path.name]
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.append(folder.name)
        folder = folder.parent
    return folder, ".".join(reversed(parts))


def _import(located: str) -> None:
    if not _is_path(located):
        _search(Path.cwd())
        _import_module(located)
        return
    path = Path(located)
    folder, name = _name_of(path)
    if path.exists():
        _search(folder)
        module = _import_module(name)
        origin = Path(module.__file__).resolve() if module.__file__ else path
        if path not in (origin, origin.parent):
            raise InputError(f"{path} has the name of another module, {origin}. Rename the file.")
        return
    if found_here(name) or name in sys.modules:  # a run whose folder was moved
        _search(Path.cwd())
        _import_module(name)
        return
    raise InputError(
        f"the module {path} does not exist. If it was moved, run the command in the folder that holds {path.name} now."
    )


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        importlib.invalidate_caches()


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]
        hint = f" Give its path (--import FOLDER/{error.name}.py), or install it." if missing else ""  # type: ignore[attr-defined]
        raise InputError(f"cannot import {name}: {_reason(error)}{hint}") from error


def _reason(error: Exception) -> str:
    """The error in one line, with the line of code outside the standard library that raised it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    where = frames[-1] if frames and frames[-1].filename != __file__ else None
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return ensure_period(f"{text} ({where.filename}, line {where.lineno})" if where else text)
