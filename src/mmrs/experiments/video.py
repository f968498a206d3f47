"""`mmrs video`: watch a trained policy, with what each reward term pays drawn under the picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro
from rich.console import Console

from mmrs.agents.policy import Policy
from mmrs.envs.training import Step, TrainingEnvs
from mmrs.errors import InputError, MissingExtraError, StorageError
from mmrs.experiments import store
from mmrs.experiments.build import build_envs
from mmrs.experiments.config import TrainConfig
from mmrs.experiments.load import load_bonus, rollout_of
from mmrs.experiments.run_folder import RunFolder
from mmrs.experiments.video_frame import FrameDrawer, Picture
from mmrs.rewards import IntrinsicReward, Memory


@dataclass(frozen=True)
class VideoConfig:
    """Record a trained policy as mp4 into the run's `videos`, with the reward terms as running curves."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    episodes: int = 1
    """Whole games to show."""
    max_steps: int = 2_000
    """Most steps to show."""
    deterministic: bool = False
    """Always take the likeliest action, rather than draw actions as in training."""
    fps: int = 30
    """Steps shown a second."""
    seed: int = 1_000_003
    """Of game and actions."""
    out: Path | None = None
    """File to write instead of one in the run's `videos`."""


class Shot(NamedTuple):
    """One step to draw."""

    picture: Picture
    terms: dict[str, float]
    caption: str


def video(config: VideoConfig, console: Console | None = None) -> Path:
    """Play, draw and write; returns the file."""
    for name in ("episodes", "max_steps", "fps"):
        if getattr(config, name) < 1:
            raise InputError(f"{name} must be at least 1, not {getattr(config, name)}.")
    run = RunFolder.open(config.run)
    settings = run.read_config(TrainConfig)
    step, tree = store.load(run.checkpoints)
    # As many environments as in training, though one is shown: what a bonus pays depends on what all of them see.
    with closing(build_envs(replace(settings.env, vectorization="sync"), render=True)) as envs:
        policy = Policy(envs.observation_space, envs.action_space, tree["trainer"], config.seed)
        bonus, memory = load_bonus(settings, envs, tree["trainer"])
        path = config.out or _free_name(run.videos, f"step-{step:09d}")
        drawer = FrameDrawer()
        frames = (drawer.draw(*shot) for shot in shots(policy, bonus, memory, envs, settings.num_steps, config))
        write_mp4(path, frames, config.fps)
    (console or Console()).print(f"video of step {step}: {path}", highlight=False, soft_wrap=True)
    return path


def shots(
    policy: Policy,
    bonus: IntrinsicReward | None,
    memory: Memory | None,
    envs: TrainingEnvs,
    rollout: int,
    config: VideoConfig,
) -> Iterator[Shot]:
    """What environment 0 shows and earns, a rollout at a time, since a bonus may look at a whole rollout."""
    obs, done, total, games = envs.reset(config.seed), 0, 0.0, 0
    while done < config.max_steps and games < config.episodes:
        seen, actions, pictures = [obs], [], []
        steps: list[Step] = []
        while len(steps) < rollout:
            pictures.append(np.array(envs.render()))
            actions.append(policy.act(obs, config.deterministic))
            steps.append(envs.step(actions[-1]))
            obs = steps[-1].obs
            seen.append(obs)
        terms: dict[str, Any] = {}
        if bonus:
            terms, memory = bonus.compute_terms(rollout_of(policy, seen, actions, steps), memory)
        for t, (picture, step) in enumerate(zip(pictures, steps, strict=True)):
            if done == config.max_steps or games == config.episodes:
                return
            total += float(step.reward[0])
            values = {name: float(term[t, 0]) for name, term in terms.items()}
            yield Shot(picture, {"extrinsic": float(step.reward[0]), **values}, f"step {done}   return {total:.1f}")
            over = 0 in step.episodes.game_envs
            total, games, done = 0.0 if over else total, games + over, done + 1


def write_mp4(path: Path, frames: Iterator[Picture], fps: int) -> None:
    """Write frames of one size; the file is there whole or not at all."""
    try:
        import imageio.v2 as imageio  # noqa: PLC0415
        import imageio_ffmpeg  # type: ignore[import-untyped]  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingExtraError("imageio-ffmpeg", "video") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".part-{path.stem}.mp4")
    try:
        writer: Any = imageio.get_writer(draft, fps=fps, codec="libx264", macro_block_size=16)
        with writer:
            for frame in frames:
                writer.append_data(frame)
        draft.replace(path)
    except OSError as error:  # ffmpeg's end is a broken pipe here, a full disk mostly
        raise StorageError(f"cannot write {path}: {error.strerror or error}. Is the disk full?") from error
    finally:
        draft.unlink(missing_ok=True)


def _free_name(folder: Path, stem: str) -> Path:
    names = (folder / (f"{stem}.mp4" if i == 1 else f"{stem}-{i}.mp4") for i in range(1, 100_000))
    return next(path for path in names if not path.exists())
