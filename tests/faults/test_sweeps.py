"""Faults in sweeps: workers, nodes and the sweep itself are killed, and every run still ends once, as in a serial one.

The long forms are in `tests/support/sweep_faults.py`; docs/sweeps.md has their results.
"""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import sweep_faults as sweeps

from mmrs.cli import main
from mmrs.runs.metrics_log import read_metrics
from mmrs.storage import checkpoint as store
from mmrs.sweeps.engines import ray as ray_engine
from mmrs.sweeps.engines.base import Resources, SweepContext
from mmrs.sweeps.engines.slurm import SlurmEngine
from mmrs.sweeps.suites import SUITES, expand_suite


def log(folder):
    return folder.with_suffix(".log").read_text()[-3000:]


def test_the_local_engine_survives_dead_workers_and_its_own_death(tmp_path):
    specs, tally, folder = sweeps.toy_specs(4), sweeps.Tally(), tmp_path / "faults"
    sweeps.serial(tmp_path / "serial", specs)
    assert sweeps.local_faults(folder, 4, workers=2, drivers=1, tally=tally) == 0, log(folder)
    sweeps.inspect(folder, tmp_path / "serial", specs, tally)
    assert tally.workers_killed >= 1
    assert tally.drivers_killed == 1
    assert (tally.finished, tally.ended_twice, tally.different) == (8, 0, 0)


def test_two_sweeps_of_one_folder_share_its_runs(tmp_path):
    folder, specs, tally = tmp_path / "shared", sweeps.toy_specs(3), sweeps.Tally()
    command = sweeps.sweep_command(folder, 3, "--jobs", "1")
    both = [sweeps.Driver(command, tmp_path / f"{i}.log", {}) for i in range(2)]
    assert [driver.process.wait(120) for driver in both] == [0, 0]
    sweeps.inspect(folder, folder, specs, tally)
    assert (tally.finished, tally.starts, tally.ended_twice) == (6, 6, 0)


def test_a_run_that_fails_is_retried_and_then_reported(tmp_path, capsys):
    scale = ["--games", "CartPole-v1", "--methods", "jfi", "ppo", "--seeds", "1", "--steps", "128"]
    code = main(["sweep", "smoke", "--out", str(tmp_path), *scale, "--jobs", "1", "--retries", "1", "--device", "cpu"])
    printed = capsys.readouterr().err
    assert code == 1
    assert "UnsupportedSpaceError" in (tmp_path / "CartPole-v1-jfi-0" / "error.txt").read_text()
    assert re.search(r"CartPole-v1-jfi-0 failed \(.*error\.txt\):\n(.*\n)*.*UnsupportedSpaceError", printed)
    assert "1/2 finished | 1 failed" in printed
    assert (tmp_path / "CartPole-v1-ppo-0" / "finished.json").exists()


def listening(pid):
    """Sockets on which a process accepts connections."""
    sockets = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    found = []
    for table in ("tcp", "tcp6"):
        rows = [line.split() for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
        found += [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    return found


def test_ctrl_c_saves_every_run_and_a_killed_sweep_leaves_no_worker_behind(tmp_path):
    folder = tmp_path / "stopped"
    command = [*sweeps.sweep_command(folder, 1, "--jobs", "1"), "--steps", "200000"]
    driver = sweeps.Driver(command, tmp_path / "stopped.log", {})
    record = folder / "CartPole-v1-rnd-0" / "metrics.jsonl"
    assert sweeps.wait_for(lambda: record.exists() and record.stat().st_size > 5000, 60), log(folder)
    (worker,) = sweeps.children(driver.process.pid)
    assert listening(driver.process.pid) == listening(worker) == []
    driver.process.send_signal(signal.SIGINT)
    assert driver.process.wait(30) == 130
    assert not sweeps.alive(worker)
    assert [row["event"] for row in read_metrics(record.parent / "attempts.jsonl").rows] == ["start", "stopped"]
    saved = store.checkpoints(record.parent / "checkpoints")[-1].step
    assert read_metrics(record).rows[-1]["step"] == saved
    assert "Stopped; the same command continues." in log(folder)
    driver.start()
    assert sweeps.wait_for(lambda: read_metrics(record).rows[-1]["step"] > saved, 60), log(folder)
    (worker,) = sweeps.children(driver.process.pid)
    driver.kill()  # -9: nobody is notified, and the run has minutes to go
    assert sweeps.wait_for(lambda: not sweeps.alive(worker), 10)


def test_ray_is_started_with_a_token(monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    ray_engine.enable_token_auth()
    assert os.environ["RAY_AUTH_MODE"] == "token"
    token = os.environ["RAY_AUTH_TOKEN"]
    assert len(token) == 64
    ray_engine.enable_token_auth()
    assert os.environ["RAY_AUTH_TOKEN"] == token  # the user's own is kept


@pytest.mark.slow
def test_slurm_jobs_finish_fail_and_get_lost(tmp_path):
    """On submitit's own stand-in for a cluster: no Slurm is needed, and none was tried."""
    specs = expand_suite(SUITES["smoke"], seeds=1, games=["CartPole-v1"], methods=["ppo", "jfi", "rnd"], steps=128)
    long = replace(specs[2], config={**specs[2].config, "steps": 10**7})
    engine = SlurmEngine(SweepContext(tmp_path, "a command"), 3, Resources(1, 0.0), ["timeout_min=5"], cluster="local")
    for spec in (*specs[:2], long):
        engine.submit(spec)
    assert engine.available_slots() == 0
    found = {}
    record = tmp_path / long.name / "metrics.jsonl"

    def done():
        found.update({outcome.name: outcome for outcome in engine.wait(0.1)})
        if record.exists() and long.name not in found:
            run = read_metrics(record.parent / "attempts.jsonl").rows[0]
            os.kill(run["pid"], signal.SIGKILL)
            record.unlink()
        return len(found) == 3

    assert sweeps.wait_for(done, 240)
    engine.close()
    assert [found[spec.name].kind for spec in specs] == ["finished", "failed", "lost"]
    assert "UnsupportedSpaceError" in found[specs[1].name].text


@pytest.mark.slow
@pytest.mark.ray
def test_ray_survives_dead_nodes_and_drivers_and_refuses_strangers(tmp_path):
    """In a process of its own: a token counts only if it is there before Ray is imported."""
    command = [sys.executable, "-m", "tests.support.sweep_faults", "ray", "24", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert ended.returncode == 0, ended.stdout[-1000:] + ended.stderr[-3000:]
    tally = json.loads(ended.stdout.splitlines()[-1])
    assert (tally["drivers_killed"], tally["nodes_killed"]) == (1, 1)
    assert (tally["finished"], tally["ended_twice"], tally["different"]) == (24, 0, 0)
    assert tally["stranger"] == "refused"
