"""Speed of the rewards: compute + update on one rollout, each beside the same reward of rllte-core 1.0.1.

Run it with `make bench`, or `python -m benchmarks.rewards [--quick] [--device cuda]`. Peer and mmrs take turns in every
round on the same rollout, with the same embedding size, hidden layers, batch size, passes, optimizer and rate, and both
divide the reward by its running standard deviation. `DIFFERENCES` lists what the two do differently; so does the JSON.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import mmrs
from benchmarks import peer_rllte
from benchmarks.peer_rllte import MissingPeerError, Peer
from benchmarks.timing import arguments, interleaved, machine, median_ms, print_table, threads, write_results
from mmrs import IntrinsicReward, Rollout
from mmrs.nets.cuda_graphs import WARMUP_CALLS

STEPS, ENVS = 128, 8
END_PROBABILITY = 1 / 200
"""Probability that an episode ends at a step: about five of the rollout's 1,024 steps end one."""

EQUAL = {
    "re3": {"k": 5, "latent_dim": 128},
    "ride": {"latent_dim": 128, "learning_rate": 1e-3, "batch_size": 256, "epochs": 1},
    "rnd": {"latent_dim": 128, "extra_layers": 0, "learning_rate": 1e-3, "batch_size": 256, "epochs": 1},
}
"""Options of ours that match the peer's defaults (its update proportion is 1: every sample of one pass)."""

TRIMMED = {"re3": {"storage_size": STEPS, "obs_norm_type": "none"}}
"""Options of the peer that match our defaults where its own need more work."""

DIFFERENCES = {
    "re3": "The peer compares with a memory of 1,000 steps and standardizes pixels; ours compares within the rollout "
    "(as the paper does) and scales pixels by 1/255. The row 're3, peer trimmed' gives the peer our settings.",
    "ride": "The peer counts visits over the 10 nearest of an unbounded memory, ours over all of the last 512.",
    "rnd": "Both standardize each pixel. The peer trains on s_t, ours on the states that it rewards.",
}

LEAST_RATIO = {"cpu": {"re3": 3.0, "ride": 1.7, "rnd": 1.5}, "cuda": {"re3": 10.0, "ride": 10.0, "rnd": 4.0}}
"""Target ratios on images, against the peer at its defaults."""

LONGEST_KMEANS = {"cpu": 15.0, "cuda": 2.0}
"""Milliseconds: target of k-means with k = 128 on about 1,032 latents, on one core or on a GPU."""


@dataclass(frozen=True)
class Case:
    """One kind of rollout."""

    label: str
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    rollout: Rollout


def image_case(device: str, seed: int = 0) -> Case:
    """Stacks of four 84x84 frames and six actions, as on Atari."""
    rng = np.random.default_rng(seed)
    space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    obs = rng.integers(0, 256, (STEPS + 1, ENVS, *space.shape), np.uint8)
    return _case("4x84x84 uint8, Discrete(6)", space, gym.spaces.Discrete(6), obs, rng, device)


def vector_case(device: str, seed: int = 0) -> Case:
    """28 floats and an eight-dimensional action, as in a simulated ant."""
    rng = np.random.default_rng(seed)
    space = gym.spaces.Box(-np.inf, np.inf, (28,), np.float32)
    obs = rng.standard_normal((STEPS + 1, ENVS, 28), np.float32).cumsum(0) / 4
    return _case("28 float, Box(8)", space, gym.spaces.Box(-1, 1, (8,), np.float32), obs, rng, device)


def discrete_case(device: str, seed: int = 0) -> Case:
    """A walk over 900 states, as in a maze."""
    rng = np.random.default_rng(seed)
    obs = rng.integers(-1, 2, (STEPS + 1, ENVS)).cumsum(0) % 900
    return _case("Discrete(900), Discrete(4)", gym.spaces.Discrete(900), gym.spaces.Discrete(4), obs, rng, device)


def _case(
    label: str,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    obs: np.ndarray,
    rng: np.random.Generator,
    device: str,
) -> Case:
    action_space.seed(0)
    actions = np.stack([action_space.sample() for _ in range(STEPS * ENVS)])
    terminated = rng.random((STEPS, ENVS)) < END_PROBABILITY
    final_obs = obs[1:][terminated]  # any true state serves: the peer takes the successor for the last state
    rollout = Rollout(
        obs=obs,
        actions=actions.reshape(STEPS, ENVS, *actions.shape[1:]),
        terminated=terminated,
        truncated=np.zeros_like(terminated),
        final_obs=final_obs,
    )
    return Case(label, observation_space, action_space, rollout.to(device))


class Ours:
    """One reward of mmrs on one rollout, ready to be timed; its memory is passed on between rounds, as in training."""

    def __init__(self, bonus: IntrinsicReward, case: Case) -> None:
        self.bonus = bonus.to(case.rollout.device)
        self.case = case
        self.memory: dict[str, Any] | None = None

    def compute(self) -> torch.Tensor:
        """The bonus [T, N]."""
        reward, self.memory = self.bonus.compute(self._rollout(), self.memory)
        return reward

    def update(self) -> dict[str, float]:
        """One round of learning."""
        return self.bonus.update(self._rollout())

    def _rollout(self) -> Rollout:
        """A fresh copy of the rollout, so that its cached properties are computed, and timed, again."""
        r = self.case.rollout
        return Rollout(
            obs=r.obs,
            actions=r.actions,
            terminated=r.terminated,
            truncated=r.truncated,
            final_obs=r.final_obs,
            valid=r.valid,
        )


def scaled(name: str, case: Case, **options: Any) -> Ours:
    """One of our rewards with the peer's settings, including its scaling of the reward."""
    bonus = mmrs.make(name, case.observation_space, case.action_space, **options)
    return Ours(mmrs.Scaled(bonus, by="reward"), case)


def compare(name: str, case: Case, device: str, repeats: int, **peer_options: Any) -> dict[str, Any]:
    """Milliseconds of peer and ours for one reward and one rollout; `peer_error` if the peer fails."""
    ours = scaled(name, case, **EQUAL[name])
    calls: dict[str, Callable[[], object]] = {"compute": ours.compute, "update": ours.update}
    error = None
    try:
        peer = Peer(name, case.observation_space, case.action_space, case.rollout, device, **peer_options)
        peer()  # a crash of the peer happens here
        calls = {"peer_watch": peer.watch, "peer_compute_update": peer.compute_and_update, **calls}
    except MissingPeerError:
        raise
    except Exception as exception:  # any error of the peer is the result of that row
        error = f"{type(exception).__name__}: {exception}"
    seconds = interleaved(calls, repeats, device)
    row: dict[str, Any] = {"reward": name, "rollout": case.label, "peer_options": peer_options, "peer_error": error}
    row |= {f"{part}_ms": median_ms(values) for part, values in seconds.items()}
    row["ours_ms"] = median_ms([a + b for a, b in zip(seconds["compute"], seconds["update"], strict=True)])
    if error is None:
        both = zip(seconds["peer_watch"], seconds["peer_compute_update"], strict=True)
        row["peer_ms"] = median_ms([a + b for a, b in both])
        row["ratio"] = row["peer_ms"] / row["ours_ms"]
        row["ratio_without_watch"] = row["peer_compute_update_ms"] / row["ours_ms"]
    return row


def own(name: str, case: Case, device: str, repeats: int, **options: Any) -> dict[str, Any]:
    """Milliseconds of a reward that no peer has, at its defaults except for the options."""
    ours = Ours(mmrs.make(name, case.observation_space, case.action_space, **options), case)
    seconds = interleaved({"compute": ours.compute, "update": ours.update}, repeats, device)
    row: dict[str, Any] = {"reward": name, "options": options, "rollout": case.label}
    row |= {f"{part}_ms": median_ms(values) for part, values in seconds.items()}
    row["ours_ms"] = median_ms([a + b for a, b in zip(seconds["compute"], seconds["update"], strict=True)])
    return row


def beside_rnd(case: Case, device: str, repeats: int, **options: Any) -> dict[str, Any]:
    """`own` for landmarks, and the time of RND at its defaults on the same rollout."""
    rnd = own("rnd", case, device, repeats)["ours_ms"]
    row = own("landmarks", case, device, repeats, **options)
    return row | {"rnd_ms": rnd, "share_of_rnd": row["ours_ms"] / rnd}


def mmrs_share(case: Case, device: str, repeats: int) -> dict[str, Any]:
    """`own` for MMRS, and the share of k-means and Jain's index, timed on the latents of the same rollout."""
    bonus = mmrs.make("mmrs", case.observation_space, case.action_space)
    ours, rollout = Ours(bonus, case), case.rollout
    features = bonus.observation_spec.features
    with torch.no_grad():
        parts = [bonus.vae.encode(bonus.vae.normalize(features(part)))[0] for part in rollout.states.split(128)]
    latents, config = torch.cat(parts), bonus.config

    def cluster() -> tuple[torch.Tensor, torch.Tensor]:
        return bonus._cluster(rollout, latents, torch.Generator().manual_seed(0))

    for _ in range(WARMUP_CALLS + 1):  # as in a run, where a GPU replays it as one graph
        before, after = cluster()

    def fairness() -> torch.Tensor:
        return bonus._global(rollout, before, after)

    calls = {"compute": ours.compute, "update": ours.update, "kmeans": cluster, "fairness": fairness}
    seconds = interleaved(calls, repeats, device)
    row: dict[str, Any] = {"reward": "mmrs", "rollout": case.label, "k": config.k}
    row |= {f"{part}_ms": median_ms(values) for part, values in seconds.items()}
    row["ours_ms"] = median_ms([a + b for a, b in zip(seconds["compute"], seconds["update"], strict=True)])
    row["share"] = (row["kmeans_ms"] + row["fairness_ms"]) / row["ours_ms"]
    return row


def run(quick: bool = False, device: str = "cpu") -> dict[str, Any]:
    """Measure everything, print the tables, return the content of the JSON file."""
    image, vector, discrete = image_case(device), vector_case(device), discrete_case(device)
    slow, fast = (2, 5) if quick else (7, 31)
    rows: list[dict[str, Any]] = []
    own_rows: list[dict[str, Any]] = []
    # With a GPU the peer also works on the CPU (its statistics are there), so it gets all threads then.
    for number in (1, 2) if device == "cpu" else (torch.get_num_threads(),):
        with threads(number):
            for case, repeats in ((image, slow), (vector, fast)):
                todo = [(name, {}) for name in EQUAL] + list(TRIMMED.items())
                for name, options in todo:
                    print(f"{name}, {case.label}, {number} threads ...", flush=True)
                    rows.append(compare(name, case, device, repeats, **options) | {"threads": number})
            of_own = [partial(mmrs_share, image, repeats=slow), partial(mmrs_share, vector, repeats=fast)]
            of_own.append(partial(own, "jfi", discrete, repeats=fast))
            for options in ({}, {"input_scale": "controllability"}):
                of_own += [partial(beside_rnd, c, repeats=n, **options) for c, n in ((image, slow), (vector, fast))]
            print(f"mmrs, jfi and landmarks, {number} threads ...", flush=True)
            own_rows += [measure(device=device) | {"threads": number} for measure in of_own]
    _print(rows, own_rows, device)
    return {
        "what": "milliseconds of compute + update on one rollout; medians; ratio = peer / ours",
        "rollout": {"steps": STEPS, "envs": ENVS, "end_probability": END_PROBABILITY},
        "machine": machine(device),
        "peer": {"name": "rllte-core", "version": peer_rllte.version(), "install": peer_rllte.INSTALL},
        "repeats": {"images": slow, "vectors": fast},
        "settings": {"ours": EQUAL, "peer": "its defaults", "differences": DIFFERENCES},
        "targets_on_images": LEAST_RATIO[device.partition(":")[0]],
        "beside_the_peer": rows,
        "ours_alone": own_rows,
    }


def _print(rows: list[dict[str, Any]], own_rows: list[dict[str, Any]], device: str) -> None:
    targets = LEAST_RATIO[device.partition(":")[0]]
    lines = []
    for row in rows:
        name = row["reward"] + (", peer trimmed" if row["peer_options"] else "")
        target = targets[row["reward"]] if "uint8" in row["rollout"] and not row["peer_options"] else None
        verdict = row["peer_error"] or _verdict(row["ratio"], target)
        line = [name, row["rollout"], row["threads"], row.get("peer_watch_ms"), row.get("peer_compute_update_ms")]
        lines.append([*line, row["compute_ms"], row["update_ms"], row.get("ratio"), verdict])
    print_table(
        f"compute + update on T={STEPS}, N={ENVS} beside rllte-core {peer_rllte.version()}, {device}: ms and ratio",
        ["reward", "rollout", "threads", "peer watch", "peer c+u", "compute", "update", "ratio", ""],
        lines,
        "ratio = all of the peer's work on a rollout / all of ours; c+u = compute and update, one call of the peer",
    )
    print_table(
        "rewards that no peer has: ms",
        ["reward", "rollout", "threads", "compute", "update", "k-means", "fairness", "share of both", "of RND"],
        [
            [
                " ".join([row["reward"], *map(str, row.get("options", {}).values())]),
                *(row[column] for column in ("rollout", "threads", "compute_ms", "update_ms")),
                *(row.get(column) for column in ("kmeans_ms", "fairness_ms")),
                f"{row['share']:.1%}" if "share" in row else None,
                f"{row['share_of_rnd']:.0%}" if "share_of_rnd" in row else None,
            ]
            for row in own_rows
        ],
        "share of both = k-means and fairness in MMRS's compute + update; target on images on the CPU: under 5 %; "
        f"k-means: target under {LONGEST_KMEANS[device.partition(':')[0]]:g} ms; of RND = time of landmarks / RND's: "
        "targets under 150 % on vectors, under 100 % on images",
    )


def _verdict(ratio: float, target: float | None) -> str:
    if target is None:
        return ""
    return f"target {target:g}x: {'met' if ratio >= target else 'MISSED'}"


if __name__ == "__main__":
    options = arguments(__doc__.partition("\n")[0])
    results = run(options.quick, options.device)
    print(write_results("rewards" if options.device == "cpu" else "rewards-cuda", results))
