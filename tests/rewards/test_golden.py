"""Every reward against values from plain loops, on networks with known weights."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from tests.support.rollouts import MOVES, OBSERVATIONS, make_rollout

import mmrs
from mmrs.functional.clustering import kmeans
from mmrs.functional.losses import gaussian_kl, novelty, vae_loss
from mmrs.rewards.ride import CLUSTER_DISTANCE, KERNEL_EPSILON

PLANE = spaces.Box(-np.inf, np.inf, (2,), np.float32)
SIZE = OBSERVATIONS["discrete"].n


def copy_input(encoder, factor=1.0):
    """Make a dense encoder of two layers return its first inputs times a factor: relu(x) - relu(-x) = x."""
    first, _, last = encoder
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        for i in range(last.out_features):
            first.weight[2 * i, i], first.weight[2 * i + 1, i] = 1.0, -1.0
            last.weight[i, 2 * i], last.weight[i, 2 * i + 1] = factor, -factor


def plane_rollout(points, done=(), final=(), actions=None):
    """One environment walking over these points; `done` steps end at the points of `final`."""
    steps = len(points) - 1
    ends = np.zeros((steps, 1), bool)
    ends[list(done)] = True
    return mmrs.Rollout(
        obs=np.array(points, np.float32)[:, None],
        actions=np.zeros((steps, 1), int) if actions is None else np.array(actions)[:, None],
        terminated=ends,
        truncated=np.zeros_like(ends),
        final_obs=np.array(final, np.float32).reshape(-1, 2),
    )


def visits(rollout, e):
    """(t, state before, state after, episode starts here, terminated) of the valid steps of one environment."""
    start = True
    for t in range(rollout.num_steps):
        if not rollout.valid[t, e]:
            start = True
            continue
        ended = bool(rollout.done[t, e])
        before, after = int(rollout.state_index[t, e]), int(rollout.next_state_index[t, e])
        yield t, before, after, start, bool(rollout.terminated[t, e])
        start = ended


def fairness(counts, size):
    n = sum(counts.values())
    return n * n / (size * sum(c * c for c in counts.values())) if n else 1 / size


# --- JFI --------------------------------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 999),
    scope=st.sampled_from(["episode", "lifelong"]),
    count_start=st.booleans(),
    terminal=st.sampled_from(["literal", "zero"]),
    gamma_g=st.sampled_from([1.0, 0.9]),
    dummies=st.booleans(),
)
def test_jfi_is_a_recount_by_dictionary(seed, scope, count_start, terminal, gamma_g, dummies):
    rollout = make_rollout(OBSERVATIONS["discrete"], steps=9, envs=2, seed=seed, dummies=dummies)
    options = {"scope": scope, "count_start": count_start, "terminal_potential": terminal, "gamma_g": gamma_g}
    reward, _ = mmrs.make("jfi", OBSERVATIONS["discrete"], MOVES, lambda_g=0.5, **options).compute(rollout)
    for e in range(2):
        counts = Counter()
        for t, before, after, starts, terminated in visits(rollout, e):
            if starts:
                counts = Counter() if scope == "episode" else counts
                counts[int(rollout.states[before])] += count_start
            j = fairness(counts, SIZE)
            counts[int(rollout.states[after])] += 1
            new = 0.0 if terminated and terminal == "zero" else fairness(counts, SIZE)
            assert reward[t, e].item() == pytest.approx(0.5 * (gamma_g * new - j), rel=1e-12, abs=1e-15)


@given(seed=st.integers(0, 999), steps=st.integers(1, 15), gamma_g=st.sampled_from([0.5, 0.99, 1.0]))
def test_jfi_telescopes_over_an_episode(seed, steps, gamma_g):
    rollout = make_rollout(OBSERVATIONS["discrete"], steps=steps, envs=1, seed=seed, end=0.0)
    bonus = mmrs.make("jfi", OBSERVATIONS["discrete"], MOVES, lambda_g=2.0, gamma_g=gamma_g)
    total = sum(gamma_g**t * r for t, r in enumerate(bonus.compute(rollout)[0].flatten().tolist()))
    states = rollout.obs.flatten().tolist()
    expected = gamma_g**steps * fairness(Counter(states), SIZE) - 1 / SIZE
    assert total == pytest.approx(2.0 * expected, abs=1e-12)


@given(seed=st.integers(0, 999))
def test_jfi_is_never_more_than_lambda_over_s(seed):
    rollout = make_rollout(OBSERVATIONS["discrete"], steps=12, envs=2, seed=seed)
    reward, _ = mmrs.make("jfi", OBSERVATIONS["discrete"], MOVES, lambda_g=1.0).compute(rollout)
    assert reward.max() <= 1 / SIZE + 1e-15
    for e in range(2):
        seen = []
        for t, before, after, starts, _ in visits(rollout, e):
            seen = [int(rollout.states[before])] if starts else seen
            seen.append(int(rollout.states[after]))
            assert (abs(reward[t, e].item() - 1 / SIZE) < 1e-12) == (len(set(seen)) == len(seen))


def test_jfi_without_the_start_state_charges_the_discount_at_the_first_step():
    rollout = make_rollout(OBSERVATIONS["discrete"], steps=1, envs=1, end=0.0)
    bonus = mmrs.make("jfi", OBSERVATIONS["discrete"], MOVES, lambda_g=0.3, gamma_g=0.9, count_start=False)
    assert bonus.compute(rollout)[0].item() == pytest.approx(-(1 - 0.9) / SIZE * 0.3)


def test_lifelong_counts_of_jfi_span_rollouts():
    bonus = mmrs.make("jfi", OBSERVATIONS["discrete"], MOVES, scope="lifelong")
    memory = None
    for seed in range(3):
        rollout = make_rollout(OBSERVATIONS["discrete"], seed=seed, end=0.5)
        _, memory = bonus.compute(rollout, memory)
    assert memory["counts"].sum() > 3 * 6 * 3  # every step, and every start


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("count_bonus", lambda n: 0.5 / math.sqrt(n)),
        ("count_penalty", lambda n: 0.5 / math.sqrt(n) - 0.5),
        ("exp_decay", lambda n: 0.5 * math.exp(-n / 10)),
    ],
)
def test_count_rewards_are_their_formulas(name, formula):
    rollout = make_rollout(OBSERVATIONS["discrete"], steps=12, envs=2, dummies=True)
    reward, _ = mmrs.make(name, OBSERVATIONS["discrete"], MOVES, weight=0.5).compute(rollout)
    for e in range(2):
        counts = Counter()
        for t, before, after, starts, _ in visits(rollout, e):
            if starts:
                counts = Counter([int(rollout.states[before])])
            counts[int(rollout.states[after])] += 1
            assert reward[t, e].item() == pytest.approx(formula(counts[int(rollout.states[after])]))


# --- RE3 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trajectory", ["rollout", "episode"])
def test_re3_is_the_log_of_the_distance_to_the_kth_neighbor(trajectory):
    points = [(0, 0), (3, 4), (0, 1), (6, 8), (0, 2), (1, 1), (9, 9)]
    rollout = plane_rollout(points, done=[2], final=[(5, 5)])
    bonus = mmrs.make("re3", PLANE, MOVES, k=2, latent_dim=2, trajectory=trajectory)
    copy_input(bonus.encoder)
    first, second = [(0, 0), (3, 4), (0, 1), (5, 5)], [(6, 8), (0, 2), (1, 1), (9, 9)]
    sets = [first, second] if trajectory == "episode" else [first + second]
    reward = bonus.compute(rollout)[0].flatten().tolist()
    for t in range(6):
        mine = next(s for s in sets if points[t] in s)
        distances = sorted(math.dist(points[t], other) for other in mine)  # the first is the point itself
        assert reward[t] == pytest.approx(math.log(distances[2] + 1), rel=1e-5)


# --- RIDE -------------------------------------------------------------------------------------------------------------


def pseudo_count(point, seen, unit):
    kernel = 0.0
    for other in seen:
        relative = math.dist(point, other) ** 2 / unit
        kernel += KERNEL_EPSILON / (max(relative - CLUSTER_DISTANCE, 0.0) + KERNEL_EPSILON)
    return 1 + kernel


def test_ride_is_impact_over_the_root_of_the_episodic_count():
    points = [(0, 0), (3, 4), (0, 0), (3, 4), (0, 0), (0, 0), (3, 4.01), (0, 0), (1, 1)]
    rollout = plane_rollout(points, done=[4], final=[(0, 0.001)])
    bonus = mmrs.make("ride", PLANE, MOVES, latent_dim=2, memory_size=3)
    copy_input(bonus.embedding)
    successors = [*points[1:5], (0, 0.001), *points[6:]]
    reward = bonus.compute(rollout)[0].flatten().tolist()
    seen = []
    for t, (before, after) in enumerate(zip(points, successors, strict=False)):
        if t in (0, 5):
            seen = [before]
        count = pseudo_count(after, seen[-3:], unit=1.0)
        assert reward[t] == pytest.approx(math.dist(before, after) / math.sqrt(count), rel=1e-4)
        seen.append(after)


def test_ride_learns_the_squared_distance_of_a_step():
    rollout = plane_rollout([(0, 0), (3, 4), (3, 5)])
    bonus = mmrs.make("ride", PLANE, MOVES, latent_dim=2)
    copy_input(bonus.embedding)
    bonus.episodic.update_scale(rollout, bonus._embed)
    assert bonus.episodic.step_distance.item() == pytest.approx((25 + 1) / 2)


def test_ride_recognizes_a_state_far_from_the_origin():
    points = np.random.default_rng(0).standard_normal((2, 1, 5)).astype(np.float32) + 100.0
    none = np.zeros((8, 1), bool)
    rollout = mmrs.Rollout(
        obs=np.tile(points, (5, 1, 1))[:9], actions=none.astype(int), terminated=none, truncated=none
    )
    bonus = mmrs.make("ride", OBSERVATIONS["vector"], MOVES)
    bonus.episodic.update_scale(rollout, bonus._embed)
    reward = bonus.compute(rollout)[0].flatten()
    counts = (reward[0] / reward) ** 2
    torch.testing.assert_close(counts, torch.tensor([1, 2, 2, 3, 3, 4, 4, 5.0]), atol=0.01, rtol=0)


@pytest.mark.parametrize("continuous", [False, True])
def test_ride_trains_on_the_losses_of_its_equation(continuous):
    actions = [[0.5, -1.0], [2.0, 0.0], [0.0, 0.0]] if continuous else [1, 0, 2]
    space = spaces.Box(-2, 2, (2,), np.float32) if continuous else spaces.Discrete(3)
    points = [(0, 0), (3, 4), (0, 1), (6, 8)]
    bonus = mmrs.make("ride", PLANE, space, latent_dim=2, batch_size=64)
    copy_input(bonus.embedding)
    copy_input(bonus.inverse, 0.1)  # guesses the action from the first numbers of (s, s')
    copy_input(bonus.forward_model, 2.0)  # predicts 2 s
    metrics = bonus.update(plane_rollout(points, actions=np.array(actions, np.float32) if continuous else actions))
    inverse = forward = 0.0
    for t in range(3):
        guess = [0.1 * v for v in (*points[t], *points[t + 1])][: 2 if continuous else 3]
        if continuous:
            inverse += sum((g - a) ** 2 for g, a in zip(guess, actions[t], strict=True)) / 3
        else:
            inverse += (math.log(sum(map(math.exp, guess))) - guess[actions[t]]) / 3
        forward += sum((2 * a - b) ** 2 for a, b in zip(points[t], points[t + 1], strict=True)) / 3
    assert metrics["inverse_loss"] == pytest.approx(inverse, rel=1e-5)
    assert metrics["forward_loss"] == pytest.approx(forward, rel=1e-5)


# --- RND --------------------------------------------------------------------------------------------------------------


def test_rnd_is_the_squared_error_at_the_clipped_successor_and_trains_on_it():
    points = [(0, 0), (3, 4), (0, 1), (6, 8)]
    rollout = plane_rollout(points, done=[1], final=[(9, -9)])
    bonus = mmrs.make("rnd", PLANE, MOVES, latent_dim=2, extra_layers=0, batch_size=64)
    copy_input(bonus.target, 1.0)
    copy_input(bonus.predictor[0], 1.5)
    clipped = [(3, 4), (5, -5), (5, 5)]  # (9, -9) is the true successor of step 1, (6, 8) that of step 2
    reward = bonus.compute(rollout)[0].flatten().tolist()
    assert reward == pytest.approx([0.25 * (x * x + y * y) for x, y in clipped])
    successors = np.array([(3, 4), (9, -9), (6, 8)], float)
    standard = np.clip((successors - successors.mean(0)) / successors.std(0), -5, 5)
    assert bonus.update(rollout)["rnd_loss"] == pytest.approx(0.25 * (standard**2).sum(1).mean(), rel=1e-5)
    assert bonus.norm.count == 3
    np.testing.assert_allclose(bonus.norm.mean, successors.mean(0))
    np.testing.assert_allclose(bonus.norm.variance, successors.var(0))


def test_rnd_statistics_over_rollouts_are_those_of_all_states():
    bonus = mmrs.make("rnd", PLANE, MOVES, latent_dim=2)
    seen = []
    for seed in range(4):
        rollout = make_rollout(PLANE, steps=5, envs=2, seed=seed, dummies=True)
        bonus.update(rollout)
        seen.append(rollout.states[rollout.next_state_index[rollout.valid]].double().numpy())
    everything = np.concatenate(seen)
    assert bonus.norm.count == len(everything)
    np.testing.assert_allclose(bonus.norm.mean, everything.mean(0))
    np.testing.assert_allclose(bonus.norm.variance, everything.var(0))


# --- novelty and VAE --------------------------------------------------------------------------------------------------


def test_vae_losses_are_sums_over_features():
    mean, log_variance = [[0.5, -1.0], [0.0, 2.0]], [[0.0, 1.0], [-1.0, 0.2]]
    x, drawn = [[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]], [[1.0, 1.0, 1.0], [0.5, 0.0, 0.0]]
    tensors = [torch.tensor(v) for v in (x, drawn, mean, log_variance)]
    for b in range(2):
        kl = sum(0.5 * (math.exp(v) + m * m - 1 - v) for m, v in zip(mean[b], log_variance[b], strict=True))
        error = sum((p - q) ** 2 for p, q in zip(x[b], drawn[b], strict=True))
        assert gaussian_kl(*tensors[2:])[b].item() == pytest.approx(kl)
        assert vae_loss(*tensors, decoder_variance=0.1)[b].item() == pytest.approx(kl + error / 0.2, rel=1e-5)
        assert novelty(*tensors[:2], average=False)[b].item() == pytest.approx(error / 2)
        assert novelty(*tensors[:2], average=True)[b].item() == pytest.approx(error / 6)


def layers(sequence, x):
    """A stack of Linear and Tanh by NumPy."""
    for layer in sequence:
        x = (
            np.tanh(x)
            if isinstance(layer, torch.nn.Tanh)
            else x @ layer.weight.detach().double().numpy().T + (layer.bias.detach().double().numpy())
        )
    return x


@pytest.mark.parametrize("average", ["mean", "sum"])
def test_the_local_term_is_the_reconstruction_error_of_the_state_before_the_step(average):
    bonus = mmrs.make("mmrs", PLANE, MOVES, lambda_l=0.7, novelty=average, latent_dim=3, k=2)
    rollout = make_rollout(PLANE, steps=4, envs=2, dummies=True)
    x = rollout.obs[:-1].double().numpy()
    encoder, decoder = bonus.vae.encoder, bonus.vae.decoder
    mean = layers([*encoder.trunk, encoder.heads], x)[..., :3]
    error = 0.5 * (x - layers(decoder, mean)) ** 2
    expected = 0.7 * (error.mean(-1) if average == "mean" else error.sum(-1)) * rollout.valid.numpy()
    np.testing.assert_allclose(bonus.compute_terms(rollout)[0]["local"], expected, rtol=1e-4)


def test_mmrs_trains_on_the_negative_elbo():
    bonus = mmrs.make("mmrs", PLANE, MOVES, latent_dim=3, batch_size=64)
    rollout = make_rollout(PLANE, steps=4, envs=2, end=0.0)
    twin = torch.Generator()
    twin.set_state(bonus.generator.get_state())
    x = rollout.states[torch.randperm(10, generator=twin)]
    noise = torch.randn(10, 3, generator=twin)
    mean, log_variance = bonus.vae.encode(x)
    drawn = bonus.vae.decode(mean + (0.5 * log_variance).exp() * noise)
    loss = vae_loss(x, drawn, mean, log_variance, 0.01).mean()
    gradient = torch.autograd.grad(loss, bonus.vae.encoder.heads.bias)[0]
    before = bonus.vae.encoder.heads.bias.detach().clone()
    metrics = bonus.update(rollout)
    assert metrics["vae_error"] == pytest.approx((x - drawn).square().mean().item(), rel=1e-5)
    assert metrics["vae_kl"] == pytest.approx(gaussian_kl(mean, log_variance).mean().item(), rel=1e-5)
    moved = before - bonus.vae.encoder.heads.bias.detach()  # the first step of Adam is the rate times the sign
    torch.testing.assert_close(moved, 5e-4 * gradient.sign(), rtol=1e-2, atol=1e-7)


# --- MMRS: Algorithm 1 ------------------------------------------------------------------------------------------------


def algorithm_1(bonus, rollout):
    """G of each step by dictionaries, from labels of the same k-means."""
    config, generator = bonus.config, torch.Generator()
    generator.set_state(bonus.generator.get_state())
    with torch.no_grad():
        z, log_variance = bonus.vae.encode(rollout.states)
        if config.latent == "sample":
            z = z + (0.5 * log_variance).exp() * torch.randn(z.shape, generator=generator)
    histories = []  # states of each environment in visiting order
    for e in range(rollout.num_envs):
        row = []
        for _, before, after, starts, _ in visits(rollout, e):
            row += [before, after] if starts else [after]
        histories.append(row)
    if config.clustering == "joint":
        seen = torch.zeros(1, len(z), dtype=torch.bool)
        seen[0, sorted({s for row in histories for s in row})] = True
        labels = kmeans(z.unsqueeze(0), seen, config.k, generator, config.kmeans_iterations)[0]
        label = {e: dict(enumerate(labels.tolist())) for e in range(rollout.num_envs)}
    else:
        length = max(map(len, histories))
        mask = torch.tensor([[i < len(row) for i in range(length)] for row in histories])
        index = torch.tensor([row + [0] * (length - len(row)) for row in histories])
        labels = kmeans(z[index], mask, config.k, generator, config.kmeans_iterations).tolist()
        label = {e: dict(zip(row, labels[e], strict=False)) for e, row in enumerate(histories)}
    gains = np.zeros(rollout.valid.shape)
    for e in range(rollout.num_envs):
        counts = Counter()
        for t, before, after, starts, _ in visits(rollout, e):
            if starts:
                counts = Counter() if config.count_scope == "episode" else counts
                counts[label[e][before]] += 1
            j = fairness(counts, config.k)
            counts[label[e][after]] += 1
            gains[t, e] = config.gamma_g * fairness(counts, config.k) - j
    return gains


def standardized(gains, valid, past):
    """Centered and divided by the running std; the weight of a step falls by 1 - 1/12800 per later step."""
    past = [*past, (gains, valid)]
    rows = [(g[t][v[t]], v[t].sum()) for g, v in past for t in range(len(g))]
    weights = [(1 - 1 / 12_800) ** (len(rows) - 1 - i) for i in range(len(rows))]
    n = sum(w * count for w, (_, count) in zip(weights, rows, strict=True))
    mean = sum(w * row.sum() for w, (row, _) in zip(weights, rows, strict=True)) / n
    square = sum(w * (row**2).sum() for w, (row, _) in zip(weights, rows, strict=True)) / n
    return (gains - mean) / math.sqrt(square - mean**2) * valid, past


@pytest.mark.parametrize("count_scope", ["rollout", "episode"])
@pytest.mark.parametrize("preset", ["default", "paper", "paper-bullet"])
def test_mmrs_is_algorithm_1_by_hand(preset, count_scope):
    options = {} if preset != "default" else {"k": 12}
    bonus = mmrs.make("mmrs", PLANE, MOVES, preset=preset, count_scope=count_scope, **options)
    memory, past = None, []
    for seed in range(3):
        rollout = make_rollout(PLANE, steps=20, envs=3, seed=seed, end=0.1, dummies=True)
        terms, memory = bonus.compute_terms(rollout, memory)
        gains, valid = algorithm_1(bonus, rollout), rollout.valid.numpy()
        if preset == "default":
            gains, past = standardized(gains, valid, past)
        np.testing.assert_allclose(terms["global"], bonus.config.lambda_g * gains, rtol=1e-4, atol=1e-6)
        bonus.update(rollout)


def test_mmrs_presets_have_the_values_of_the_paper():
    paper, bullet = mmrs.rewards.PRESETS["paper"], mmrs.rewards.PRESETS["paper-bullet"]
    assert (paper.k, paper.clustering, paper.gamma_g, paper.lambda_g, paper.lambda_l) == (10, "env", 0.99, 0.1, 0.1)
    assert (paper.novelty, paper.decoder_variance, paper.batch_size) == ("sum", 1.0, 64)
    assert (bullet.lambda_g, bullet.lambda_l) == (0.01, 0.001)
    default = mmrs.rewards.PRESETS["default"]
    assert (default.k, default.clustering, default.gamma_g, default.lambda_g) == (128, "joint", 1.0, 0.03)
    assert (default.decoder_variance, default.count_scope, default.latent) == (0.01, "rollout", "mean")


# --- learning rate and wrappers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mmrs", "ride", "rnd"])
def test_the_learning_rate_falls_linearly_to_0(name):
    bonus = mmrs.make(name, PLANE, MOVES, total_updates=4, learning_rate=0.1, latent_dim=2)
    rates = []
    for _ in range(6):
        bonus.update(make_rollout(PLANE, steps=2, envs=1))
        rates.append(bonus.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025, 0.0, 0.0])


@pytest.mark.parametrize("by", ["reward", "return"])
@pytest.mark.parametrize("center", [False, True])
def test_scaled_divides_by_the_running_std(by, center):
    inner = mmrs.make("rnd", PLANE, MOVES, latent_dim=2)
    scaled = mmrs.Scaled(inner, by=by, center=center, gamma=0.9, horizon=100)
    rollout = make_rollout(PLANE, steps=6, envs=3)
    bonus, reward = inner.compute(rollout)[0].double().numpy(), scaled.compute(rollout)[0].numpy()
    trace, samples = np.zeros(3), []
    for t in range(6):
        trace = 0.9 * trace + bonus[t]
        samples.append(trace if by == "return" else bonus[t])
        weights = (1 - 1 / 100) ** np.arange(t, -1, -1.0)[:, None]
        n = 3 * weights.sum()
        mean = (weights * samples).sum() / n
        variance = (weights * np.square(samples)).sum() / n - mean**2
        std = math.sqrt(variance + 128 / (128 + n) * mean**2)  # prior pseudo-count of 128
        shift = (weights * bonus[: t + 1]).sum() / n if center else 0.0
        np.testing.assert_allclose(reward[t], (bonus[t] - shift) / std, rtol=1e-4)


def test_scaled_does_not_explode_in_the_first_steps():
    """The std of a few near-equal samples is close to 0."""

    class NearConstant(mmrs.IntrinsicReward):
        causal = True

        def score(self, rollout, memory):
            wobble = torch.arange(rollout.num_steps * rollout.num_envs).view(rollout.num_steps, -1) % 7
            return {"near": 1.0 + 1e-4 * wobble.double()}, memory

    for by in ("reward", "return"):
        reward, _ = mmrs.Scaled(NearConstant(PLANE, MOVES), by=by).compute(make_rollout(PLANE, steps=30, envs=8))
        assert float(reward[0].abs().max()) < 2.0
        assert float(reward.abs().max()) < 5.0


def test_weighted_changes_its_weight_per_update_and_sum_adds():
    inner = mmrs.make("jfi", OBSERVATIONS["discrete"], MOVES)
    rollout = make_rollout(OBSERVATIONS["discrete"])
    fading = mmrs.Weighted(inner, 1.0, final_weight=0.0, over_updates=4)
    bare = inner.compute(rollout)[0]
    for expected in (1.0, 0.75, 0.5, 0.25, 0.0, 0.0):
        torch.testing.assert_close(fading.compute(rollout)[0], expected * bare)
        fading.update(rollout)
    both = mmrs.Sum({"a": inner, "b": mmrs.Weighted(inner, 3.0)})
    torch.testing.assert_close(both.compute(rollout)[0], 4 * bare)
    assert set(both.compute_terms(rollout)[0]) == {"a/global", "b/global"}
