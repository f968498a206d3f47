"""Maps of a grid world: how often each cell was entered, and what each reward paid for entering it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmrs.report.canvas import new_figure, save_figure


def draw_reward_maps(
    rewards: Sequence[tuple[str, Sequence[float]]], visits: Sequence[int], side: int, folder: Path
) -> list[Path]:
    """One map of visits and one a reward, as PNG and SVG; cells nobody entered stay grey."""
    panels = len(rewards) + 1
    figure = new_figure(2.5 * panels, 2.9)
    counts = np.array(visits, float).reshape(side, side)
    maps = [("visits (log)", np.log10(np.where(counts > 0, counts, np.nan)), "cividis")]
    maps += [(name, np.array(values, float).reshape(side, side), "viridis") for name, values in rewards]
    for place, (title, values, colours) in enumerate(maps):
        axes = figure.add_subplot(1, panels, place + 1, facecolor="#d8d8d8")
        picture = axes.imshow(values, cmap=colours)
        axes.set_title(title)
        axes.set_xticks([])
        axes.set_yticks([])
        figure.colorbar(picture, ax=axes, orientation="horizontal", shrink=0.9, pad=0.04)
    return save_figure(figure, folder, "rewards")
