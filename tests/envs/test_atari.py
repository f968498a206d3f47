"""Atari against Gymnasium's single-environment wrappers: images, flags, last states and both kinds of return."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from mmrs.envs.atari import ATARI_GAMES, AtariEnvs, game_ids, rom_name
from mmrs.errors import InputError

ale_py = pytest.importorskip("ale_py")
gym.register_envs(ale_py)

# ale-py and Gymnasium draw the random number of no-op frames at a start from different generators, and only ale-py
# presses FIRE. Both are switched off here, which leaves everything that decides what an agent sees after the start.
PLAIN = {"noop_max": 0, "use_fire_reset": False, "threads": 1}

# ale-py's vector environment counts the limit from the first action of the agent, Gymnasium's from the first frame.
START_FRAMES = {"ALE/AirRaid-v5": 8}


class Reference:
    """One environment the slow way: Gymnasium's wrappers, lives read from info, returns added up in plain Python."""

    def __init__(self, game, max_frames):
        one = gym.make(game, frameskip=1, repeat_action_probability=0.0, max_num_frames_per_episode=max_frames)
        self.env = FrameStackObservation(AtariPreprocessing(one, noop_max=0, frame_skip=4), 4, padding_type="zero")
        self.episode_returns, self.game_returns, self.game_lengths = [], [], []

    def reset(self, seed=None):
        obs, info = self.env.reset(seed=seed)
        self.lives, self.life, self.game, self.length = info["lives"], 0.0, 0.0, 0
        return obs

    def step(self, action):
        """Observation, reward, terminated, truncated, last observation (or None)."""
        obs, reward, over, cut, info = self.env.step(action)
        self.life, self.game, self.length = self.life + reward, self.game + reward, self.length + 1
        lost = info["lives"] < self.lives
        self.lives = info["lives"]
        last = obs if lost or over or cut else None
        if last is not None:
            self.episode_returns.append(self.life)
            self.life = 0.0
        if over or cut:
            self.game_returns.append(self.game)
            self.game_lengths.append(self.length)
            obs = self.reset()
        return obs, reward, lost or over, cut, last


def follow(game, steps, max_frames, seed=0):
    """Step both side by side and compare all they show; returns the reference."""
    envs, reference = (
        AtariEnvs(game, 2, max_frames=max_frames, **PLAIN),
        Reference(game, max_frames + START_FRAMES.get(game, 0)),
    )
    shown = envs.reset(seed)
    first = np.random.SeedSequence(seed, spawn_key=(0, 0)).generate_state(1)[0] & 0x7FFFFFFF
    np.testing.assert_array_equal(shown[0], reference.reset(int(first)))
    lives, games, lengths = [], [], []
    random = np.random.default_rng(seed)
    for t in range(steps):
        action = int(random.integers(envs.action_space.n))
        step = envs.step(np.array([action, 0]))  # the neighbor does nothing: only environment 0 is compared
        obs, reward, terminated, truncated, last = reference.step(action)
        np.testing.assert_array_equal(step.obs[0], obs, err_msg=f"step {t}")
        assert (step.reward[0], step.terminated[0], step.truncated[0]) == (reward, terminated, truncated), t
        if last is not None:
            np.testing.assert_array_equal(step.final_obs[0], last, err_msg=f"last state at step {t}")
            lives.append(step.episodes.episode_returns[0])
        if len(lengths) < len(reference.game_lengths):
            games.append(step.episodes.game_returns[0])
            lengths.append(step.episodes.game_lengths[0])
    assert lives == reference.episode_returns
    assert games == reference.game_returns
    assert lengths == reference.game_lengths
    envs.close()
    return reference


@pytest.mark.parametrize("game", ATARI_GAMES)
def test_equal_to_gymnasiums_wrappers_for_500_steps(game):
    reference = follow(game, steps=500, max_frames=1400)
    assert len(reference.game_returns) >= 1  # cut off after 350 steps at the latest, so restarts are compared too


@pytest.mark.parametrize("game", ["ALE/Breakout-v5", "ALE/Gravitar-v5"])
def test_returns_of_whole_games_equal_the_slow_reference(game):
    reference = follow(game, steps=1200, max_frames=108_000, seed=1)
    assert len(reference.game_returns) >= 2  # games that ended by themselves
    assert len(reference.episode_returns) > len(reference.game_returns)
    assert sum(reference.game_returns) > 0


def test_a_lost_life_ends_the_episode_and_not_the_game():
    envs = AtariEnvs("Breakout", 8, threads=1)
    envs.reset(0)
    lost = over = stale = 0
    for row in np.random.default_rng(0).integers(0, 4, (250, 8)):
        step = envs.step(row)
        done = step.terminated | step.truncated
        assert len(step.final_obs) == done.sum() == len(step.episodes.episode_returns)
        over += len(step.episodes.game_returns)
        lost += int(done.sum())
        if done.any() and not step.episodes.game_returns:
            # ale-py's own final_obs is stale here; the successor of a lost life is what the environment shows.
            np.testing.assert_array_equal(step.final_obs, step.obs[done])
            stale += 1
    assert lost >= 4 * over > 0
    assert stale > 0


@pytest.mark.parametrize("wrong", [np.array([0, 4]), np.array([-1, 0]), np.array([0]), np.array([0.0, 1.0])])
@pytest.mark.timeout(20)
def test_a_wrong_action_is_refused_before_it_can_hang(wrong):
    envs = AtariEnvs("Breakout", 2, threads=1)
    envs.reset(0)
    with pytest.raises(InputError, match="action"):
        envs.step(wrong)
    assert envs.step(np.array([0, 3])).obs.shape == (2, 4, 84, 84)  # and the environments are still usable


def test_sending_and_receiving_equals_stepping():
    one, two = (AtariEnvs("Alien", 2, sticky=0.25, threads=t) for t in (1, 2))
    np.testing.assert_array_equal(one.reset(4), two.reset(4))
    for t in range(60):
        actions = np.random.default_rng(t).integers(0, 18, 2)
        two.send(actions)
        with pytest.raises(InputError, match="under way"):
            two.send(actions)
        for call in (two.state, lambda: two.reset(0), lambda: two.restore(one.state())):
            with pytest.raises(InputError, match="under way"):
                call()
        a, b = one.step(actions), two.recv()
        np.testing.assert_array_equal(a.obs, b.obs)
        np.testing.assert_array_equal(a.reward, b.reward)
    with pytest.raises(InputError, match="No step"):
        two.recv()
    two.close()
    two.close()


def test_sticky_actions_change_the_game():
    plain, sticky = AtariEnvs("Breakout", 1, threads=1), AtariEnvs("Breakout", 1, sticky=0.25, threads=1)
    np.testing.assert_array_equal(plain.reset(0), sticky.reset(0))
    random = np.random.default_rng(0)
    same = [np.array_equal(plain.step(a).obs, sticky.step(a).obs) for a in random.integers(0, 4, (40, 1))]
    assert not all(same)


def test_the_picture_shows_the_game_that_is_played():
    envs = AtariEnvs("Breakout", 2, sticky=0.25, reseed_every=40, max_frames=200, render=True, threads=1)
    envs.reset(0)
    for row in np.random.default_rng(0).integers(0, 4, (150, 2)):
        obs = envs.step(row).obs
    picture = envs.render()
    assert picture.shape == (210, 160, 3) and picture.dtype == np.uint8
    assert envs.state()[0]["reseeds"] >= 2
    # Gray and smaller, the picture is the newest frame; Gymnasium's gray and ours differ by rounding alone.
    import cv2  # noqa: PLC0415

    gray = cv2.resize(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), (84, 84), interpolation=cv2.INTER_AREA)
    assert np.abs(gray.astype(int) - obs[0, -1]).mean() < 1
    with pytest.raises(InputError, match="render=True"):
        AtariEnvs("Breakout", 1, threads=1).render()


def test_names():
    assert {rom_name(n) for n in ("ALE/MsPacman-v5", "MsPacman", "ms_pacman", "MsPacmanNoFrameskip-v4")} == {
        "ms_pacman"
    }
    assert rom_name("MsPacMann") is None and rom_name("../alien") is None
    assert len(ATARI_GAMES) == len(set(ATARI_GAMES)) == 20
    assert set(ATARI_GAMES) <= set(game_ids())
    with pytest.raises(InputError, match="probability"):
        AtariEnvs("Alien", 1, sticky=1.5)
