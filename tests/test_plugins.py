"""A user's own reward, environment and wrappers reach every command and every process by --import alone."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import mmrs
from mmrs import plugins
from mmrs.envs import registry
from mmrs.envs.family import EnvFamily
from mmrs.envs.gym_envs import GymEnvs, make_single
from mmrs.errors import InputError
from mmrs.rewards.registry import REWARDS
from mmrs.runs.config import EnvConfig, TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.runs.metrics_log import read_metrics
from mmrs.runs.presets import default_config
from mmrs.sweeps.suites import expand_suite, find_suite, training_methods

PARTS = Path(__file__).parent / "fixtures" / "plugin" / "my_parts.py"
SHORT = ("--num-steps", "32", "--checkpoint-every", "2", "--quiet")


@pytest.fixture
def project(tmp_path) -> Path:
    """A folder with a module of the user, which Python does not find elsewhere."""
    shutil.copy(PARTS, tmp_path)
    return tmp_path


def mmrs_command(cwd: Path, *arguments: str) -> subprocess.CompletedProcess:
    # As the installed `mmrs` starts: unlike `python -m`, it has not the current folder on its path.
    command = [sys.executable, "-c", "import sys; sys.path[:] = [p for p in sys.path if p]; from mmrs.cli import main;"
               "sys.exit(main())", *arguments]  # fmt: skip
    env = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=250, check=False, env=env)


def done(cwd: Path, *arguments: str) -> str:
    found = mmrs_command(cwd, *arguments)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout + found.stderr


def config_of(run: Path) -> dict:
    return json.loads((run / "config.json").read_text())["config"]


def test_a_run_is_trained_resumed_evaluated_and_audited_by_import_alone(project, tmp_path_factory):
    made = ("--env.kwargs", '{"size": 8}', "--env.wrappers", "my_parts:Half", "my_parts:Plus")
    done(project, "train", "--import", "my_parts", "--env", "Corridor-v0", *made, "--bonus", "right", "--steps", "1024",
         "--name", "run", *SHORT)  # fmt: skip
    run = project / "runs" / "run"
    config = config_of(run)
    assert config["imports"] == [str(project / "my_parts.py")]
    assert config["env"]["kwargs"] == {"size": 8}
    assert config["env"]["wrappers"] == ["my_parts:Half", "my_parts:Plus"]
    assert read_metrics(run / "metrics.jsonl").rows[-1]["step"] == 1024
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done(elsewhere, "train", "--resume", str(run), "--steps", "2048", "--quiet")
    assert read_metrics(run / "metrics.jsonl").rows[-1]["step"] == 2048
    done(elsewhere, "eval", str(run), "--episodes", "2")
    result = json.loads((run / "evaluation.json").read_text())["evaluations"][-1]
    # Half of the reward, and then 1 per step: the other order would pay half of (1 + reward).
    for value, length in zip(result["full_game"]["values"], result["lengths"], strict=True):
        assert length >= 7 and value == pytest.approx(length + 0.5 * (length < 50))
    audited = mmrs_command(elsewhere, "audit", str(run), "--steps", "64")
    assert audited.returncode in (0, 1) and "checks flagged" in audited.stdout, audited.stderr


def test_methods_are_compared_in_worker_processes(project):
    printed = done(project, "train", "--import", "my_parts.py", "--env", "Corridor-v0", "--compare", "ppo", "right",
                   "--steps", "512", "--name", "both", *SHORT)  # fmt: skip
    assert "failed" not in printed
    for name in ("ppo-0", "right-0"):
        run = project / "runs" / "both" / name
        assert read_metrics(run / "metrics.jsonl").rows[-1]["step"] == 512
        assert config_of(run)["imports"] == [str(project / "my_parts.py")]


def sweep(project: Path, *engine: str) -> None:
    command = ("sweep", "smoke", "--import", "my_parts", "--games", "Corridor-v0", "--methods", "right", "ppo",
               "--seeds", "1", "--steps", "256", "--quiet", *engine)  # fmt: skip
    assert "2/2 finished" in done(project, *command)
    assert "2 were finished before" in done(project, *command)
    for name in ("corridor-v0-right-0", "corridor-v0-ppo-0"):
        run = next(path for path in (project / "runs" / "smoke").iterdir() if path.name.lower() == name)
        assert read_metrics(run / "metrics.jsonl").rows[-1]["step"] == 256


def test_a_sweep_trains_in_worker_processes(project):
    sweep(project)


@pytest.mark.slow
@pytest.mark.ray
def test_a_sweep_trains_in_tasks_of_ray(project):
    pytest.importorskip("ray")
    sweep(project, "--engine", "ray", "--jobs", "2")


def test_environments_in_processes_of_their_own_know_them_too(project):
    done(project, "train", "--import", "my_parts", "--env", "Corridor-v0", "--env.vectorization", "async",
         "--env.num-envs", "2", "--bonus", "right", "--steps", "128", "--name", "run", *SHORT)  # fmt: skip
    assert config_of(project / "runs" / "run")["env"]["vectorization"] == "async"


def test_an_environment_named_with_its_module_needs_no_import(project):
    done(project, "train", "--env", "my_parts:Corridor-v0", "--bonus", "right", "--steps", "256", "--name", "run",
         *SHORT)  # fmt: skip
    assert config_of(project / "runs" / "run")["imports"] == [str(project / "my_parts.py")]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import missing_package", "cannot import {name}: ModuleNotFoundError: No module named 'missing_package'"),
        ("x = 1 / 0", "cannot import {name}: ZeroDivisionError: division by zero .*{name}.py, line 1"),
        ("x = (", "cannot import {name}: SyntaxError"),
    ],
)
def test_an_import_that_fails_is_one_clear_error(code, text, tmp_path, monkeypatch):
    name = f"broken_{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(InputError, match=text.format(name=name)):
        plugins.load([str(tmp_path / f"{name}.py")])
    with pytest.raises(InputError, match=text.format(name=name)):  # not half-loaded: again
        plugins.load([str(tmp_path / f"{name}.py")])


def test_names_that_cannot_be_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"No module named 'nowhere'\. Give its path"):
        plugins.load(["nowhere"])
    with pytest.raises(InputError, match=r"gone\.py does not exist\. If it was moved"):
        plugins.load(["gone.py"])
    (tmp_path / "json.py").write_text("")
    with pytest.raises(InputError, match="has the name of another module"):
        plugins.load(["json.py"])
    with pytest.raises(InputError, match="empty name"):
        plugins.load([""])


def test_modules_are_recorded_so_that_any_process_finds_them(tmp_path, monkeypatch):
    package = tmp_path / "recorded_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("")
    (tmp_path / "recorded_module.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert plugins.locate(["./recorded_module", "recorded_package/inner"]) == (
        str(tmp_path / "recorded_module.py"),
        str(package / "inner.py"),
    )
    wanted = ("recorded_module", "recorded_package", "recorded_package.inner", "json", "recorded_module.py")
    located = (str(tmp_path / "recorded_module.py"), str(package), str(package / "inner.py"), "json")
    assert plugins.locate(wanted) == located
    plugins.load(located)
    assert {"recorded_module", "recorded_package", "recorded_package.inner"} <= set(sys.modules)
    assert plugins.locate(wanted) == located  # also when they are found already
    assert plugins.local_modules(("recorded_module:Id-v0", "json:Id-v0", "CartPole-v1")) == ("recorded_module",)


def test_a_run_whose_folder_was_moved_finds_its_module_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "moved_module.py").write_text("VALUE = 1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    plugins.load(["/nonexistent/moved_module.py"])
    assert sys.modules["moved_module"].VALUE == 1


def test_rewards_of_installed_packages_are_loaded_when_asked_for(monkeypatch, tmp_path):
    (tmp_path / "offered_rewards.py").write_text(
        "import mmrs\nclass Offered(mmrs.IntrinsicReward):\n    causal = True\n"
        "    def score(self, rollout, memory):\n        return {'offered': rollout.valid.float()}, memory\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("offered", "offered_rewards:Offered", plugins.REWARD_GROUP),
              EntryPoint("broken", "no_such_module:Broken", plugins.REWARD_GROUP)]  # fmt: skip
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == plugins.REWARD_GROUP else [])
    try:
        assert "offered" in training_methods() and "offered_rewards" not in sys.modules
        assert default_config("CartPole-v1", "offered").bonus.name == "offered"
        specs = expand_suite(find_suite("smoke"), methods=["offered"], games=["CartPole-v1"], seeds=1)
        assert specs[0].config["bonus"]["name"] == "offered"
        space = mmrs.envs.registry.make_envs("CartPole-v1", 1)
        assert type(mmrs.make("offered", space.observation_space, space.action_space)).__name__ == "Offered"
        with pytest.raises(InputError, match=r"the reward 'broken' \(no_such_module:Broken\) cannot be imported"):
            mmrs.make("broken", space.observation_space, space.action_space)
    finally:
        REWARDS.pop("offered", None)


def test_a_family_of_environments_is_one_object():
    def make(env_id, num_envs, options):
        assert env_id == "toy:1" and options.kwargs == {}
        return GymEnvs("CartPole-v1", num_envs, make=make_single)

    toy = EnvFamily(name="toy", title="Toy", matches=lambda i: i.startswith("toy:"), make=make, ids=lambda: ["toy:1"],
                    preset="images", refusal="is a toy.")  # fmt: skip
    registry.register_family(toy)
    try:
        assert registry.family("toy:1") == "toy" and registry.family("CartPole-v1") == "gymnasium"
        assert registry.make_envs("toy:1", 2).num_envs == 2
        assert registry.environment_kinds()["toy:1"] is toy
        assert default_config("toy:1").num_steps == 128 and default_config("toy:1").steps == 1_000_000
        with pytest.raises(InputError, match=r"wrappers is .* but toy:1 is a toy"):
            registry.make_envs("toy:1", 1, wrappers=("a:b",))
        with pytest.raises(InputError, match="registered already"):
            registry.register_family(toy)
    finally:
        del registry.FAMILIES["toy"]


@pytest.mark.parametrize(
    ("env_id", "options", "text"),
    [
        ("ALE/Alien-v5", {"kwargs": {"size": 8}}, "kwargs is .* ALE/Alien-v5 is stepped inside ale-py's emulator"),
        ("mmrs/KeyRooms-v0", {"wrappers": ("a:b",)}, "wrappers is .* compiled world that steps all environments"),
        ("CartPole-v1", {"kwargs": {"size": 8}}, r"CartPole-v1 cannot be made with env.kwargs {'size': 8}: .*size"),
        ("CartPole-v1", {"wrappers": ("gymnasium.wrappers",)}, "expected module:name"),
        ("CartPole-v1", {"wrappers": ("gymnasium.wrappers:TimeLimi",)}, "has no 'TimeLimi'. Did you mean 'TimeLimit'"),
        ("CartPole-v1", {"wrappers": ("gymnasium.wrappers:TimeLimit",)}, "the wrapper .*TimeLimit raised TypeError"),
        ("CartPole-v1", {"wrappers": ("builtins:id",)}, "returned int, expected a gymnasium.Env"),
    ],
)
def test_arguments_and_wrappers_that_do_not_fit_are_refused(env_id, options, text):
    with pytest.raises(InputError, match=text):
        registry.make_envs(env_id, 1, **options)


def test_a_wrapper_decides_the_observations_and_so_the_preset():
    wrappers = ("gymnasium.wrappers:FlattenObservation",)
    assert default_config("CartPole-v1", wrappers=wrappers).ppo == default_config("CartPole-v1").ppo
    envs = registry.make_envs("CliffWalking-v1", 1, wrappers=wrappers)
    assert envs.observation_space.shape == (48,)


@pytest.mark.parametrize(
    ("env_id", "full"),
    [("MiniGrid-DoorKey-8x8-v0", "minigrid:MiniGrid-DoorKey-8x8-v0"), ("FetchReach-v4", "gymnasium_robotics:FetchR")],
)
def test_an_id_of_a_known_module_gets_the_full_form_as_hint(env_id, full):
    with pytest.raises(InputError, match=f"write {full}"):
        registry.make_envs(env_id, 1)


def test_a_configuration_of_the_present_schema_without_the_new_fields_is_read(tmp_path):
    run = RunFolder.create(tmp_path, "run")
    config = TrainConfig(env=EnvConfig(kwargs={"a": [1, {"b": None}]}, wrappers=("m:W",)))
    run.write_config(config)
    assert run.read_config(TrainConfig) == config
    data = json.loads(run.config.read_text())
    del data["config"]["imports"], data["config"]["env"]["kwargs"], data["config"]["env"]["wrappers"]
    run.config.write_text(json.dumps(data))
    assert run.read_config(TrainConfig) == replace(config, env=EnvConfig())
