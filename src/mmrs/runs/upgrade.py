"""Reading runs of earlier versions: tables of what was renamed since, by the schema that a run was written with.

`config.json` says its schema; it is upgraded when read, and rewritten only for a longer run. A checkpoint says its own,
since a run that was begun with one version may have been continued with another. A checkpoint without one has schema 1.
"""

from __future__ import annotations

import copy
from typing import Any

SCHEMA = 2
"""Schema that this version writes. Raise it when a name in a file of a run changes, and add to the tables."""

FIELDS = {
    "env": {"normalise": "normalize"},
    "bonus": {"centre": "center"},
    "ppo": {"normalise_advantages": "normalize_advantages"},
}
"""Fields of the configuration, by section."""
ADDED: dict[str, dict[str, Any]] = {
    "": {"imports": []},
    "env": {"kwargs": {}, "wrappers": []},
    "ppo": {"compile": False},
}
"""Fields that came after schema 1, by section of a training run, with the value that stands for what it did."""
REWARDS = {"rnd_decay": "exp_decay"}
OPTIONS = {
    "landmarks": {
        "scale": "input_scale",
        "pay": "bonus",
        "life": "lifelong_weight",
        "admit": "insert_filter",
        "merges": "max_merges",
        "ratio": "insert_ratio",
        "apart": "min_sq_dist",
    },
    "mmrs": {"restart": "count_scope", "control": "mask_uncontrollable", "clusters": "clustering"},
}
"""Options of rewards, by the present name of the reward."""
VALUES = {
    "landmarks": {
        "input_scale": {"spread": "std", "control": "controllability"},
        "insert_filter": {"again": "revisited", "elsewhere": "multi_env"},
    },
    **{
        name: {"scope": {"life": "lifelong"}}
        for name in ("jfi", "count_bonus", "count_penalty", "entropy", "coverage", "exp_decay")
    },
}
"""Values of options, by the present names of the reward and the option."""
METRICS = {
    "life_return": "episode_return",
    **{f"reward/centre{end}": f"reward/center{end}" for end in ("", "_std", "_share")},
}
MEMORY = {"fresh": "starts_episode", "held": "valid"}
"""Keys of the memory of rewards, at any depth."""
BUFFERS = {
    "landmarks": {"mass": "visit_count", "taken": "used", "ways": "remap", "step": "step_sq_dist"},
}
"""Buffers of rewards, under any prefix of a wrapper."""


def upgrade_config(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration as JSON, with the present names. What is not of the expected form is left alone."""
    config = dict(config)
    for section, names in FIELDS.items():
        if isinstance(config.get(section), dict):
            config[section] = _renamed(config[section], names)
    bonus = config.get("bonus")
    if isinstance(bonus, dict) and isinstance(bonus.get("name"), str):
        bonus["name"] = upgrade_reward(bonus["name"])
    if isinstance(config.get("methods"), list):  # of maze walks
        config["methods"] = [upgrade_reward(method) for method in config["methods"]]
    return fill_added(config)


def fill_added(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a training run with every field that came after it was written; others are left alone.

    Options of rewards get their present names too: some changed within schema 2, and no old name has a new meaning.
    """
    bonus = config.get("bonus")
    if isinstance(bonus, dict) and isinstance(bonus.get("name"), str) and isinstance(bonus.get("options"), list):
        options = [_upgrade_option(bonus["name"], option) for option in bonus["options"]]
        config = {**config, "bonus": {**bonus, "options": options}}
    if not isinstance(config.get("ppo"), dict):
        return config
    filled = copy.deepcopy(ADDED[""]) | config
    for section in ADDED.keys() & config.keys():
        if isinstance(config[section], dict):
            filled[section] = copy.deepcopy(ADDED[section]) | config[section]
    return filled


def upgrade_reward(name: str) -> str:
    """The present name of a reward."""
    return REWARDS.get(name, name)


def upgrade_settings(reward: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Options of a reward with their values; `reward` is its present name."""
    renamed = _renamed(settings, OPTIONS.get(reward, {}))
    values = VALUES.get(reward, {})
    return {name: _upgrade_value(values.get(name, {}), value) for name, value in renamed.items()}


def upgrade_metrics(row: dict[str, Any]) -> dict[str, Any]:
    """A row of metrics, or another dictionary by names of metrics."""
    return row if METRICS.keys().isdisjoint(row) else _renamed(row, METRICS)


def upgrade_state(reward: str, tree: dict[str, Any]) -> dict[str, Any]:
    """The content of a checkpoint; `reward` is the present name of the run's reward."""
    if tree.get("schema", 1) >= SCHEMA:
        return tree
    trainer = dict(tree["trainer"])
    trainer["recent"] = upgrade_metrics(trainer["recent"])
    trainer["memory"] = _upgrade_memory(trainer["memory"])
    if isinstance(trainer["bonus"], dict):
        buffers = BUFFERS.get(reward, {})
        trainer["bonus"] = {_upgrade_buffer(buffers, key): value for key, value in trainer["bonus"].items()}
    return {**tree, "trainer": trainer}


def upgrade_finding(finding: dict[str, Any]) -> dict[str, Any]:
    """A finding of `audit.json`."""
    return _renamed(finding, {"figure": "measured"})


def _upgrade_option(reward: str, option: Any) -> Any:
    if not isinstance(option, str):
        return option
    name, equals, text = option.partition("=")
    bare = text.strip("'\"")
    ((name, value),) = upgrade_settings(reward, {name: bare}).items()
    return f"{name}{equals}{text if value == bare else value}"  # quotes stay: they say that a value is text


def _upgrade_value(values: dict[str, str], value: Any) -> Any:
    return values.get(value, value) if isinstance(value, str) else value


def _upgrade_memory(memory: Any) -> Any:
    if not isinstance(memory, dict):
        return memory
    return {MEMORY.get(name, name): _upgrade_memory(value) for name, value in memory.items()}


def _upgrade_buffer(buffers: dict[str, str], key: str) -> str:
    prefix, dot, name = key.rpartition(".")
    return f"{prefix}{dot}{buffers.get(name, name)}"


def _renamed(data: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in data.items()}
