"""Kill what a sweep runs on, again and again, and check that every run still ends once with the right results.

``python -m tests.support.sweep_faults local 200`` and ``... ray 200`` run the long forms and print the results. A run
is a tiny training of CartPole (three updates, two checkpoints), so that the machinery around it is most of the work.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from mmrs.runs.history import ATTEMPTS, is_finished
from mmrs.runs.metrics_log import read_metrics
from mmrs.storage import checkpoint as store
from mmrs.sweeps.job import execute_run
from mmrs.sweeps.suites import SUITES, RunSpec, expand_suite

TIMES = {"seconds", "steps_per_second"}
GAME = "CartPole-v1"
METHODS = ("ppo", "rnd")
STEPS = 384


@dataclass
class Tally:
    """Number of faults, and what became of the runs."""

    runs: int = 0
    finished: int = 0
    ended_twice: int = 0
    """Runs that were started again after their end, or that ended more than once."""
    different: int = 0
    """Runs whose metrics or weights differ from those of a serial sweep."""
    starts: int = 0
    """Attempts at runs in total: those beyond `runs` were interrupted."""
    drivers_killed: int = 0
    nodes_killed: int = 0
    workers_killed: int = 0
    stranger: str = ""
    """What became of a process that wanted to join the Ray cluster without its token."""
    seconds: float = 0.0
    seconds_serial: float = 0.0


def toy_specs(seeds: int) -> tuple[RunSpec, ...]:
    return expand_suite(SUITES["smoke"], steps=STEPS, seeds=seeds, games=[GAME], methods=METHODS)


def sweep_command(folder: Path, seeds: int, *options: str) -> list[str]:
    scale = ["--steps", str(STEPS), "--seeds", str(seeds), "--games", GAME, "--methods", *METHODS]
    return [
        sys.executable,
        "-m",
        "mmrs.cli",
        "sweep",
        "smoke",
        "--out",
        str(folder),
        "--device",
        "cpu",
        *scale,
        *options,
    ]


def serial(folder: Path, specs: tuple[RunSpec, ...]) -> None:
    for spec in specs:
        outcome = execute_run(folder, spec, "serial")
        assert outcome.kind == "finished", outcome.text


def digest(run: Path) -> str:
    """Digest of the metrics and weights of a run."""
    rows = [{k: v for k, v in row.items() if k not in TIMES} for row in read_metrics(run / "metrics.jsonl").rows]
    network = store.load(run / "checkpoints")[1]["trainer"]["network"]
    tensors = b"".join(tensor.numpy().tobytes() for _, tensor in sorted(network.items()))
    return hashlib.sha256(json.dumps(rows).encode() + tensors).hexdigest()


def inspect(folder: Path, expected: Path, specs: tuple[RunSpec, ...], tally: Tally) -> None:
    tally.runs = len(specs)
    for spec in specs:
        run = folder / spec.name
        events = [row["event"] for row in read_metrics(run / ATTEMPTS).rows] if (run / ATTEMPTS).exists() else []
        tally.starts += events.count("start")
        tally.finished += is_finished(run)
        tally.ended_twice += "finished" in events[:-1]
        tally.different += not is_finished(run) or digest(run) != digest(expected / spec.name)


def finished(folder: Path) -> int:
    return len(list(folder.glob("*/finished.json")))


def wait_for(done: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if done():
            return True
        time.sleep(0.05)
    return done()


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


class Driver:
    """The process of a sweep, started again whenever it was killed."""

    def __init__(self, command: list[str], log: Path, env: dict[str, str]) -> None:
        self.command, self.log, self.env = command, log, {**os.environ, **env}
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.env)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def local_faults(folder: Path, seeds: int, workers: int, drivers: int, tally: Tally, seed: int = 0) -> int:
    """Kill workers and the sweep of the local engine, over its whole length; returns the last exit code."""
    rng, runs = random.Random(seed), seeds * len(METHODS)
    driver = Driver(sweep_command(folder, seeds, "--jobs", "2"), folder.with_suffix(".log"), {})
    kills = ["worker"] * workers + ["driver"] * drivers
    rng.shuffle(kills)
    for number, what in enumerate(kills):
        share = (number + rng.random()) / len(kills) * (runs - 3)  # the last kill must still find work under way
        wait_for(lambda share=share: finished(folder) >= share or driver.process.poll() is not None, 600)
        time.sleep(rng.uniform(0, 0.3))
        wait_for(lambda: bool(children(driver.process.pid)) or driver.process.poll() is not None, 60)
        if driver.process.poll() is not None:
            break
        if what == "driver":
            orphans = children(driver.process.pid)
            driver.kill()
            tally.drivers_killed += 1
            assert wait_for(lambda pids=orphans: not any(map(alive, pids)), 30), "workers outlived their sweep"
            driver.start()
        elif victims := children(driver.process.pid):
            os.kill(rng.choice(victims), signal.SIGKILL)
            tally.workers_killed += 1
    return driver.process.wait(600)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def stranger(address: str) -> str:
    """Try to run code on a cluster without its token."""
    script = f"import ray\nray.init(address={address!r})\nray.get(ray.remote(print).remote())"
    nobody = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")} | {"RAY_AUTH_MODE": "disabled"}
    ended = subprocess.run([sys.executable, "-c", script], env=nobody, capture_output=True, text=True, check=False)
    return "let in" if ended.returncode == 0 else "refused" if "uthentic" in ended.stderr else ended.stderr[-500:]


def ray_faults(folder: Path, seeds: int, drivers: int, every: float, nodes: int, tally: Tally) -> int:
    """Kill a node of a two-node cluster every few seconds and the driver now and then; returns the last exit code.

    Args:
        folder: folder of the sweep.
        seeds: number of seeds of the toy suite.
        drivers: how often the driver is killed, at intervals over the whole sweep.
        every: seconds between deaths of nodes.
        nodes: maximum number of deaths of nodes.
        tally: receives the counts.
    """
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_worker_niceness="0")
    from ray.cluster_utils import Cluster  # noqa: PLC0415  after the token is set

    # The death of a node is noticed within two seconds rather than fifteen.
    fast = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    small = {"object_store_memory": 80_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": fast, **small})
    nodes_alive = [cluster.add_node(num_cpus=2, object_store_memory=80_000_000) for _ in range(2)]
    options = ("--engine", "ray", "--address", cluster.address)
    tally.stranger = stranger(cluster.address)
    driver = Driver(sweep_command(folder, seeds, *options), folder.with_suffix(".log"), {})
    runs, died, before = seeds * len(METHODS), time.monotonic(), 0
    try:
        while (code := driver.process.poll()) is None:
            time.sleep(0.2)
            if tally.drivers_killed < drivers and finished(folder) >= runs * (tally.drivers_killed + 1) / (
                drivers + 1.5
            ):
                driver.kill()
                tally.drivers_killed += 1
                before = finished(folder)
                driver.start()
            elif (
                time.monotonic() - died > every
                and before < finished(folder) < runs
                and (tally.nodes_killed < nodes and (nodes > 1 or tally.drivers_killed))
            ):  # while runs are under way; the one node of the small form after the driver, which is quicker to kill
                cluster.remove_node(nodes_alive.pop(0), allow_graceful=False)
                tally.nodes_killed += 1
                nodes_alive.append(cluster.add_node(num_cpus=2, object_store_memory=80_000_000))
                died = time.monotonic()
        return code
    finally:
        if driver.process.poll() is None:
            driver.kill()
        cluster.shutdown()


def main(engine: str, runs: int, folder: Path) -> Tally:
    tally, seeds, many = Tally(), runs // len(METHODS), runs >= 40
    specs = toy_specs(seeds)
    began = time.monotonic()
    serial(folder / "serial", specs)
    tally.seconds_serial = round(time.monotonic() - began, 1)
    began = time.monotonic()
    if engine == "ray":
        often = {"drivers": 2, "every": 6.0, "nodes": 1000} if many else {"drivers": 1, "every": 0.0, "nodes": 1}
        code = ray_faults(folder / "faults", seeds, tally=tally, **often)
    else:
        code = local_faults(folder / "faults", seeds, workers=20, drivers=4, tally=tally)
    tally.seconds = round(time.monotonic() - began, 1)
    assert code == 0, f"the sweep ended with {code}: {(folder / 'faults.log').read_text()[-2000:]}"
    inspect(folder / "faults", folder / "serial", specs, tally)
    return tally


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        result = main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3] if len(sys.argv) > 3 else scratch))
    sys.stdout.write(f"{json.dumps(asdict(result))}\n")
