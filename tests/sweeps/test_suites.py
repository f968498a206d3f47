"""Suites: the paper's tables spec by spec, smaller forms of them, and clear words for what does not exist."""

import gymnasium
import pytest

from mmrs.errors import InputError
from mmrs.listing import suites
from mmrs.runs.config import TrainConfig
from mmrs.runs.config_json import from_json
from mmrs.runs.folder import NAME
from mmrs.sweeps.job import CONFIGS
from mmrs.sweeps.suites import SUITES, expand_suite, start_order


@pytest.mark.parametrize("suite", SUITES.values(), ids=lambda suite: suite.name)
def test_every_cell_can_be_named_and_configured(suite):
    specs = expand_suite(suite)
    assert len(specs) == len(suite.games) * len(suite.methods) * suite.seeds
    assert len({spec.name for spec in specs}) == len(specs)
    for spec in specs:
        assert NAME.fullmatch(spec.name)
        from_json(CONFIGS[spec.kind], spec.config)


def test_the_papers_tables_are_1040_runs_of_ten_million_steps():
    specs = [*expand_suite(SUITES["atari"]), *expand_suite(SUITES["bullet"])]
    assert len(specs) == 20 * 5 * 8 + 6 * 5 * 8
    configs = [from_json(TrainConfig, spec.config) for spec in specs]
    assert {config.steps for config in configs} == {10_000_000}
    assert {(config.num_steps, config.env.num_envs) for config in configs} == {(128, 8)}
    for spec, config in zip(specs, configs, strict=True):
        assert (config.env.id, config.seed) == (spec.env, spec.seed)
        assert config.bonus.name == {"ppo": "none"}.get(spec.method, spec.method)
        assert config.env.reward_clip == spec.env.startswith("ALE/")
        assert config.env.normalize == ("Bullet" in spec.env)


def test_cells_start_seed_by_seed_and_the_dear_method_first():
    specs = start_order(expand_suite(SUITES["atari"]))
    assert len(specs) == 800
    assert {spec.seed for spec in specs[:100]} == {0}
    assert [spec.method for spec in specs[:100:20]] == ["mmrs", "rnd", "ride", "re3", "ppo"]


def test_suites_scale_down():
    specs = expand_suite(
        SUITES["atari"], steps=1000, seeds=2, games=["breakout", "ALE/Alien-v5"], methods=["ppo", "jfi"]
    )
    assert [(c.env, c.method, c.seed) for c in specs[:4]] == [
        ("ALE/Breakout-v5", "ppo", 0), ("ALE/Breakout-v5", "jfi", 0), ("ALE/Alien-v5", "ppo", 0),
        ("ALE/Alien-v5", "jfi", 0),
    ]  # fmt: skip
    assert len(specs) == 8
    assert {spec.config["steps"] for spec in specs} == {1000}
    assert {c.env for c in expand_suite(SUITES["bullet"], games=["Hopper"])} == {"HopperBulletEnv-v0"}
    assert {c.env for c in expand_suite(SUITES["smoke"], games=["Acrobot-v1"])} == {"Acrobot-v1"}


def test_the_printed_form_has_the_printed_weights_of_its_kind():
    def options(suite, method):
        return {tuple(spec.config["bonus"]["options"]) for spec in expand_suite(SUITES[suite], methods=[method])}

    assert options("atari", "mmrs-paper") == {("preset=paper",)}
    assert options("bullet", "mmrs-paper") == {("preset=paper-bullet",)}
    assert options("vanishing", "mmrs") == {("preset=paper",)}


def test_where_vanishing_is_looked_for_no_bonus_is_rescaled():
    assert {spec.config["bonus"]["scale"] for spec in expand_suite(SUITES["vanishing"])} == {"none"}


def test_seeds_of_the_maze_suite_are_different_mazes():
    specs = expand_suite(SUITES["maze"], seeds=3, games=["plus 5"], methods=["jfi"])
    assert [(c.config["first_seed"], c.config["mazes"]) for c in specs] == [(0, 100), (100, 100), (200, 100)]


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
        expand_suite(SUITES[suite], **options)


def test_two_environments_never_share_a_folder(monkeypatch):
    for name in ("a/b-v0", "a-b-v0"):
        monkeypatch.setitem(gymnasium.registry, name, gymnasium.spec("CartPole-v1"))
    with pytest.raises(InputError, match=r"a/b-v0 and a-b-v0 would share the folder a-b-v0-ppo-0"):
        expand_suite(SUITES["smoke"], games=["a/b-v0", "a-b-v0"], methods=["ppo"])


def test_the_list_tells_every_suite_and_its_size():
    assert suites().keys() == SUITES.keys()
    assert suites()["atari"].endswith("(runs: 800)")
