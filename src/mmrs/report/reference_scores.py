"""Reference scores: the paper's two tables with its misprints marked, and published scores of plain PPO.

The text of the tables comes first. `ATARI`, `BULLET` and `PPO` hold it parsed; `CLAIMS` recounts what the paper's text
says about its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from mmrs.envs.family import EnvFamily
from mmrs.envs.registry import FAMILIES

METHODS = ("ppo", "re3", "ride", "rnd", "mmrs")
"""Columns of both tables, in the paper's order."""

# Bold scores stand between asterisks.
_PAPER_ATARI = """
Alien         | 1.84k±92.78   | 1.99k±31.82   | 1.88k±52.43   | 1.86k±0.11k   | *2.10k±71.71*
AirRaid       | 7.57k±0.71k   | 8.30k±0.61k   | 8.12k±0.60k   | 7.97k±0.79k   | *8.94k±0.73k*
Assault       | 4.44k±0.34k   | 5.34k±0.59k   | 5.13k±0.30k   | 4.74k±0.51k   | *5.44k±0.72k*
Asteroids     | 1.86k±94.36   | 2.27k±76.15   | 2.15k±0.15k   | 2.27k±72.46   | *2.45k±0.21k*
BattleZone    | 18.94k±5.29k  | 29.78k±1.03k  | 26.74±1.94k   | 28.00k±2.12k  | *33.63k±1.40k*
BeamRider     | 2.03k±0.25k   | *5.57k±0.57k* | 2.28k±0.23k   | 2.07k±0.50k   | 2.45k±0.29k
Breakout      | 0.36k±40.82   | 0.34k±38.28   | 0.36k±31.27   | 0.24k±11.60   | *0.38k±12.95*
Centipede     | 5.01k±0.31k   | *9.51k±1.02k* | 7.20k±0.45k   | 8.65k±1.17k   | 5.95k±0.28k
DemonAttack   | 7.96k±0.37k   | 24.53k±3.93k  | 22.74k±2.07k  | 4.91k±11.15k  | *26.08k±3.41k*
Frostbite     | 1.27k±0.13k   | 1.28k±0.11k   | 1.36k±0.12k   | 1.36k±0.22k   | *1.89k±0.26k*
Gopher        | 4.20k±0.30k   | 3.79k±0.16k   | 3.69k±0.33k   | *4.76k±0.87k* | 4.00k±0.23k
Gravitar      | 0.38k±50.67   | 0.40k±36.61   | 0.62k±67.74   | 0.51k±22.53   | *0.67k±26.34*
Jamesbond     | 1.79k±0.40k   | 2.74k±0.54k   | 2.38k±0.36k   | 2.05k±0.88k   | *2.80k±0.40k*
Krull         | 7.67k±0.13k   | 9.85k±0.16k   | 10.49k±0.10k  | 10.19k±0.23k  | *10.58k±0.20k*
KungFuMaster  | 38.96±3.29k   | 20.49k±0.81k  | 31.54k±3.47k  | 15.94k±0.98k  | *44.16k±2.49k*
MsPacman      | 2.53k±0.12k   | 1.78k±0.12k   | 2.72k±0.22k   | 1.56k±82.7    | *2.86k±0.25k*
Phoenix       | 8.22k±0.82k   | 10.90k±1.37k  | 11.19k±1.03k  | 5.75±0.89k    | *13.44k±0.94k*
Riverraid     | 8.58k±0.13k   | 5.51k±0.44k   | 8.15k±0.32k   | 4.56k±0.17k   | *9.22k±0.28k*
Seaquest      | 0.94k±4.84    | 1.83k±58.54   | 1.74k±42.37   | 0.89k±6.61    | *1.84k±75.12*
SpaceInvaders | 1.03k±79.63   | *1.53k±0.19k* | 1.28k±11.93   | 1.06k±0.80k   | 1.10k±23.38
"""
_PAPER_BULLET = """
Ant              | 2.11k±42.46 | 2.43k±22.51 | 2.34k±14.84 | 2.19k±18.85 | *2.59k±21.44*
HalfCheetah      | 2.23k±12.72 | 2.46k±6.79  | 2.44k±12.81 | 2.48k±48.97 | *2.54k±12.33*
Hopper           | 1.68k±32.04 | 2.40k±16.36 | 1.84k±9.60  | 2.10k±40.96 | *2.46k±12.73*
Humanoid         | 1.13k±80.65 | 1.28k±0.10k | 1.15k±0.21k | 1.09k±0.13k | *1.41±0.25k*
InvertedPendulum | 1.00k±0.00  | 1.00k±0.00  | 1.00k±0.00  | 1.00k±0.00  | *1.00k±0.00*
Walker2D         | 1.14k±31.55 | 1.63k±12.80 | 1.84k±14.05 | 1.54k±32.05 | *1.87k±14.65*
"""

MISSING_K = {("BattleZone", "ride"), ("KungFuMaster", "ppo"), ("Phoenix", "rnd"), ("Humanoid", "mmrs")}
"""Means printed without their "k": their standard deviations are hundreds to thousands."""
DOUBTFUL_STD = {("DemonAttack", "rnd"), ("SpaceInvaders", "rnd")}
"""Standard deviations about as large as the mean or larger, and ten times those beside them. Which digit is wrong is
unknown, so they stay as printed."""

SOURCES = {
    "ppo_paper": "Schulman et al. 2017, Table 6: 10M steps, last 100 episodes, 3 seeds",
    "cleanrl": "CleanRL, ppo_atari_envpool_xla_jax: 10M steps, 3 seeds",
    "baselines": "openai/baselines ppo2, as run by CleanRL: 10M steps, 3 seeds",
    "sb3_zoo": "RL Baselines3 Zoo, benchmark.md: one tuned model; Atari 10M steps, Bullet 2M with gSDE",
    "slm_2019": "SLM Lab, BENCHMARK.md of 2019: 10M steps",
    "slm_2026": "SLM Lab, BENCHMARKS.md of 2026: ALE v5, sticky actions 0.25, best lambda",
    "sb3_docs": "Stable-Baselines3 documentation of PPO, Gaussian: 2M steps, 6 seeds",
    "old_zoo": "rl-baselines-zoo, ppo2",
}
"""Sources of published scores of plain PPO: returns of whole games, each by its own protocol. They show whether a score
has the right magnitude; they are not for ranking."""
_ATARI_SOURCES = ("ppo_paper", "cleanrl", "baselines", "sb3_zoo", "slm_2019", "slm_2026")
_PUBLISHED_ATARI = """
Alien         | 1850  | 1736±69    | 1706±440   | -         | 1413   | 1789
AirRaid       | -     | -          | -          | -         | 4028   | 7043
Assault       | 4972  | 6792±420   | 4879±816   | -         | 3619   | 4448
Asteroids     | 2098  | 1634±247   | 1557±151   | 2156±745  | 2186   | 1578
BattleZone    | 17367 | 24284±1842 | 19980±1355 | -         | 13649  | 27177
BeamRider     | 1590  | 2478±337   | 2836±388   | 3397±1662 | 4299   | 2762
Breakout      | 275   | 430±8      | 406±11     | 398±33    | 443    | 326
Centipede     | 4386  | 3309±325   | 3689±412   | -         | 5003   | 4781
DemonAttack   | 11378 | 29284±7007 | 13788±1313 | -         | 121172 | 19370
Frostbite     | 314   | 1137±1192  | 934±886    | -         | 1062   | 284
Gopher        | 2933  | 6505±7655  | 3673±1749  | -         | 2933   | 6500
Gravitar      | 737   | 1099±603   | 882±34     | -         | 223    | 603
Jamesbond     | 561   | 496±25     | 537±82     | -         | 561    | 711
Krull         | 7942  | 9718±649   | 8737±295   | -         | 8477   | 7874
KungFuMaster  | 23310 | 26000±1965 | 30452±5515 | -         | 34523  | 28128
MsPacman      | 2097  | 2346±186   | 2153±153   | 1754±173  | 2350   | 2331
Phoenix       | -     | 14474±1795 | 9518±1177  | -         | 30504  | 13923
Riverraid     | 8394  | 8275±257   | 9024±1387  | -         | 9636   | 9600
Seaquest      | 1205  | 1240±419   | 1518±400   | 1784±34   | 1715   | 1775
SpaceInvaders | 943   | 1189±81    | 1020±49    | 960±425   | 797    | 892
"""
_BULLET_SOURCES = ("sb3_docs", "sb3_zoo", "old_zoo")
_PUBLISHED_BULLET = """
Ant         | 2364±120 | 2866±56  | 2170±251
HalfCheetah | 1976±479 | 2925±64  | 3195±116
Hopper      | 1567±339 | 2575±223 | 1945±613
Humanoid    | -        | -        | 1286±919
Walker2D    | 1230±147 | 2110±14  | 2080±491
"""

RANDOM_HUMAN = {
    "Alien": (227.8, 7127.7), "Assault": (222.4, 742.0), "Asteroids": (719.1, 47388.7),
    "BattleZone": (2360.0, 37187.5), "BeamRider": (363.9, 16926.5), "Breakout": (1.7, 30.5),
    "Centipede": (2090.9, 12017.0), "DemonAttack": (152.1, 1971.0), "Frostbite": (65.2, 4334.7),
    "Gopher": (257.6, 2412.5), "Gravitar": (173.0, 3351.4), "Jamesbond": (29.0, 302.8), "Krull": (1598.0, 2665.5),
    "KungFuMaster": (258.5, 22736.3), "MsPacman": (307.3, 6951.6), "Phoenix": (761.4, 7242.6),
    "Riverraid": (1338.5, 17118.0), "Seaquest": (68.4, 42054.7), "SpaceInvaders": (148.0, 1668.7),
}  # fmt: skip
"""Random and human full-game scores (Wang et al. 2016, Table 2); AirRaid was not among their games."""


@dataclass(frozen=True)
class PaperScore:
    """A cell of the paper's table."""

    mean: float
    """The intended mean: a missing "k" is put back."""
    std: float
    """The paper does not say over what; eight seeds are most likely."""
    printed: str
    bold: bool
    note: str
    """The misprint; empty where there is none."""


Table = dict[str, dict[str, PaperScore]]
"""Scores by game, then method."""


@dataclass(frozen=True)
class Claim:
    """A count that the paper's text gives."""

    text: str
    claimed: int
    count: Callable[[], int]
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the tables give the count that the text gives."""
        return self.count() == self.claimed


# --- looking up -------------------------------------------------------------------------------------------------------


def scored_family(env_id: str) -> tuple[str, str] | None:
    """The family of an environment and its game's name in the published tables; None for all other environments.

    The family decides: MuJoCo's Ant-v5 is not the Ant of Bullet, though their names agree.
    """
    for family in FAMILIES.values():
        game = family.report.game(env_id) if family.report else None
        if game and game in known_games(family):
            return family.name, game
    return None


def known_games(family: EnvFamily) -> Collection[str]:
    """The games of a family that a report knows: those of the paper's table, or those with a scale of their own."""
    bounds = family.report.bounds if family.report else None
    return TABLES.get(family.name, {}) if bounds is None else bounds


def bounds(env_id: str) -> tuple[float, float] | None:
    """The scores that count as 0 and as 1 in a game; None where its scale is not defined."""
    found = scored_family(env_id)
    if found is None:
        return None
    family, game = found
    scale = FAMILIES[family].report
    return (scale.bounds if scale and scale.bounds is not None else BOUNDS[family]).get(game)


def game_name(env_id: str) -> str:
    """The tables' name of an environment: "ALE/Alien-v5" is "Alien", "HopperBulletEnv-v0" is "Hopper"."""
    found = scored_family(env_id)
    return found[1] if found else env_id


def paper_row(env_id: str) -> dict[str, PaperScore]:
    """The paper's scores in a game by method; empty where it has none."""
    family, game = scored_family(env_id) or ("", "")
    return TABLES.get(family, {}).get(game, {})


def paper_score(env_id: str, method: str) -> PaperScore | None:
    """The paper's score of a method in a game; `mmrs-paper` is its MMRS too."""
    return paper_row(env_id).get("mmrs" if method == "mmrs-paper" else method)


def published_ppo(env_id: str) -> dict[str, str]:
    """Published scores of plain PPO by source; empty where there are none."""
    return PPO.get(game_name(env_id), {})


# --- counting ---------------------------------------------------------------------------------------------------------


def best(row: dict[str, PaperScore]) -> set[str]:
    """The methods with the highest mean: more than one where they tie."""
    highest = max(score.mean for score in row.values())
    return {method for method, score in row.items() if score.mean == highest}


def times_best(table: Table, method: str, *, alone: bool = False) -> int:
    """Number of games in which a method has the highest mean, with or without others."""
    return sum(method in (winners := best(row)) and (not alone or len(winners) == 1) for row in table.values())


def times_above(table: Table, method: str, other: str = "ppo") -> int:
    """Number of games in which a method's mean is above another's; a tie does not count."""
    return sum(row[method].mean > row[other].mean for row in table.values())


# --- parsing ----------------------------------------------------------------------------------------------------------


def _rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


def _paper_table(text: str) -> Table:
    return {
        game: {method: _score(game, method, cell) for method, cell in zip(METHODS, cells, strict=True)}
        for game, *cells in _rows(text)
    }


def _score(game: str, method: str, text: str) -> PaperScore:
    printed = text.strip("*")
    mean, std = map(_number, printed.split("±"))
    note = ""
    if (game, method) in MISSING_K:
        mean, note = mean * 1000.0, "printed without its k"
    elif (game, method) in DOUBTFUL_STD:
        note = "the standard deviation is implausible; left as printed"
    return PaperScore(round(mean, 6), round(std, 6), printed, text.startswith("*"), note)


def _number(text: str) -> float:
    return float(text.removesuffix("k")) * (1000.0 if text.endswith("k") else 1.0)


def _published(text: str, sources: tuple[str, ...]) -> dict[str, dict[str, str]]:
    return {
        game: {source: cell for source, cell in zip(sources, cells, strict=True) if cell != "-"}
        for game, *cells in _rows(text)
    }


ATARI = _paper_table(_PAPER_ATARI)
"""The paper's Table 1, ten million steps."""
BULLET = _paper_table(_PAPER_BULLET)
"""The paper's Table 3, ten million steps."""
PPO = _published(_PUBLISHED_ATARI, _ATARI_SOURCES) | _published(_PUBLISHED_BULLET, _BULLET_SOURCES)
"""Published scores of plain PPO by game, then source: mean, or mean±std, as published."""
TABLES = {"atari": ATARI, "bullet": BULLET}
"""The paper's scores by family."""
BOUNDS: dict[str, Mapping[str, tuple[float, float]]] = {
    "atari": RANDOM_HUMAN,
    "bullet": {game: (0.0, row["ppo"].mean) for game, row in BULLET.items()},
}
"""Scores that count as 0 and as 1, by family, then game."""
CLAIMS = (
    Claim("Atari: MMRS has the highest score", 16, lambda: times_best(ATARI, "mmrs")),
    Claim("Atari: RE3 has the highest score", 3, lambda: times_best(ATARI, "re3")),
    Claim("Atari: RND has the highest score", 1, lambda: times_best(ATARI, "rnd")),
    Claim("Atari: RE3 is above PPO", 15, lambda: times_above(ATARI, "re3")),
    Claim("Atari: RIDE is above PPO", 19, lambda: times_above(ATARI, "ride"), "Breakout is a tie; Gopher, "
          "KungFuMaster and Riverraid are below"),
    Claim("Atari: RND is above PPO", 14, lambda: times_above(ATARI, "rnd")),
    Claim("Bullet: MMRS alone has the highest score", 6, lambda: times_best(BULLET, "mmrs", alone=True),
          "all five methods tie at the maximum of InvertedPendulum"),
)  # fmt: skip
