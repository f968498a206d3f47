"""A fabricated comparison of two methods in KeyRooms, for the tests of its page."""

from __future__ import annotations

import numpy as np

from mmrs.envs.rooms.maps import SIDE, WALL, key_rooms
from mmrs.report.comparison import Comparison, Method, Run

WORLD = key_rooms().reshape(SIDE, SIDE)


def make_run(seed, success):
    steps = [1000 * (i + 1) for i in range(len(success))]
    states = [None if value is None else 10 + 30 * value for value in success]
    return Run(seed, steps, {"env/success": success, "game_return": success, "env/states": states})


def make_comparison(seeds=1):
    visits = np.where(WORLD == WALL, 0, 7)
    visits[11, 11] = 0
    good = tuple(make_run(seed, [None, 0.0, 0.5, 0.9]) for seed in range(seeds))
    bad = tuple(make_run(seed, [None, 0.0, 0.0, 0.0]) for seed in range(seeds))
    methods = (Method("mmrs", good, visits), Method("<b>ppo</b>", bad, visits * 0))
    return Comparison("mmrs/KeyRooms-v0", 4000, seeds, methods, {"clip": "0.2"}, WORLD, b"no video", "mmrs")
