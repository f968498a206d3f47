"""The palette that figures and pages share."""

from mmrs.paper.maze.options import METHODS
from mmrs.report.rendering import COLORS, DARK_COLORS, method_colors
from mmrs.rewards import REWARDS


def test_every_known_method_has_its_own_color_on_every_page():
    known = ["ppo", "mmrs-paper", *REWARDS, *METHODS]
    colors = method_colors(known)
    assert all(method_colors([name, "another"])[name] == colors[name] for name in known)
    assert colors.pop("vanilla") == colors["ppo"]  # plain Q-learning is the baseline of the maze
    assert len(set(colors.values())) == len(colors)
    assert max(colors.values()) < len(COLORS) == len(DARK_COLORS) == len({*COLORS}) == len({*DARK_COLORS})


def test_other_methods_take_the_colors_that_are_left():
    colors = method_colors(["mmrs (bonus.weight=2)", "ppo", "mmrs", "own"])
    assert colors == {"ppo": 0, "mmrs": 2, "mmrs (bonus.weight=2)": 1, "own": 3}
    many = method_colors(f"method {i}" for i in range(40))
    assert {*many.values()} == {*range(len(COLORS))}
