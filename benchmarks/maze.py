"""Speed of the compiled maze loop compared with two slower implementations, all in one run on one core.

Rates are by processor time, on which other work of the machine has little effect. Whole tables are by wall-clock time.

The gym-maze-style loop is a headless stand-in written after that package's way of stepping: a robot array moved
in place, walls looked up as bits in a dictionary of directions, portals in another, the goal compared as arrays,
a Q table indexed by coordinates, and Jain's index by `np.sum` over all counts.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import numba
import numpy as np

from mmrs.envs.maze.maze import Maze, generate, generate_many
from mmrs.paper.maze import kernel as maze_kernel
from mmrs.paper.maze.experiment import MazeConfig
from mmrs.paper.maze.experiment import run as run_table
from mmrs.paper.maze.options import walk_options

TARGETS = {"steps_per_second_per_core": 2.5e7, "times_gym_maze_style": 400, "times_pure_python": 20}
COMPASS = {"N": (0, -1), "E": (1, 0), "S": (0, 1), "W": (-1, 0)}
BITS = {"N": 0x1, "E": 0x2, "S": 0x4, "W": 0x8}
OPPOSITE = {"N": "S", "S": "N", "E": "W", "W": "E"}
ACTIONS = ["N", "S", "E", "W"]


class GymMazeStyle:
    """The stand-in: one maze, stepped the way gym-maze steps its view without a window."""

    def __init__(self, maze: Maze) -> None:
        self.size = maze.size
        self.cells = np.zeros((maze.size, maze.size), dtype=int)
        for state, walls in enumerate(maze.walls):
            for direction, wall in zip(ACTIONS, walls, strict=True):
                if not wall:
                    self.cells[state % maze.size, state // maze.size] |= BITS[direction]
        self.portals = {}
        for a, b in maze.portals.tolist():
            here, there = (a % maze.size, a // maze.size), (b % maze.size, b // maze.size)
            self.portals[here], self.portals[there] = there, here
        self.goal = np.array((maze.size - 1, maze.size - 1))
        self.robot = np.zeros(2, dtype=int)

    def status(self, cell: int) -> dict[str, int]:
        return {name: (cell & bit) // bit for name, bit in BITS.items()}

    def is_open(self, cell: np.ndarray, direction: str) -> bool:
        x, y = cell[0] + COMPASS[direction][0], cell[1] + COMPASS[direction][1]
        if 0 <= x < self.size and 0 <= y < self.size:
            this = bool(self.status(self.cells[cell[0], cell[1]])[direction])
            other = bool(self.status(self.cells[x, y])[OPPOSITE[direction]])
            return this or other
        return False

    def step(self, action: int) -> tuple[np.ndarray, float]:
        direction = ACTIONS[action]
        if self.is_open(self.robot, direction):
            self.robot += np.array(COMPASS[direction])
            if tuple(self.robot) in self.portals:
                self.robot = np.array(self.portals[tuple(self.robot)])
        # Compared at each step as in the original; in the coverage protocol both outcomes cost a step.
        self.at_goal = np.array_equal(self.robot, self.goal)
        return self.robot, -0.1 / (self.size * self.size)


def gym_maze_style_rate(maze: Maze, steps: int) -> float:
    """Steps per second of the stand-in with Q-learning and Jain's index over all counts at each step."""
    env, rng = GymMazeStyle(maze), np.random.default_rng(0)
    states = maze.states
    q = np.zeros((maze.size, maze.size, 4))
    counts = np.zeros((maze.size, maze.size))
    counts[0, 0] = 1
    fairness, state = 1 / states, (0, 0)
    began = time.process_time()
    for _ in range(steps):
        values = q[state]
        action = int(rng.integers(4)) if rng.random() < 0.001 else int(np.argmax(values))
        obs, reward = env.step(action)
        other = tuple(int(part) for part in obs)
        counts[other] += 1
        after = np.sum(counts) ** 2 / (states * np.sum(counts**2))
        total = reward + 0.1 * (after - fairness)
        best = np.amax(q[other])
        q[(*state, action)] += 0.2 * (total + 0.99 * best - q[(*state, action)])
        state, fairness = other, after
    return steps / (time.process_time() - began)


def python_list_rate(maze: Maze) -> float:
    """Steps per second of lists and O(1) fairness in a single inlined loop: as fast as plain Python gets."""
    next_state, states = maze.next_state.tolist(), maze.states
    q, counts = [[0.0] * 4 for _ in next_state], [0] * states
    draw = random.Random(0).random
    counts[0] = visits = squares = 1
    state, fairness, steps, cost = 0, 1 / states, 200_000, 0.1 / states
    began = time.process_time()
    for _ in range(steps):
        values = q[state]
        action = int(4 * draw()) if draw() < 0.001 else values.index(max(values))
        other = next_state[state][action]
        count = counts[other]
        counts[other] = count + 1
        visits += 1
        squares += 2 * count + 1
        after = visits * visits / (states * squares)
        values[action] += 0.2 * (-cost + 0.1 * (after - fairness) + 0.99 * max(q[other]) - values[action])
        state, fairness = other, after
    return steps / (time.process_time() - began)


def kernel_rates(size: int, mazes: int, kind: str = "plus") -> dict[str, float]:
    """Steps per second on one core in whole runs until coverage, with allocation."""
    seeds = np.arange(mazes, dtype=np.uint64)
    next_state = generate_many(size, kind, seeds).next_state
    rates = {}
    for method in ("vanilla", "jfi"):
        options = walk_options(method, size)
        maze_kernel.walk_many(next_state[:2], options, seeds[:2])
        best = 0.0
        for _ in range(3):
            began = time.process_time()
            steps, _ = maze_kernel.walk_many(next_state, options, seeds)
            best = max(best, float(steps.sum()) / (time.process_time() - began))
        rates[method] = best
    return rates


def generator_times() -> dict[str, float]:
    """Microseconds per maze, drawn until every cell is reachable."""
    times = {}
    for kind in ("plus", "perfect"):
        for size in (5, 10, 20, 50):
            seeds = np.arange(2000 if size < 50 else 200, dtype=np.uint64)
            generate_many(size, kind, seeds[:2])
            began = time.process_time()
            generate_many(size, kind, seeds)
            times[f"{kind} {size}"] = 1e6 * (time.process_time() - began) / len(seeds)
    return times


def run() -> dict:
    """Measure everything, print a table and write `benchmarks/results/maze.json`."""
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    maze = generate(20, "plus", 0)
    rates = {"numba 20x20": kernel_rates(20, 1000), "numba 100x100": kernel_rates(100, 20)}
    plain = max(python_list_rate(maze) for _ in range(3))
    public = max(gym_maze_style_rate(maze, 20_000) for _ in range(3))
    jfi = rates["numba 20x20"]["jfi"]
    times = generator_times()
    numba.set_num_threads(threads)
    began = time.process_time()
    table = run_table(MazeConfig())
    table_cpu = time.process_time() - began
    large = run_table(MazeConfig(sizes=(100,), kinds=("plus",), mazes=100))
    result = {
        "steps_per_second_per_core": {**rates, "pure Python lists": plain, "gym-maze style": public},
        "times_gym_maze_style": jfi / public,
        "times_pure_python": jfi / plain,
        "generator_us": times,
        "default_table_seconds": table.seconds,
        "default_table_cpu_seconds": table_cpu,
        "plus_100_with_100_mazes_seconds": large.seconds,
        "plus_100_ratio": large.row("plus", 100, "jfi").ratio,
        "targets": TARGETS,
        "met": {
            "steps_per_second_per_core": min(rates["numba 20x20"].values()) >= TARGETS["steps_per_second_per_core"],
            "times_gym_maze_style": jfi / public >= TARGETS["times_gym_maze_style"],
            "times_pure_python": jfi / plain >= TARGETS["times_pure_python"],
        },
    }
    _print(result)
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "maze.json").write_text(json.dumps(result, indent=2) + "\n")
    return result


def _print(result: dict) -> None:
    speeds = result["steps_per_second_per_core"]
    print("Mazes: environment steps per second of one core's time, whole runs until coverage")
    for name, value in speeds.items():
        rates = value.items() if isinstance(value, dict) else [("jfi", value)]
        print(f"  {name:20s}" + "".join(f"{method:>10s} {rate:9.3g}" for method, rate in rates))
    print(f"  numba / gym-maze style  {result['times_gym_maze_style']:7.0f} x   (target 400)")
    print(f"  numba / Python lists    {result['times_pure_python']:7.0f} x   (target 20)")
    print("  a maze drawn in us:", {name: round(value, 1) for name, value in result["generator_us"].items()})
    busy = result["default_table_cpu_seconds"]
    print(f"  default table (12 rows x 1000 mazes): {result['default_table_seconds']:.1f} s ({busy:.1f} s of CPU)")
    print(f"  plus 100x100 x 100 mazes, two methods: {result['plus_100_with_100_mazes_seconds']:.1f} s")
    print("  targets met:", result["met"])


if __name__ == "__main__":
    run()
