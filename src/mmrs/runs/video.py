"""`mmrs video`: watch a trained policy, with what each reward term pays drawn under the picture."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console

from mmrs.envs.base import Step, TrainingEnvs
from mmrs.errors import InputError, MissingExtraError, StorageError
from mmrs.ppo.policy import Policy
from mmrs.rewards import IntrinsicReward, Memory
from mmrs.runs.build import build_envs
from mmrs.runs.config import TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.runs.load import load_bonus, rollout_of
from mmrs.storage import checkpoint as store


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


Picture = NDArray[np.uint8]
WIDTH = 480
"""Of the video, in pixels; a multiple of 16, as video codecs want."""
STRIP = 48
"""Height of a curve; a multiple of 16."""
WINDOW = 240
"""Steps a curve shows."""
_COLOURS = (
    (240, 240, 240),
    (86, 180, 233),
    (230, 159, 0),
    (0, 158, 115),
    (204, 121, 167),
    (213, 94, 0),
)  # colour-blind safe
_BACK, _LINE = (18, 18, 24), (60, 60, 72)


class FrameDrawer:
    """Draws frame after frame; remembers the last steps of each term."""

    def __init__(self) -> None:
        try:
            from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("pillow", "video") from error
        self._image, self._draw = Image, ImageDraw
        self._font = ImageFont.load_default(12)
        self.curves: dict[str, deque[float]] = {}

    def draw(self, picture: Picture, terms: dict[str, float], caption: str) -> Picture:
        """One frame ``[H, WIDTH, 3]``: the picture at step t, the caption, and the terms up to step t."""
        for name, value in terms.items():
            self.curves.setdefault(name, deque(maxlen=WINDOW)).append(value)
        top = self._scaled(picture)
        height = top.height + 22 + STRIP * len(self.curves)
        canvas = self._image.new("RGB", (WIDTH, -(-height // 16) * 16), _BACK)
        canvas.paste(top, ((WIDTH - top.width) // 2, 0))
        pen = self._draw.Draw(canvas)
        pen.text((6, top.height + 3), caption, fill=_COLOURS[0], font=self._font)
        for i, (name, curve) in enumerate(self.curves.items()):
            self._curve(pen, top.height + 22 + STRIP * i, name, curve, _COLOURS[i % len(_COLOURS)])
        return np.asarray(canvas, np.uint8)

    def _scaled(self, picture: Picture) -> Any:
        height, width = picture.shape[:2]
        factor = min(WIDTH / width, 480 / height)
        # Whole factors keep the pixels of a game square and sharp.
        factor = int(factor) if factor >= 1 else factor
        size = (max(1, round(width * factor)), max(1, round(height * factor)))
        how = self._image.Resampling.NEAREST if factor >= 1 else self._image.Resampling.BILINEAR
        return self._image.fromarray(np.ascontiguousarray(picture)).resize(size, how)

    def _curve(self, pen: Any, top: int, name: str, values: deque[float], colour: tuple[int, int, int]) -> None:
        array = np.array(values, np.float64)
        low, high = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
        high += (high - low == 0.0) * 1.0
        y = top + STRIP - 6 - (array - low) / (high - low) * (STRIP - 22)
        x = np.linspace(0, WIDTH - 1, WINDOW)[-len(array) :]
        zero = top + STRIP - 6 - (0.0 - low) / (high - low) * (STRIP - 22)
        pen.line([(0, zero), (WIDTH, zero)], fill=_LINE)
        if len(array) > 1:
            pen.line(np.stack([x, y], 1).ravel().tolist(), fill=colour, width=1)
        pen.text((6, top), f"{name}  {array[-1]:+.4g}", fill=colour, font=self._font)
