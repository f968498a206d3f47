"""What a suite would take: the arithmetic exactly, and one real measurement."""

import pytest

from mmrs.cli import main
from mmrs.sweeps import command
from mmrs.sweeps.cost import estimate, run_seconds
from mmrs.sweeps.engines.base import Resources
from mmrs.sweeps.engines.local import visible_gpus, worker_environment
from mmrs.sweeps.speed_probe import pairs_to_measure
from mmrs.sweeps.suites import SUITES, expand_suite


def test_time_falls_in_proportion_until_the_last_runs_wait():
    equal = [2.0] * 12
    assert [estimate("", equal, slots).seconds for slots in (1, 2, 3, 12, 50)] == [24, 12, 8, 2, 2]
    assert estimate("", equal, 5).seconds == 6  # three rounds, the last of two runs
    assert estimate("", equal, 5).busy == pytest.approx(24 / 30)
    assert estimate("", [1.0, 1.0, 1.0, 9.0], 2).seconds == 10  # the long run starts when the short ones are through


def test_costs_of_environments_and_methods_add():
    specs = expand_suite(SUITES["bullet"], games=["Ant", "Hopper", "Humanoid"], methods=["ppo", "mmrs"], seeds=1)
    names = ["AntBulletEnv-v0", "HopperBulletEnv-v0", "HumanoidBulletEnv-v0"]
    assert pairs_to_measure(specs) == [(names[0], "ppo"), (names[0], "mmrs"), (names[1], "ppo"), (names[2], "ppo")]
    measured = {(names[0], "ppo"): 10.0, (names[0], "mmrs"): 14.0, (names[1], "ppo"): 6.0}
    seconds = {(spec.env, spec.method): run_seconds(spec, specs, measured) for spec in specs}
    assert seconds == {
        **measured,
        (names[1], "mmrs"): 10.0,
        (names[2], "ppo"): 8.0,  # not measured: the mean of the others
        (names[2], "mmrs"): 12.0,
    }


def test_this_machine_is_measured_and_priced(capsys):
    scale = ["--games", "CartPole-v1", "--methods", "ppo", "--seeds", "40", "--steps", "1280"]
    assert main(["cost", "smoke", *scale, "--jobs", "1", "--seconds", "0.5", "--price", "3", "--cpus", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {
        line.split("│")[1].strip(): [part.strip() for part in line.split("│")[2:-1]] for line in lines if "│" in line
    }
    assert rows["CartPole-v1"][0] == "ppo"
    assert float(rows["CartPole-v1"][1].replace(",", "")) > 10
    assert [rows[name][0] for name in ("this machine", "10 such machines", "a cluster of 4 cores, 0 GPUs")] == [
        "1",
        "10",
        "4",
    ]
    assert rows["10 such machines"][2] == rows["this machine"][2] == "100%"
    assert rows["10 such machines"][3] == rows["this machine"][3]  # ten times the machines for a tenth of the time


@pytest.mark.parametrize(
    ("listed", "gpus"), [("0,1", ["0", "1"]), ("", []), ("-1", []), ("2,-1,3", ["2"]), ("GPU-ab, 1", ["GPU-ab", "1"])]
)
def test_gpus_are_those_that_cuda_would_see_each_for_its_slots(monkeypatch, listed, gpus):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert visible_gpus() == gpus
    given = [worker_environment(slot, 3, gpus) for slot in range(4)]
    assert [env["CUDA_VISIBLE_DEVICES"] for env in given] == ((gpus or [listed]) * 4)[:4]
    assert {env["OMP_NUM_THREADS"] for env in given} == {"3"}


@pytest.mark.parametrize(
    ("threads", "share", "gpus", "jobs"),
    [(1, 0.0, 0, 16), (4, 0.0, 0, 4), (32, 0.0, 0, 1), (1, 0.25, 2, 8), (1, 0.25, 8, 16), (1, 0.5, 0, 16)],
)
def test_jobs_are_as_many_as_cores_and_gpus_can_serve(monkeypatch, threads, share, gpus, jobs):
    monkeypatch.setattr(command, "usable_cores", lambda: 16)
    assert command.default_jobs(Resources(threads, share), gpus) == jobs


def test_impossible_clusters_are_refused(capsys):
    assert main(["cost", "smoke", "--cpus", "0"]) == 2
    assert "machines and cpus must be at least 1" in capsys.readouterr().err
