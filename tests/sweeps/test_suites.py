"""Suites: the paper's tables cell by cell, smaller forms of them, and clear words for what does not exist."""

import gymnasium
import pytest

from mmrs.errors import InputError
from mmrs.listing import suites
from mmrs.runs.config import TrainConfig
from mmrs.runs.config_json import from_json
from mmrs.runs.folder import NAME
from mmrs.sweeps.job import CONFIGS
from mmrs.sweeps.suites import SUITES, cells_of, in_order


@pytest.mark.parametrize("suite", SUITES.values(), ids=lambda suite: suite.name)
def test_every_cell_can_be_named_and_configured(suite):
    cells = cells_of(suite)
    assert len(cells) == len(suite.games) * len(suite.methods) * suite.seeds
    assert len({cell.name for cell in cells}) == len(cells)
    for cell in cells:
        assert NAME.fullmatch(cell.name)
        from_json(CONFIGS[cell.kind], cell.config)


def test_the_papers_tables_are_1040_runs_of_ten_million_steps():
    cells = [*cells_of(SUITES["atari"]), *cells_of(SUITES["bullet"])]
    assert len(cells) == 20 * 5 * 8 + 6 * 5 * 8
    configs = [from_json(TrainConfig, cell.config) for cell in cells]
    assert {config.steps for config in configs} == {10_000_000}
    assert {(config.num_steps, config.env.num_envs) for config in configs} == {(128, 8)}
    for cell, config in zip(cells, configs, strict=True):
        assert (config.env.id, config.seed) == (cell.env, cell.seed)
        assert config.bonus.name == {"ppo": "none"}.get(cell.method, cell.method)
        assert config.env.reward_clip == cell.env.startswith("ALE/")
        assert config.env.normalise == ("Bullet" in cell.env)


def test_cells_start_seed_by_seed_and_the_dear_method_first():
    cells = in_order(cells_of(SUITES["atari"]))
    assert len(cells) == 800
    assert {cell.seed for cell in cells[:100]} == {0}
    assert [cell.method for cell in cells[:100:20]] == ["mmrs", "rnd", "ride", "re3", "ppo"]


def test_suites_scale_down():
    cells = cells_of(SUITES["atari"], steps=1000, seeds=2, games=["breakout", "ALE/Alien-v5"], methods=["ppo", "jfi"])
    assert [(c.env, c.method, c.seed) for c in cells[:4]] == [
        ("ALE/Breakout-v5", "ppo", 0), ("ALE/Breakout-v5", "jfi", 0), ("ALE/Alien-v5", "ppo", 0),
        ("ALE/Alien-v5", "jfi", 0),
    ]  # fmt: skip
    assert len(cells) == 8
    assert {cell.config["steps"] for cell in cells} == {1000}
    assert {c.env for c in cells_of(SUITES["bullet"], games=["Hopper"])} == {"HopperBulletEnv-v0"}
    assert {c.env for c in cells_of(SUITES["smoke"], games=["Acrobot-v1"])} == {"Acrobot-v1"}


def test_the_printed_form_has_the_printed_weights_of_its_kind():
    def options(suite, method):
        return {tuple(cell.config["bonus"]["options"]) for cell in cells_of(SUITES[suite], methods=[method])}

    assert options("atari", "mmrs-paper") == {("preset=paper",)}
    assert options("bullet", "mmrs-paper") == {("preset=paper-bullet",)}
    assert options("vanishing", "mmrs") == {("preset=paper",)}


def test_where_vanishing_is_looked_for_no_bonus_is_rescaled():
    assert {cell.config["bonus"]["scale"] for cell in cells_of(SUITES["vanishing"])} == {"none"}


def test_seeds_of_the_maze_suite_are_different_mazes():
    cells = cells_of(SUITES["maze"], seeds=3, games=["plus 5"], methods=["jfi"])
    assert [(c.config["first_seed"], c.config["mazes"]) for c in cells] == [(0, 100), (100, 100), (200, 100)]


@pytest.mark.parametrize(
    ("suite", "options", "words"),
    [
        ("smoke", {"methods": ["mmr"]}, "no method 'mmr'. Did you mean 'mmrs'"),
        ("atari", {"games": ["Alein"]}, "'ALE/Alien-v5'"),
        ("maze", {"games": ["plus 7"]}, "no 'plus 7'. Did you mean 'plus 5'"),
        ("maze", {"steps": 100}, "no steps to choose"),
        ("smoke", {"seeds": 0}, "seeds is 0"),
        ("smoke", {"steps": -1}, "steps is -1"),
    ],
)
def test_what_does_not_exist_is_refused_with_a_hint(suite, options, words):
    with pytest.raises(InputError, match="(?s)" + words.replace("(", r"\(")):
        cells_of(SUITES[suite], **options)


def test_two_environments_never_share_a_folder(monkeypatch):
    for name in ("a/b-v0", "a-b-v0"):
        monkeypatch.setitem(gymnasium.registry, name, gymnasium.spec("CartPole-v1"))
    with pytest.raises(InputError, match=r"a/b-v0 and a-b-v0 would share the folder a-b-v0-ppo-0"):
        cells_of(SUITES["smoke"], games=["a/b-v0", "a-b-v0"], methods=["ppo"])


def test_the_list_tells_every_suite_and_its_size():
    assert suites().keys() == SUITES.keys()
    assert suites()["atari"].endswith("(runs: 800)")
