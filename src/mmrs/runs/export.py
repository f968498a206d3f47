"""`mmrs export`: a trained policy as one ONNX file that takes raw observations, checked against torch."""

from __future__ import annotations

import json
import logging
import tempfile
import warnings
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from gymnasium import spaces
from rich.console import Console
from torch import Tensor, nn

from mmrs import __version__
from mmrs.errors import InputError, MissingExtraError, StorageError
from mmrs.ppo.policy import Policy
from mmrs.runs.config import TrainConfig
from mmrs.runs.evaluate import one_env
from mmrs.runs.folder import RunFolder
from mmrs.runs.load import load_policy
from mmrs.storage.files import write_atomic

TOLERANCE = 1e-5
"""Largest difference between ONNX Runtime and torch that is allowed, relative to the largest output."""
BATCHES = (1, 2, 7)
"""Batch sizes that are checked: the file takes any."""
_NAMES = ("parameters", "value", "action")
_ENV_OPTIONS = ("sticky", "obs_type", "reward_clip", "normalize", "kwargs", "wrappers")
"""Options of the environments that a user of the file has to know."""


@dataclass(frozen=True)
class ExportConfig:
    """Write a trained policy for use without this package and without torch."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    onnx: bool = True
    """Write ONNX: raw observations in; distribution parameters, value and likeliest action out."""
    out: Path | None = None
    """File to write instead of `policy.onnx` in the run's folder."""


class Exported(nn.Module):
    """Normalization, network and choice of the action in one module, so that users need nothing else."""

    mean: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor
    starts: Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.network, self.observation, self.action = policy.network, policy.observation, policy.action
        self.normalized = policy.normalizer is not None
        if policy.normalizer:
            self.clip = policy.normalizer.clip
            # In double precision as in training: large offsets would eat the digits of small differences.
            self.register_buffer("mean", torch.as_tensor(policy.normalizer.mean, dtype=torch.float64))
            scale = np.sqrt(policy.normalizer.variance + 1e-8)
            self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float64))
        self.bounded = isinstance(policy.action_space, spaces.Box)
        if isinstance(policy.action_space, spaces.Box):
            self.register_buffer("low", torch.as_tensor(policy.action_space.low))
            self.register_buffer("high", torch.as_tensor(policy.action_space.high))
        else:
            self.register_buffer("starts", torch.as_tensor(np.array(policy.action.starts)))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From ``[B, *obs]`` to distribution parameters, values and actions as the environment takes them."""
        if self.normalized:
            obs = ((obs.double() - self.mean) / self.scale).clamp(-self.clip, self.clip).float()
        parameters, value = self.network(obs)
        action = self.network.mode(parameters)
        if self.bounded:
            action = action.reshape(-1, *self.action.shape).clamp(self.low, self.high)
        else:
            action = (action + self.starts).reshape(-1, *self.action.shape)
        return parameters, value, action


def export(config: ExportConfig, console: Console | None = None) -> Path:
    """Write the file and check it against torch; returns its path."""
    if not config.onnx:
        raise InputError("nothing to export: ONNX is the only format so far. Leave --onnx on.")
    run = RunFolder.open(config.run)
    trained = run.read_config(TrainConfig)
    with closing(one_env(trained.env)) as envs:
        policy, _, step = load_policy(run, envs)
        batches = [observations(envs.observation_space, size) for size in BATCHES]
    path = config.out or run.path / "policy.onnx"
    model = to_onnx(Exported(policy).eval(), torch.as_tensor(batches[1]))
    worst = difference(model, policy, batches)
    if not worst <= TOLERANCE:
        raise StorageError(
            f"ONNX Runtime differs from torch by {worst:.2g} (allowed {TOLERANCE:g}); nothing was written."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}.") from error
    write_atomic(path, with_metadata(model, metadata(policy, trained, step)), durable=True)
    text = f"policy of step {step}: {path} (within {worst:.1g} of torch, any batch size)"
    (console or Console()).print(text, highlight=False, soft_wrap=True)
    return path


def to_onnx(module: nn.Module, example: Tensor) -> bytes:
    """The module as an ONNX file with a free batch dimension."""
    try:
        import onnxscript  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingExtraError("onnxscript", "onnx") from error
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter warns about itself
        file = Path(folder) / "policy.onnx"
        torch.onnx.export(
            module,
            (example,),
            str(file),
            dynamo=True,
            input_names=["obs"],
            output_names=list(_NAMES),
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            external_data=False,
            verbose=False,
        )
        return file.read_bytes()


def metadata(policy: Policy, trained: TrainConfig, step: int) -> dict[str, str]:
    """What a user of the file has to know about its inputs and outputs, by key."""
    observation, action = policy.observation, policy.action
    parameters = "means of a Gaussian; its log standard deviations are " + str(policy.network.log_std.tolist())
    if action.nvec:
        parameters = f"logits of one categorical distribution per action, with {list(action.nvec)} choices"
    scaled = "standardized inside the file" if policy.normalizer else "used as they are"
    options = {name: value for name, value in asdict(trained.env).items() if name in _ENV_OPTIONS}
    return {
        "environment": trained.env.id,
        "environment_options": json.dumps(options),
        "obs": f"{observation.kind} {list(observation.shape)}, as the environment gives it after its wrappers: images "
        f"gray and stacked, values {scaled}",
        "action": "the likeliest action, as the environment takes it; Box actions are clipped to their bounds",
        "parameters": parameters,
        "value": "value of the state; with two heads, that of the reward first and that of the bonus second",
        "bonus": trained.bonus.name,
        "step": str(step),
        "mmrs_version": __version__,
    }


def with_metadata(model: bytes, entries: dict[str, str]) -> bytes:
    """The ONNX file with these entries as its `metadata_props`."""
    try:
        import onnx  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx") from error
    proto = onnx.load_model_from_string(model)
    onnx.helper.set_model_props(proto, entries)
    content: bytes = proto.SerializeToString()
    return content


def difference(model: bytes, policy: Policy, batches: list[Any]) -> float:
    """Largest difference of parameters and values from torch, relative to the largest of them (or to 1)."""
    try:
        import onnxruntime  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "onnx") from error
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    worst = 0.0
    for obs in batches:
        got = session.run(list(_NAMES[:2]), {"obs": obs})
        with torch.no_grad():
            expected = policy.network(policy.inputs(obs))
        for ours, theirs in zip(expected, got, strict=True):
            size = max(1.0, float(ours.abs().max()))
            worst = max(worst, float((ours - torch.from_numpy(theirs)).abs().max()) / size)
    return worst


def observations(space: spaces.Space[Any], count: int) -> Any:
    """Observations sampled from a space, ``[count, *obs]``, the same at each call."""
    space.seed(count)
    return np.stack([np.asarray(space.sample()) for _ in range(count)])
