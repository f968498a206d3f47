"""`mmrs audit` finds each fault that is planted in a real run, and none in healthy ones."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace

import pytest
import torch
from gymnasium import spaces
from rich.console import Console
from tests.support.rollouts import make_rollout
from tests.support.runs import made_up, write_run

from mmrs.audit import AuditConfig, audit
from mmrs.audit.probe import earlier_visits, frozen
from mmrs.audit.probe_checks import correlation_of, explained_by
from mmrs.audit.record_checks import RECORD_CHECKS
from mmrs.cli import main
from mmrs.report.build import build_report
from mmrs.report.collect import collect
from mmrs.rewards import JFI, REWARDS, register
from mmrs.runs.presets import default_config
from mmrs.runs.train import train

NAMES = {"reached", "vanished", "drowns", "exploded", "constant", "noise", "spikes", "standing"}


def planted(pays):
    """A reward whose bonus is `pays(rollout, updates, fairness bonus)`."""

    class Planted(JFI):
        causal = True

        def score(self, rollout, memory):
            terms, memory = super().score(rollout, memory)
            (good,) = terms.values()
            return {"planted": pays(rollout, self.updates, good)}, memory

    return Planted


def drawn(rollout, updates, good):
    return torch.rand(good.shape, generator=torch.Generator().manual_seed(updates)).to(good)


FAULTS = {
    "vanished": lambda rollout, updates, good: 30.0 * good * 0.2**updates,
    "exploded": lambda rollout, updates, good: good * 2.0**updates,
    "constant": lambda rollout, updates, good: torch.full_like(good, 0.1),
    "noise": drawn,
    "spikes": lambda rollout, updates, good: good + rollout.done,
    "standing": lambda rollout, updates, good: 1.0 + 0.1 * (rollout.map_pairs(lambda s: s.to(good))[1] % 3),
}


BARE = {"scale": "none", "center": False, "weight": 1.0}
"""A running scale would undo what fades and what explodes, and centering what is constant."""


@pytest.fixture(scope="module", autouse=True)
def faulty_rewards():
    for name, pays in FAULTS.items():
        register(f"planted_{name}", planted(pays))
    yield
    for name in FAULTS:
        del REWARDS[f"planted_{name}"]


def trained(root, env, bonus, updates=12, **options):
    config = default_config(env, bonus)
    config = replace(
        config,
        env=replace(config.env, num_envs=4),
        bonus=replace(config.bonus, **options),
        ppo=replace(config.ppo, epochs=2),
        num_steps=64,
        steps=256 * updates,
    )
    run, code = train(replace(config, root=root, name=f"{bonus}-{len(list(root.iterdir()))}", quiet=True))
    assert code == 0
    return run


def audited(run, **options):
    """Exit code, flagged checks and what was printed."""
    console = Console(file=io.StringIO(), width=250)
    code = audit(AuditConfig(run.path, **{"steps": 2048, **options}), console)
    findings = json.loads((run.path / "audit.json").read_text())["findings"]
    return code, {f["name"] for f in findings if f["flagged"]}, {f["name"] for f in findings}, console.file.getvalue()


@pytest.mark.parametrize(
    ("env", "bonus", "options"),
    [
        ("FrozenLake-v1", "mmrs", {}),
        ("MountainCar-v0", "mmrs", {"weight": 3.0}),
        ("MountainCar-v0", "rnd", {"weight": 0.2}),
        ("FrozenLake-v1", "jfi", {"weight": 30.0}),
        ("MountainCar-v0", "re3", {"weight": 0.2}),
    ],
)
def test_nothing_is_flagged_in_a_healthy_run(tmp_path, env, bonus, options):
    code, flagged, asked, text = audited(trained(tmp_path, env, bonus, **options))
    assert (code, flagged, asked) == (0, set(), NAMES), text
    assert "0 of 8 checks flagged" in text


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(tmp_path, fault):
    code, flagged, _, text = audited(trained(tmp_path, "FrozenLake-v1", f"planted_{fault}", **BARE))
    assert code == 1
    assert fault in flagged, text
    # What goes with it: a bonus without a course over states is also paid for standing still, a huge one drowns.
    also = {"constant": {"standing"}, "noise": {"standing"}, "exploded": {"drowns"}, "vanished": {"constant"}}
    assert flagged <= {fault} | also.get(fault, set()), text


def test_a_bonus_of_no_weight_never_reaches_the_advantages(tmp_path):
    code, flagged, asked, text = audited(trained(tmp_path, "FrozenLake-v1", "jfi", weight=0.0))
    assert (code, flagged) == (1, {"reached"})
    assert "vanished" not in asked  # it was never there
    assert "Look at bonus.weight" in text


def test_a_bonus_of_great_weight_drowns_the_reward(tmp_path):
    code, flagged, _, text = audited(trained(tmp_path, "FrozenLake-v1", "jfi", weight=1e5))
    assert (code, flagged) == (1, {"drowns"}), text


def test_a_bonus_that_faded_is_not_one_that_was_always_small(tmp_path):
    for place, (first, last) in enumerate([(0.5, 0.001), (0.001, 0.002), (0.5, 0.02)]):
        run = write_run(tmp_path / str(place), made_up("CartPole-v1", "rnd", place))
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for i, row in enumerate(rows):
            row["bonus_advantage_share"] = first if i < 10 else last
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = {flag.run: flag.title for flag in build_report(collect([tmp_path])).flags}
    assert flags == {"0": "the bonus has vanished", "1": "the bonus is too small to matter"}


def test_what_cannot_be_judged_is_reported(tmp_path):
    run = trained(tmp_path, "FrozenLake-v1", "jfi", updates=2, weight=30.0)
    code, flagged, asked, text = audited(run)
    assert (code, flagged, asked) == (0, set(), NAMES)
    assert "only 2 rows, too few to judge" in text
    assert "no size near the start to compare with" in text
    lines = text.splitlines()
    assert "  ok  the bonus reaches the advantages (highest share" in text
    assert any(line.startswith("   ?  not judged: whether the bonus is large enough to matter") for line in lines), text
    assert any(line.startswith("   ?  not judged: whether the scale of the bonus stays in bounds") for line in lines)
    unknown = sum(line.startswith("   ?") for line in lines)
    assert unknown >= 3
    assert f"0 of 8 checks flagged, {8 - unknown} ok, {unknown} not judged" in text
    assert sum(line.startswith("  ok") for line in lines) == 8 - unknown
    with run.metrics.open("a") as file:
        file.write('{"step": 99')
    _, _, asked, text = audited(run, steps=0)
    assert asked == set(RECORD_CHECKS)
    assert "damaged lines in the metrics: 1. The others are used." in text
    shutil.rmtree(run.checkpoints)
    run.checkpoints.mkdir()
    assert "no checkpoint yet" in audited(run)[3]
    plain = trained(tmp_path, "FrozenLake-v1", "none", updates=1)
    code, _, asked, text = audited(plain)
    assert (code, asked) == (0, set())
    assert "no bonus" in text


def test_the_exit_code_says_whether_anything_is_flagged(tmp_path, capsys):
    healthy = trained(tmp_path, "FrozenLake-v1", "jfi", weight=30.0)
    assert main(["audit", str(healthy.path), "--steps", "0"]) == 0
    sick = trained(tmp_path, "FrozenLake-v1", "jfi", weight=0.0)
    assert main(["audit", str(sick.path), "--steps", "0"]) == 1
    assert main(["audit", str(tmp_path / "jfi-9")]) == 2
    assert "there is no run" in capsys.readouterr().err


def test_the_report_shows_what_the_audit_found(tmp_path):
    write_run(tmp_path / "r", made_up("CartPole-v1", "rnd", 0))
    assert build_report(collect([tmp_path])).flags == ()
    finding = {"name": "noise", "title": "the bonus is noise", "flagged": True, "measured": "1 %", "remedy": "look"}
    (tmp_path / "r" / "audit.json").write_text(json.dumps({"findings": [finding, finding | {"flagged": False}]}))
    (flag,) = build_report(collect([tmp_path])).flags
    assert (flag.run, flag.title, flag.measured) == ("r", "the bonus is noise", "1 %")
    stale = finding | {"name": "vanished", "title": "the bonus has vanished"}  # the record says otherwise by now
    (tmp_path / "r" / "audit.json").write_text(json.dumps({"findings": [stale]}))
    assert build_report(collect([tmp_path])).flags == ()
    (tmp_path / "r" / "audit.json").write_text("[3")
    assert build_report(collect([tmp_path])).flags == ()


# --- parts ------------------------------------------------------------------------------------------------------------


def test_visits_are_counted_in_their_episode_and_environment():
    codes = torch.tensor([[1, 1], [2, 1], [1, 1], [1, 2], [1, 1]])
    done = torch.tensor([[0, 0], [0, 0], [0, 1], [0, 0], [1, 0]]).bool()
    assert earlier_visits(codes, done).tolist() == [[0, 0], [0, 1], [1, 2], [2, 0], [3, 0]]


def test_a_frozen_rollout_shows_one_state():
    rollout = make_rollout(spaces.Box(-1, 1, (5,)), steps=9, envs=3)
    still = frozen(rollout)
    assert (still.obs == rollout.obs[4]).all()
    assert not still.done.any()
    assert still.num_steps == 9


def test_explained_share_and_correlation():
    torch.manual_seed(0)
    codes = torch.randint(0, 8, (4000,))
    values = codes.double() + torch.randn(4000).double()
    variance = float(codes.double().var())
    assert explained_by(codes, values) == pytest.approx(variance / (variance + 1), abs=0.02)
    assert abs(explained_by(codes, torch.randn(4000).double())) < 0.01
    assert explained_by(codes, torch.ones(4000).double()) == 0.0
    x, y = torch.randn(2, 500).double()
    assert correlation_of(x, y) == pytest.approx(float(torch.corrcoef(torch.stack([x, y]))[0, 1]))
    assert correlation_of(x, torch.zeros(500).double()) == 0.0
