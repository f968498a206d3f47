"""`mmrs video`: a video of a trained policy, with the reward terms as running curves under the image."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console

from mmrs.envs.base import EnvStep
from mmrs.errors import InputError, MissingExtraError, StorageError
from mmrs.ppo.policy import Policy
from mmrs.rewards import IntrinsicReward, Memory
from mmrs.runs.build import build_envs
from mmrs.runs.config import TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.runs.load import fitting, load_bonus, load_checkpoint
from mmrs.runs.play import Transition, play, to_rollout

Image = NDArray[np.uint8]
"""``[H, W, 3]`` RGB."""
WIDTH = 480
"""Width of the video in pixels; a multiple of 16, as video codecs want."""
CAPTION_HEIGHT = 22
CURVE_HEIGHT = 48
WINDOW = 240
"""Steps that a curve shows."""
_DPI = 100
_COLORS = ("#f0f0f0", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00")  # safe for color-blind readers
_BACKGROUND, _AXIS = "#121218", "#3c3c48"


@dataclass(frozen=True)
class VideoConfig:
    """Record a trained policy as mp4 into the run's `videos`, with the reward terms as running curves."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    episodes: int = 1
    """Number of games to show."""
    max_steps: int = 2_000
    """Largest number of steps to show."""
    deterministic: bool = False
    """Always take the likeliest action instead of sampling actions as in training."""
    fps: int = 30
    """Steps shown per second."""
    seed: int = 1_000_003
    """Seed of the environment and the actions."""
    out: Path | None = None
    """File to write instead of one in the run's `videos`."""


class Frame(NamedTuple):
    """One step to draw."""

    image: Image
    terms: dict[str, float]
    """Reward terms of the step by name."""
    caption: str


def video(config: VideoConfig, console: Console | None = None) -> Path:
    """Play, draw and write; returns the file."""
    for name in ("episodes", "max_steps", "fps"):
        if getattr(config, name) < 1:
            raise InputError(f"{name} must be at least 1, not {getattr(config, name)}.")
    run = RunFolder.open(config.run)
    trained = run.read_config(TrainConfig)
    step, tree = load_checkpoint(run)
    # As many environments as in training, though one is shown: what a bonus pays depends on what all of them see.
    with closing(build_envs(replace(trained.env, vectorization="sync"), render=True)) as envs:
        with fitting(run):
            policy = Policy(envs.observation_space, envs.action_space, tree["trainer"], config.seed)
            bonus, memory = load_bonus(trained, envs, tree["trainer"])
        path = config.out or _free_name(run.videos, f"step-{step:09d}")
        drawer = FrameDrawer()
        transitions = play(policy, envs, config.seed, deterministic=config.deterministic, render=envs.render)
        frames = frames_of(policy, bonus, memory, transitions, trained.num_steps, config)
        write_mp4(path, (drawer.draw(*frame) for frame in frames), config.fps)
    (console or Console()).print(f"video of step {step}: {path}", highlight=False, soft_wrap=True)
    return path


def frames_of(
    policy: Policy,
    bonus: IntrinsicReward | None,
    memory: Memory | None,
    transitions: Iterator[Transition[EnvStep]],
    num_steps: int,
    config: VideoConfig,
) -> Iterator[Frame]:
    """What environment 0 shows and earns, one rollout after the other, since a bonus may look at a whole rollout."""
    done, total, games = 0, 0.0, 0
    while done < config.max_steps and games < config.episodes:
        rollout = list(islice(transitions, num_steps))
        terms: dict[str, Any] = {}
        if bonus:
            terms, memory = bonus.compute_terms(to_rollout(policy, rollout), memory)
        for t, (_, _, step, image) in enumerate(rollout):
            if done == config.max_steps or games == config.episodes:
                return
            assert image is not None, "the transitions were not rendered"
            total += float(step.reward[0])
            values = {name: float(term[t, 0]) for name, term in terms.items()}
            yield Frame(image, {"extrinsic": float(step.reward[0]), **values}, f"step {done}   return {total:.1f}")
            over = 0 in step.episodes.game_envs
            total, games, done = 0.0 if over else total, games + over, done + 1


def write_mp4(path: Path, frames: Iterator[Image], fps: int) -> None:
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


class FrameDrawer:
    """Draws frame after frame with matplotlib; remembers the last steps of each term.

    Only what changes is drawn again, over a background that is kept: 5 to 9 ms per frame of four curves.
    """

    def __init__(self) -> None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
            from matplotlib.figure import Figure  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("matplotlib", "video") from error
        self._figure = Figure(dpi=_DPI, facecolor=_BACKGROUND)
        self._canvas: Any = FigureCanvasAgg(self._figure)
        self._background: Any = None
        self._curves: dict[str, _Curve] = {}

    def draw(self, image: Image, terms: dict[str, float], caption: str) -> Image:
        """One frame ``[H, WIDTH, 3]``: the image at step t, the caption, and the terms up to step t."""
        top = scaled(image)
        if self._background is None:
            self._lay_out(len(top), list(terms))
        self._canvas.restore_region(self._background)
        self._caption.set_text(caption)
        self._figure.draw_artist(self._caption)
        for name, value in terms.items():
            self._curves[name].draw(value)
        frame = np.array(self._canvas.buffer_rgba())[..., :3]
        left = (WIDTH - top.shape[1]) // 2
        frame[: len(top), left : left + top.shape[1]] = top
        return frame

    def _lay_out(self, image_height: int, names: list[str]) -> None:
        height = image_height + CAPTION_HEIGHT + CURVE_HEIGHT * len(names)
        height = -(-height // 16) * 16
        self._figure.set_size_inches(WIDTH / _DPI, height / _DPI)
        above = image_height + CAPTION_HEIGHT
        self._caption = self._figure.text(
            6 / WIDTH, 1 - (above - 6) / height, "", color=_COLORS[0], fontsize=9, animated=True
        )
        for i, name in enumerate(names):
            bottom = above + CURVE_HEIGHT * (i + 1)
            axes = self._figure.add_axes((0, 1 - bottom / height, 1, CURVE_HEIGHT / height))
            self._curves[name] = _Curve(axes, name, _COLORS[i % len(_COLORS)])
        self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(self._figure.bbox)


class _Curve:
    """The last values of a term; the largest, the smallest and 0 are always inside."""

    def __init__(self, axes: Any, name: str, color: str) -> None:
        axes.set_axis_off()
        axes.set_xlim(0, WINDOW - 1)
        axes.set_ylim(-0.23, 1.62)  # in shares of the range of values: room for the label above
        self.axes, self.name, self.values = axes, name, deque[float](maxlen=WINDOW)
        (self._zero,) = axes.plot([0, WINDOW - 1], [0, 0], color=_AXIS, linewidth=0.8, animated=True)
        (self._line,) = axes.plot([], [], color=color, linewidth=0.9, animated=True)
        self._label = axes.text(3, 1.18, "", color=color, fontsize=9, animated=True)

    def draw(self, value: float) -> None:
        self.values.append(value)
        array = np.array(self.values, np.float64)
        low, high = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
        size = high - low or 1.0
        self._zero.set_ydata([-low / size] * 2)
        self._line.set_data(np.arange(WINDOW - len(array), WINDOW), (array - low) / size)
        self._label.set_text(f"{self.name}  {value:+.4g}")
        for artist in (self._zero, self._line, self._label):
            self.axes.draw_artist(artist)


def scaled(image: Image) -> Image:
    """The image at the largest size that fits; whole factors keep the pixels of a game square and sharp."""
    import PIL.Image  # noqa: PLC0415 (comes with matplotlib)

    height, width = image.shape[:2]
    factor = min(WIDTH / width, 480 / height)
    if factor >= 1:
        return image.repeat(int(factor), 0).repeat(int(factor), 1)
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    picture = PIL.Image.fromarray(np.ascontiguousarray(image))
    return np.asarray(picture.resize(size, PIL.Image.Resampling.BILINEAR))
