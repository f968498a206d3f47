"""Environments by name: suggestions, missing extras, spaces, images, infos and checks of the input."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from tests.support.envs import Scripted, register_pictures

from mmrs.envs.bullet import BULLET_GAMES, make_bullet
from mmrs.envs.gym_envs import GymEnvs, SyncBackend
from mmrs.envs.registry import environment_ids, family, make_envs
from mmrs.envs.replay import ReplayedEnvs
from mmrs.errors import EnvError, InputError, MissingExtraError, UnsupportedSpaceError


def scripted(num_envs=2, **spoil):
    makers = [Scripted] * (num_envs - 1) + [lambda: Scripted(spoil)]
    envs = ReplayedEnvs(SyncBackend(makers), reseed_every=1000)
    envs.reset(0)
    return envs


def test_steps_flags_returns_and_infos():
    envs = scripted()
    for _ in range(2):
        for _ in range(2):
            step = envs.step(np.array([0, 1]))
            assert not (step.terminated | step.truncated).any() and step.final_obs.shape == (0, 2)
            assert step.episodes.episode_returns == []
        step = envs.step(np.array([0, 1]))
        assert step.terminated.tolist() == [False, True] and step.truncated.tolist() == [True, False]
        np.testing.assert_array_equal(step.final_obs, [[3, 0], [3, 0]])
        np.testing.assert_array_equal(step.obs, np.zeros((2, 2)))
        assert step.reward.dtype == np.float32 and step.reward.tolist() == [1.5, 1.5]
        assert step.episodes.episode_returns == step.episodes.game_returns == [4.5, 4.5]
        assert step.episodes.game_lengths == [3, 3]
        assert step.episodes.infos == [{"success": 0.0}, {"success": 1.0}]


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        ({"reward": float("nan")}, "Environment 1 returned nan as reward at its step 1"),
        ({"obs": float("inf")}, "Environment 1 returned .* as observation at its step 2"),
        ({"obs": float("nan"), "at": 3}, "Environment 1 returned .* as last observation at its step 3"),
    ],
)
def test_numbers_that_are_not_finite_stop_the_run(spoil, text):
    envs = scripted(**spoil)
    with pytest.raises(EnvError, match=text):
        for _ in range(3):
            envs.step(np.array([0, 1]))


def test_an_exception_names_the_environment():
    envs = scripted()
    envs._backend._envs[1].step = lambda action: 1 / 0
    with pytest.raises(EnvError, match="Environment 1 raised ZeroDivisionError"):
        envs.step(np.array([0, 0]))


def test_faults_count_environments_through_the_groups_of_a_run():
    envs = GymEnvs("Scripted", 3, make=lambda *_, **__: Scripted(), first_index=6)
    envs.reset(0)
    envs._backend._envs[1].step = lambda action: 1 / 0
    with pytest.raises(EnvError, match="Environment 7 raised ZeroDivisionError"):
        envs.step(np.zeros(3, int))
    envs._backend._envs[2].reset = lambda **_: 1 / 0
    with pytest.raises(EnvError, match="Environment 8 raised ZeroDivisionError"):
        envs.reset(0)


@pytest.mark.parametrize("bad", [2.0, float("nan")])
def test_box_actions_outside_the_bounds_are_refused(bad):
    envs = make_envs("HopperBulletEnv-v0", 2)
    envs.reset(0)
    actions = np.zeros((2, 3), np.float32)
    actions[1, 2] = bad
    with pytest.raises(InputError, match="of environment 1 lies outside"):
        envs.step(actions)
    with pytest.raises(InputError, match="shape"):
        envs.step(actions[:1])


def test_a_step_before_reset_is_refused():
    with pytest.raises(InputError, match="reset"):
        make_envs("CartPole-v1", 2).step(np.array([0, 1]))


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("CartPole", "CartPole-v1"),
        ("Allien", "ALE/Alien-v5"),
        ("ALE/Breakot-v5", "ALE/Breakout-v5"),
        ("HoperBulletEnv-v0", "HopperBulletEnv-v0"),
        ("mmrs/Maze-v0", "mmrs/Maze2D-v0"),
    ],
)
def test_misspelled_names_get_a_suggestion(wrong, meant):
    with pytest.raises(InputError, match=f"no environment .*Did you mean .*{meant}"):
        make_envs(wrong, 2)


def test_a_name_like_no_other_gets_no_suggestion():
    with pytest.raises(InputError) as caught:
        make_envs("nosuch-v0", 2)
    assert "Did you mean" not in str(caught.value)


def test_families():
    assert [family(n) for n in ("ALE/Alien-v5", "alien", "AntBulletEnv-v0", "CartPole-v1", "mmrs/GridWorld-v0")] == [
        "atari", "atari", "bullet", "gymnasium", "gymnasium"
    ]  # fmt: skip
    assert {"ALE/Pong-v5", "CartPole-v1", *BULLET_GAMES} <= set(environment_ids())


@pytest.mark.parametrize(
    ("module", "env_id", "extra"),
    [("ale_py", "ALE/Alien-v5", "atari"), ("ale_py", "alien", "atari"),
     ("pybullet_envs_gymnasium", "AntBulletEnv-v0", "bullet"), ("cv2", "CarPictures-v0", "images")],
)  # fmt: skip
def test_missing_packages_are_named_with_their_extra(module, env_id, extra, monkeypatch):
    register_pictures()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"mmrs\[{extra}\]"):
        make_envs(env_id, 2)
    assert make_envs("CartPole-v1", 2).num_envs == 2  # and nothing else needs it


@pytest.mark.parametrize("name", ["MontezumaRevenge", "montezuma_revenge"])
def test_a_name_that_may_be_a_game_names_the_extra_where_games_are_unknown(name, monkeypatch):
    assert family(name) == "atari"
    with pytest.raises(InputError) as raised:
        family("MontezumasRevenge")
    assert "not installed" not in str(raised.value)
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(InputError, match=r"If it is an Atari game: ale-py is not .*'mmrs\[atari\]'\. `mmrs"):
        family(name)
    with pytest.raises(InputError, match="'CartPole-v1'") as raised:
        family("CartPol-v1")
    assert "Atari" not in str(raised.value)


@pytest.mark.parametrize(
    ("env_id", "text"),
    [
        ("Hopper-v3", r"Hopper-v3 cannot be made: .* moved to the gymnasium-robotics project.*\. `mmrs list` shows"),
        ("no_such_module:X-v0", "needs something that is not installed: No module named 'no_such_module'"),
        ("gymnasium:NoSuch-v0", "gymnasium:NoSuch-v0 cannot be made: Environment `NoSuch` doesn't exist"),
        ("a:b:c", "There is no environment 'a:b:c'"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_gymnasium_cannot_make_is_an_error_of_the_package(env_id, text):
    with pytest.raises(InputError, match=text):
        make_envs(env_id, 2)


def test_an_environment_of_ours_reports_itself_what_it_lacks():
    def lacking(**_):
        raise MissingExtraError("a simulator", "bullet")

    gym.register("Lacking-v0", lacking)
    try:
        with pytest.raises(MissingExtraError, match=r"mmrs\[bullet\]"):
            make_envs("Lacking-v0", 2)
    finally:
        gym.registry.pop("Lacking-v0")


@pytest.mark.parametrize(("options", "text"), [({"sticky": 0.25}, "sticky"), ({"vectorization": "threads"}, "'async'")])
def test_options_that_do_not_fit_are_refused(options, text):
    with pytest.raises(InputError, match=text):
        make_envs("CartPole-v1", 2, **options)
    with pytest.raises(InputError, match="num_envs"):
        make_envs("CartPole-v1", 0)


def test_spaces_that_cannot_be_read_are_refused():
    gym.register("DictSpace-v0", lambda **_: Scripted(observation_space=gym.spaces.Dict(a=gym.spaces.Discrete(2))))
    try:
        with pytest.raises(UnsupportedSpaceError, match="DictSpace-v0: observation space Dict"):
            make_envs("DictSpace-v0", 2)
    finally:
        gym.registry.pop("DictSpace-v0")


@pytest.mark.parametrize("shape", [(96, 60, 3), (96, 60, 1), (96, 60), (1, 96, 60)])
def test_pictures_become_four_small_gray_frames(shape):
    envs = make_envs(register_pictures(f"Pictures{'x'.join(map(str, shape))}-v0", shape), 2)
    assert envs.reset(0).shape == (2, 4, 84, 84) and envs.observation_space.shape == (4, 84, 84)
    envs.step(np.array([0, 0]))
    step = envs.step(np.array([0, 0]))
    assert step.obs.dtype == np.uint8
    assert step.obs[1, :, 40, 40].tolist() == [0, 0, 50, 100]
    assert envs.step(np.array([0, 0])).final_obs[0, :, 40, 40].tolist() == [0, 50, 100, 150]


@pytest.mark.parametrize("shape", [(4, 84, 84), (3, 96, 60), (20, 20, 3), (2, 60, 60, 3)])
def test_frames_that_are_stacked_or_tiny_stay_as_they_are(shape):
    envs = make_envs(register_pictures(f"Frames{'x'.join(map(str, shape))}-v0", shape), 2)
    assert envs.reset(0).shape == (2, *shape) and envs.observation_space.shape == shape


def test_pictures_can_be_drawn():
    for env_id in ("CartPole-v1", "InvertedPendulumBulletEnv-v0"):
        if env_id == "CartPole-v1":
            pytest.importorskip("pygame")
        envs = make_envs(env_id, 2, render=True)
        envs.reset(0)
        picture = envs.render()
        assert picture.ndim == 3 and picture.shape[2] == 3 and picture.dtype == np.uint8 and picture.std() > 0
        envs.close()


def test_what_cannot_be_drawn_reports_why(monkeypatch):
    envs = make_envs("CartPole-v1", 2, render=True)
    envs.reset(0)
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(InputError, match="needs a package that is not installed: pygame is not installed"):
        envs.render()

    def failing(error):
        def render():
            raise error

        envs._backend._envs[0].render = render

    failing(ZeroDivisionError("division"))
    with pytest.raises(EnvError, match=r"Environment 0 raised ZeroDivisionError: division$"):
        envs.render()
    failing(RuntimeError("an OpenGL platform library has not been loaded"))
    with pytest.raises(EnvError, match=r"has not been loaded\. Without a display, MuJoCo draws with MUJOCO_GL=egl"):
        envs.render()
    failing(NotImplementedError())
    with pytest.raises(InputError, match=r"^CartPole-v1 draws no pictures: it has no render\(\)\.$"):
        envs.render()


@pytest.mark.parametrize("game", BULLET_GAMES)
def test_a_warmup_reset_makes_every_seeded_reset_lead_to_the_same_state(game):
    """Fresh and used, both with a warm-up reset: the same seed and actions give the same trajectory."""

    def walk(env):
        env.action_space.seed(0)
        return [env.reset(seed=7)[0], *(env.step(env.action_space.sample())[0] for _ in range(15))]

    fresh, used = make_bullet(game), make_bullet(game)
    used.reset(seed=3)
    for _ in range(25):
        used.step(used.action_space.sample())
    np.testing.assert_array_equal(walk(fresh), walk(used))


def test_without_a_warmup_reset_they_differ():
    """The twin that must fail: it shows why the warm-up reset is needed."""
    import pybullet_envs_gymnasium  # noqa: F401, PLC0415

    ends = []
    for warmups in (0, 1):
        env = gym.make("AntBulletEnv-v0", disable_env_checker=True)
        for _ in range(warmups):
            env.reset()
        ends.append([env.reset(seed=7)[0], *(env.step(np.full(8, 0.4, np.float32))[0] for _ in range(15))])
    assert not np.array_equal(*ends)


def test_bullet_is_silent(capfd):
    make_bullet("InvertedPendulumBulletEnv-v0").reset()
    assert capfd.readouterr() == ("", "")
