"""Scores of plain PPO that others published, and the human and random scores that Atari results are scaled by."""

from __future__ import annotations

from mmrs.report.paper_scores import game_name

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
"""Full-game returns, each by its own protocol: to see whether a number is of the right size, not to rank."""

_ATARI_COLUMNS = ("ppo_paper", "cleanrl", "baselines", "sb3_zoo", "slm_2019", "slm_2026")
_ATARI = """
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
_BULLET_COLUMNS = ("sb3_docs", "sb3_zoo", "old_zoo")
_BULLET = """
Ant         | 2364±120 | 2866±56  | 2170±251
HalfCheetah | 1976±479 | 2925±64  | 3195±116
Hopper      | 1567±339 | 2575±223 | 1945±613
Humanoid    | -        | -        | 1286±919
Walker2D    | 1230±147 | 2110±14  | 2080±491
"""


def _table(text: str, columns: tuple[str, ...]) -> dict[str, dict[str, str]]:
    rows = [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]
    return {game: {c: v for c, v in zip(columns, cells, strict=True) if v != "-"} for game, *cells in rows}


PPO = _table(_ATARI, _ATARI_COLUMNS) | _table(_BULLET, _BULLET_COLUMNS)
"""Game, then source: mean, or mean±std, as published."""


def published_ppo(env_id: str) -> dict[str, str]:
    """Published scores of plain PPO by source; empty where there are none."""
    return PPO.get(game_name(env_id), {})


RANDOM_HUMAN = {
    "Alien": (227.8, 7127.7), "Assault": (222.4, 742.0), "Asteroids": (719.1, 47388.7),
    "BattleZone": (2360.0, 37187.5), "BeamRider": (363.9, 16926.5), "Breakout": (1.7, 30.5),
    "Centipede": (2090.9, 12017.0), "DemonAttack": (152.1, 1971.0), "Frostbite": (65.2, 4334.7),
    "Gopher": (257.6, 2412.5), "Gravitar": (173.0, 3351.4), "Jamesbond": (29.0, 302.8), "Krull": (1598.0, 2665.5),
    "KungFuMaster": (258.5, 22736.3), "MsPacman": (307.3, 6951.6), "Phoenix": (761.4, 7242.6),
    "Riverraid": (1338.5, 17118.0), "Seaquest": (68.4, 42054.7), "SpaceInvaders": (148.0, 1668.7),
}  # fmt: skip
"""Random and human full-game scores (Wang et al. 2016, Table 2); AirRaid was not among their games."""
