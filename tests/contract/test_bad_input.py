"""Bad input raises an error that names the problem, and changes nothing."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tests.support.rollouts import (
    ACTIONS,
    FACTORIES,
    MOVES,
    OBSERVATIONS,
    assert_same,
    frozen,
    image,
    make_rollout,
    parts,
    small,
)

import mmrs
from mmrs.errors import InputError, MmrsError, NotCausalError, UnsupportedSpaceError
from mmrs.rewards import REWARDS, require_causal

VECTOR = OBSERVATIONS["vector"]


def assert_refused(bonus, rollout, match, memory=None):
    """compute and update refuse the rollout and leave module and memory as they were."""
    state, remembered = frozen(bonus.state_dict()), frozen(memory)
    with pytest.raises(InputError, match=match):
        bonus.compute(rollout, memory)
    if memory is None:
        with pytest.raises(InputError, match=match):
            bonus.update(rollout)
    assert_same(bonus.state_dict(), state)
    assert_same(memory, remembered)


# --- rollouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made_for", "shown"),
    [
        ("vector", spaces.Box(-1, 1, (3, 5), np.float32)),  # the last axis fits, the rank does not
        ("vector", spaces.Box(-1, 1, (4,), np.float32)),
        ("scalar", spaces.Box(-1, 1, (1,), np.float32)),
        ("discrete", spaces.MultiDiscrete([7])),  # states in a trailing axis of 1
        ("image_hwc", image(1, 36, 36)),
        ("image_hwc", image(2, 36, 36, 1)),
    ],
)
def test_observations_of_another_shape(made_for, shown):
    for name in ("rnd", "jfi", "mmrs", "ride", "re3"):
        if name == "jfi" and made_for != "discrete":
            continue
        assert_refused(small(name, OBSERVATIONS[made_for]), make_rollout(shown, end=0), "observations of shape")


@pytest.mark.parametrize("name", ["mmrs", "re3", "ride", "rnd"])
def test_images_that_were_scaled_to_floats(name):
    fields = parts(make_rollout(OBSERVATIONS["image_hwc"]))
    fields |= {k: fields[k].float() / 255 for k in ("obs", "final_obs")}
    assert_refused(small(name, OBSERVATIONS["image_hwc"]), mmrs.Rollout(**fields), "float32.*uint8")


def test_byte_vectors_that_were_scaled_to_floats_and_floats_given_as_bytes():
    rollout = make_rollout(spaces.Box(0, 1, (4, 4), np.float32))
    assert_refused(small("rnd", OBSERVATIONS["vector_bytes"]), rollout, "float32.*uint8")
    assert_refused(small("rnd", VECTOR), make_rollout(image(5)), "uint8.*float32")


@pytest.mark.parametrize("state", [-1, 7, 2**40])
@pytest.mark.parametrize("field", ["obs", "final_obs"])
@pytest.mark.parametrize("name", ["jfi", "entropy", "rnd", "mmrs", "ride"])
def test_states_outside_a_discrete_space(name, field, state):
    fields = parts(make_rollout(OBSERVATIONS["discrete"], end=1.0))
    fields[field].view(-1)[2] = state
    assert_refused(small(name, OBSERVATIONS["discrete"]), mmrs.Rollout(**fields), f"{field} holds the state {state}")


@pytest.mark.parametrize("name", ["jfi", "rnd"])
def test_states_that_are_no_whole_numbers(name):
    fields = parts(make_rollout(OBSERVATIONS["discrete"]))
    halves = mmrs.Rollout(**fields | {k: fields[k] * 0.5 for k in ("obs", "final_obs")})
    bonus = small(name, OBSERVATIONS["discrete"])
    assert_refused(bonus, halves, "obs is torch.float32 and holds fractions")
    whole = mmrs.Rollout(**fields | {k: fields[k].float() for k in ("obs", "final_obs")})
    assert torch.equal(bonus.compute(whole)[0], bonus.compute(mmrs.Rollout(**fields))[0])


@pytest.mark.parametrize(
    ("kind", "change", "match"),
    [
        ("discrete", lambda a: a + 4, "actions hold [4-7] for choice 0, expected 0 to 3"),
        ("discrete", lambda a: a - 4, "actions hold -[1-4] for choice 0, expected 0 to 3"),
        ("discrete", lambda a: a + 0.5, "fractions"),
        ("discrete", lambda a: a.unsqueeze(-1), r"shape \(1,\) each, expected \(\)"),
        ("discrete_start", lambda a: torch.full_like(a, 2), "actions hold 2 for choice 0, expected -1 to 1"),
        ("multi_discrete", lambda a: a + torch.tensor([0, 2]), "actions hold [23] for choice 1, expected 0 to 1"),
        ("multi_discrete", lambda a: a[..., :1], r"shape \(1,\) each, expected \(2,\)"),
        ("box", lambda a: a[..., :2], r"shape \(2,\) each, expected \(3,\)"),
    ],
)
@pytest.mark.parametrize("name", ["rnd", "ride", "mmrs"])
def test_actions_outside_their_space(name, kind, change, match):
    fields = parts(make_rollout(VECTOR, ACTIONS[kind]))
    fields["actions"] = change(fields["actions"])
    assert_refused(small(name, VECTOR, ACTIONS[kind]), mmrs.Rollout(**fields), match)


def test_box_actions_may_leave_their_bounds_as_policies_do():
    fields = parts(make_rollout(VECTOR, ACTIONS["box"]))
    fields["actions"] *= 10
    small("ride", VECTOR, ACTIONS["box"]).update(mmrs.Rollout(**fields))


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["jfi", "ride", "mmrs", "scaled_rnd", "scaled_jfi", "weighted_ride", "sum_jfi_rnd"])
def test_memory_of_another_number_of_environments(name):
    bonus, space = FACTORIES[name](OBSERVATIONS["discrete"]), OBSERVATIONS["discrete"]
    _, memory = bonus.compute(make_rollout(space, envs=2))
    assert_refused(bonus, make_rollout(space, envs=3), "memory.*shape", memory)


@pytest.mark.parametrize(("giver", "taker"), [("jfi", "ride"), ("ride", "rnd"), ("rnd", "jfi"), ("jfi", "scaled_jfi")])
def test_memory_of_another_reward(giver, taker):
    space = OBSERVATIONS["discrete"]
    rollout = make_rollout(space)
    _, memory = FACTORIES[giver](space).compute(rollout)
    assert_refused(FACTORIES[taker](space), rollout, "memory holds", memory)


def test_memory_that_is_no_memory():
    space = OBSERVATIONS["discrete"]
    bonus, rollout = FACTORIES["scaled_jfi"](space), make_rollout(space)
    _, memory = bonus.compute(rollout)
    floats = memory | {"reward": memory["reward"] | {"counts": memory["reward"]["counts"].float()}}
    for wrong in ((), torch.zeros(3), memory | {"reward": torch.zeros(3)}, floats, memory | {"scale": {}}):
        assert_refused(bonus, rollout, "memory", wrong)


# --- names, options, spaces, hosts ------------------------------------------------------------------------------------


def test_unknown_reward_names_with_near_matches():
    with pytest.raises(InputError, match=r"no reward 'rdn'. Did you mean 'rnd'"):
        mmrs.make("rdn", VECTOR, MOVES)
    with pytest.raises(InputError, match=r"Known: .*jfi.*mmrs.*re3.*ride.*rnd"):
        mmrs.make("zzz", VECTOR, MOVES)


@pytest.mark.parametrize("name", sorted(REWARDS))
def test_unknown_options_with_near_matches(name):
    space = OBSERVATIONS["discrete"]
    with pytest.raises(InputError, match="has no option 'sead'"):
        mmrs.make(name, space, MOVES, sead=1)
    close = {"jfi": ("lamda_g", "lambda_g"), "mmrs": ("lamda_l", "lambda_l"), "rnd": ("latent_dims", "latent_dim")}
    if name in close:
        wrong, right = close[name]
        with pytest.raises(InputError, match=f"Did you mean '{right}'"):
            mmrs.make(name, space, MOVES, **{wrong: 1})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("jfi", {"scope": "forever"}),
        ("jfi", {"terminal_potential": "one"}),
        ("count_bonus", {"scope": "forever"}),
        ("mmrs", {"preset": "papers"}),
        ("mmrs", {"clustering": "episode"}),
        ("mmrs", {"k": 0}),
        ("mmrs", {"decoder_variance": 0.0}),
        ("re3", {"k": 0}),
        ("re3", {"trajectory": "life"}),
        ("ride", {"memory_size": 0}),
        ("rnd", {"batch_size": 0}),
        ("rnd", {"extra_layers": -1}),
        ("rnd", {"learning_rate": 0.0}),
        ("ride", {"learning_rate": float("nan")}),
        ("mmrs", {"learning_rate": -1.0}),
        ("rnd", {"total_updates": 0}),
    ],
)
def test_impossible_options(name, options):
    with pytest.raises(InputError, match=f"{next(iter(options))}|no preset|learning rate"):
        mmrs.make(name, OBSERVATIONS["discrete"], MOVES, **options)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict({"position": VECTOR}),
        spaces.Tuple((VECTOR, VECTOR)),
        spaces.Text(5),
        spaces.MultiBinary(3),
        spaces.MultiDiscrete([3, 3]),
        spaces.Sequence(VECTOR),
    ],
)
@pytest.mark.parametrize("name", sorted(REWARDS))
def test_unsupported_observation_spaces_and_what_is_supported(name, space):
    with pytest.raises(UnsupportedSpaceError, match=rf"{type(space).__name__} is not.*supported are Box.*Disc"):
        mmrs.make(name, space, MOVES)


@pytest.mark.parametrize("space", [spaces.Dict({"turn": MOVES}), spaces.Tuple((MOVES, MOVES)), spaces.Text(5)])
@pytest.mark.parametrize("name", sorted(REWARDS))
def test_unsupported_action_spaces_and_what_is_supported(name, space):
    with pytest.raises(UnsupportedSpaceError, match=rf"{type(space).__name__} is not.*supported are Disc"):
        mmrs.make(name, OBSERVATIONS["discrete"], space)


@pytest.mark.parametrize("name", FACTORIES)
def test_step_by_step_hosts_accept_only_causal_rewards(name):
    bonus = FACTORIES[name](OBSERVATIONS["discrete"])
    if bonus.causal:
        require_causal(bonus, "Q-learning")
    else:
        with pytest.raises(NotCausalError, match=r"not causal.*Q-learning.*PPO"):
            require_causal(bonus, "Q-learning")


def test_wrappers_refuse_what_they_cannot_do():
    rnd, other = small("rnd", VECTOR), small("rnd", OBSERVATIONS["discrete"])
    for build in (
        lambda: mmrs.Scaled(rnd, by="variance"),
        lambda: mmrs.Scaled(rnd, gamma=1.5),
        lambda: mmrs.Scaled(rnd, horizon=0),
        lambda: mmrs.Weighted(rnd, 1.0, final_weight=0.0),
        lambda: mmrs.Weighted(rnd, 1.0, over_updates=5),
        lambda: mmrs.Sum({}),
        lambda: mmrs.Sum({"a": rnd, "b": other}),
        lambda: mmrs.Sum({"a.b": rnd}),
        lambda: mmrs.register("rnd", FACTORIES["rnd"]),
    ):
        with pytest.raises(InputError):
            build()


def test_every_error_is_of_the_package_and_of_python():
    assert issubclass(InputError, MmrsError)
    assert issubclass(InputError, ValueError)
    assert issubclass(UnsupportedSpaceError, InputError)
    assert issubclass(NotCausalError, TypeError)
