"""Atari through ale-py's own vector environment: preprocessing and threads in C++, episodes and games kept separate."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np

from mmrs.envs.base import BackendStep, Values
from mmrs.envs.family import EnvFamily, EnvOptions, ReportScale
from mmrs.envs.replay import ReplayedEnvs
from mmrs.errors import InputError, MissingExtraError

ATARI_GAMES = (
    "ALE/Alien-v5",
    "ALE/AirRaid-v5",
    "ALE/Assault-v5",
    "ALE/Asteroids-v5",
    "ALE/BattleZone-v5",
    "ALE/BeamRider-v5",
    "ALE/Breakout-v5",
    "ALE/Centipede-v5",
    "ALE/DemonAttack-v5",
    "ALE/Frostbite-v5",
    "ALE/Gopher-v5",
    "ALE/Gravitar-v5",
    "ALE/Jamesbond-v5",
    "ALE/Krull-v5",
    "ALE/KungFuMaster-v5",
    "ALE/MsPacman-v5",
    "ALE/Phoenix-v5",
    "ALE/Riverraid-v5",
    "ALE/Seaquest-v5",
    "ALE/SpaceInvaders-v5",
)
"""The twenty games of the paper's table, in its order."""

RESEED_EVERY = 50_000
"""Steps between seeded resets: each reloads the cartridge (about 0.1 s), so at 8 environments they cost about 1 %."""
MAX_FRAMES = 108_000
"""Half an hour of play, the limit of the Arcade Learning Environment."""
_SPELLINGS = re.compile(r"(?:ALE/)?([A-Za-z0-9_]+?)(?:-v5|NoFrameskip-v4)?")


def rom_name(env_id: str) -> str | None:
    """Cartridge of "ALE/MsPacman-v5", "MsPacmanNoFrameskip-v4", "MsPacman" or "ms_pacman"; None if there is none."""
    match = _SPELLINGS.fullmatch(env_id)
    return _roms().get(_plain(match[1])) if match else None


def could_be_game(env_id: str) -> bool:
    """Whether it is spelled like a game; used if ale-py is missing and the games are unknown."""
    return _SPELLINGS.fullmatch(env_id) is not None


def game_ids() -> list[str]:
    """Every game that is installed, as Gymnasium spells it."""
    return [f"ALE/{''.join(part.capitalize() for part in rom.split('_'))}-v5" for rom in _roms().values()]


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _roms() -> dict[str, str]:
    try:
        from ale_py import roms  # noqa: PLC0415 - optional, and GPL: only loaded when asked for
    except ImportError:
        raise MissingExtraError("ale-py", "atari") from None
    return {_plain(rom): rom for rom in roms.get_all_rom_ids()}


class AtariBackend:
    """`AtariVectorEnv` with correct last states.

    ale-py reports a `final_obs` for all environments once any ends. It is correct only where the game itself restarted.
    An environment that only lost a life plays on, and its last state is the observation it shows. The frame counters
    tell whether the game restarted: (frames since the cartridge was loaded - frames of this game) grows at a restart
    and at no other time.
    """

    def __init__(self, rom: str, num_envs: int, *, render: bool, options: dict[str, Any]) -> None:
        from ale_py.vector_env import AtariVectorEnv  # noqa: PLC0415

        settings = {
            "autoreset_mode": "SameStep",
            # Flags a lost life; `episodic_life` would restart the whole game, which the cited code does not.
            # Deviation: the cited code presses FIRE after each lost life too; ale-py does so at the start of a game.
            "life_loss_info": True,
            "reward_clipping": False,  # the trainer clips: returns are counted from raw scores
            "frameskip": 4,
            "maxpool": True,
            **options,
        }
        self._env: Any = AtariVectorEnv(
            rom, num_envs, img_height=84, img_width=84, grayscale=True, stack_num=4, **settings
        )
        # The same game in color: with the seeds and actions of environment 0 it takes the same steps.
        color = {**settings, "img_height": 210, "img_width": 160, "grayscale": False, "stack_num": 1, "num_threads": 1}
        self._picture: Any = AtariVectorEnv(rom, 1, **color) if render else None
        self._frame: Values | None = None
        self.num_envs = num_envs
        self.observation_space = self._env.single_observation_space
        self.action_space = self._env.single_action_space
        self._started = False
        self._earlier_frames = np.zeros(num_envs, np.int32)

    def reset(self, mask: Values, seeds: Values) -> Values:
        """Seeded reset; it reloads the cartridge, so that nothing before it matters."""
        options = {"reset_mask": mask} if self._started else None
        if not (self._started or mask.all()):
            raise InputError("The first reset must start all environments.")
        obs, info = self._env.reset(seed=seeds, options=options)
        self._started = True
        self._earlier_frames = info["frame_number"] - info["episode_frame_number"]
        if self._picture is not None and mask[0]:
            self._frame, _ = self._picture.reset(seed=seeds[:1])
        return obs[mask]  # type: ignore[no-any-return]

    def send(self, actions: Values) -> None:
        """Hand the actions to the threads of ale-py."""
        self._env.send(actions)
        if self._picture is not None:
            self._picture.send(actions[:1])

    def recv(self) -> BackendStep:
        """Wait for all environments."""
        obs, reward, terminated, truncated, info = self._env.recv()
        if self._picture is not None:
            self._frame = self._picture.recv()[0]
        reward, done = reward.astype(np.float64), terminated | truncated
        if not np.count_nonzero(done):  # then no game is over either
            return BackendStep(obs, reward, terminated, truncated, done, done, obs[:0], [])
        earlier_frames = info["frame_number"] - info["episode_frame_number"]
        game_over = earlier_frames != self._earlier_frames
        self._earlier_frames = earlier_frames
        final_obs = obs[done]
        if np.count_nonzero(game_over):
            final_obs[game_over[done]] = info["final_obs"][game_over]
        infos: list[dict[str, float]] = [{} for _ in range(int(game_over.sum()))]
        return BackendStep(obs, reward, terminated, truncated, done, game_over, final_obs, infos)

    def render(self) -> Values:
        """The screen in color, 210x160."""
        if self._frame is None:
            raise InputError("These environments draw nothing. Make them with render=True and reset them first.")
        return self._frame[0, -1]  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop the threads of ale-py, which end with the object that owns them."""
        self._env = self._picture = None


class AtariEnvs(ReplayedEnvs):
    """N copies of one Atari game: 84x84 gray, 4 frames stacked, 4 skipped, the last two of them maximized.

    A lost life ends the learner's episode and not the game, as in the paper's cited code; FIRE is pressed at the start
    of a game where the game needs it, not after a lost life: there the agent has to press it. Rewards are raw scores.

    Args:
        env_id: "ALE/Alien-v5", "Alien" or "alien". Unlike Gymnasium's v5, sticky actions are off unless asked for.
        num_envs: Copies.
        sticky: Probability that the emulator repeats the last action (Machado et al., 2018, recommend 0.25).
        threads: Threads of ale-py; None lets it choose.
        noop_max: Largest number of no-op frames at the start of a game.
        use_fire_reset: Whether FIRE is pressed at the start of a game.
        max_frames: Frames after which a game is cut off.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        *,
        sticky: float = 0.0,
        threads: int | None = None,
        reseed_every: int | None = None,
        first_index: int = 0,
        render: bool = False,
        noop_max: int = 30,
        use_fire_reset: bool = True,
        max_frames: int = MAX_FRAMES,
    ) -> None:
        rom = rom_name(env_id)
        if rom is None:
            raise InputError(f"There is no Atari game {env_id!r}. `make_envs` suggests names.")
        if not 0 <= sticky < 1:
            raise InputError(f"sticky is {sticky}, expected a probability below 1.")
        options = {
            "repeat_action_probability": sticky,
            "num_threads": threads or 0,
            "noop_max": noop_max,
            "use_fire_reset": use_fire_reset,
            "max_num_frames_per_episode": max_frames,
        }
        backend = AtariBackend(rom, num_envs, render=render, options=options)
        super().__init__(backend, reseed_every=reseed_every or RESEED_EVERY, first_index=first_index)


def is_atari(env_id: str) -> bool:
    """Whether it is an Atari game; ids that other packages registered with Gymnasium are not."""
    if env_id in gym.registry and not registered_by_ale(env_id):
        return False
    try:
        return rom_name(env_id) is not None
    except MissingExtraError:
        # The games of the paper are known even without ale-py.
        plain = env_id.replace("_", "").lower()
        if env_id.startswith("ALE/") or any(plain == game[len("ALE/") : -len("-v5")].lower() for game in ATARI_GAMES):
            raise
        return False


def registered_by_ale(env_id: str) -> bool:
    """Whether ale-py registered the id; its games are listed as `game_ids` spells them."""
    return str(gym.registry[env_id].entry_point).startswith("ale_py")


def _make(env_id: str, num_envs: int, options: EnvOptions) -> AtariEnvs:
    names = ("sticky", "threads", "reseed_every", "first_index", "render")
    return AtariEnvs(env_id, num_envs, **{name: getattr(options, name) for name in names})


def _known_ids() -> list[str]:
    try:
        return game_ids()
    except MissingExtraError:
        return list(ATARI_GAMES)


def _game(env_id: str) -> str | None:
    """The tables' name: "ALE/Alien-v5" and "AlienNoFrameskip-v4" are "Alien"."""
    match = re.fullmatch(r"(?:ALE/)?(\w+?)(?:NoFrameskip)?(?:-v\d+)?", env_id)
    return match[1] if match else None


ATARI_FAMILY = EnvFamily(
    name="atari",
    title="Atari",
    matches=is_atari,
    make=_make,
    ids=_known_ids,
    preset="atari",
    options=frozenset({"sticky"}),
    refusal="is stepped inside ale-py's emulator, which has no single environments. Its options are env.sticky and "
    "env.reward_clip.",
    many_groups=True,
    report=ReportScale("Atari games", "0 is a random player, 1 a human one (Wang et al. 2016)", _game),
    package="ale_py",
    extra="atari",
)
