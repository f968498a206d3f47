"""What is compared in `benchmarks.exploration`: worlds, methods, and one change at a time."""

from dataclasses import dataclass, replace

from mmrs.ppo.advantages import MixingConfig
from mmrs.runs.config import TrainConfig
from mmrs.runs.presets import default_config

KEY, MULTI, TV = "mmrs/KeyRooms-v0", "mmrs/MultiRooms-v0", "mmrs/NoisyTV-v0"
GRIDS = ("minigrid/DoorKey-8x8", "minigrid/MultiRoom-N4")
SEEDS = range(1000, 1020)
"""None of these seeds was used to choose anything."""
GRID_SEEDS, GRID_TUNING_SEEDS = range(2000, 2005), range(100, 101)
GRID_STEPS, GRID_TUNING_STEPS = 204_800, 102_400
WEIGHTS = (0.003, 0.01, 0.03)


@dataclass(frozen=True)
class Variant:
    """A method on a world, with the changes of its study."""

    study: str
    env: str
    name: str
    bonus: str
    options: tuple[str, ...] = ()
    center: bool = True
    two_heads: bool = False
    weight: float | None = None
    steps: int | None = None

    def config(self, seed: int) -> TrainConfig:
        """The configuration of the run with a seed."""
        preset = "rooms" if self.env in GRIDS else None
        config = default_config(self.env, self.bonus, preset)
        bonus = replace(config.bonus, options=(*config.bonus.options, *self.options))
        if not self.center:
            bonus = replace(bonus, center=False)
        if self.weight is not None:
            if self.bonus == "mmrs":
                bonus = replace(bonus, options=(*bonus.options, f"lambda_g={self.weight}"))
            else:
                bonus = replace(bonus, weight=self.weight)
        config = replace(config, bonus=bonus, seed=seed, steps=self.steps or config.steps, device="cpu")
        if self.two_heads:
            config = replace(config, mixing=MixingConfig(mode="two_heads", intrinsic_episodic=False))
        return config


def main_variants() -> list[Variant]:
    """Every method with its defaults on the two worlds."""
    variants = []
    for env in (KEY, MULTI):
        landmarks = ("lifelong_weight=none",) if env == MULTI else ()
        variants += [
            Variant("main", env, "mmrs", "mmrs"),
            Variant("main", env, "landmarks", "landmarks", landmarks),
            Variant("main", env, "ppo", "none"),
            Variant("main", env, "rnd", "rnd"),
            Variant("main", env, "re3", "re3"),
            Variant("main", env, "ride", "ride"),
            Variant("main", env, "mmrs as written", "mmrs", ("preset=paper",)),
        ]
    return variants


def noise_variants() -> list[Variant]:
    """NoisyTV without and with the options against noise."""
    return [
        Variant("noise", TV, "landmarks", "landmarks"),
        Variant("noise", TV, "landmarks, scale none", "landmarks", ("input_scale=none",)),
        Variant("noise", TV, "landmarks, scale none, inverse", "landmarks", ("input_scale=none", "encoder=inverse")),
        Variant(
            "noise",
            TV,
            "landmarks, scale none, admit elsewhere",
            "landmarks",
            ("input_scale=none", "insert_filter=multi_env"),
        ),
        Variant("noise", TV, "mmrs", "mmrs"),
        Variant("noise", TV, "mmrs, control", "mmrs", ("mask_uncontrollable=True",)),
        Variant("noise", TV, "rnd", "rnd"),
        Variant("noise", TV, "ppo", "none"),
    ]


def ablation_variants(env: str) -> list[Variant]:
    """One change at a time; the unchanged methods are in the main study."""
    base = ("lifelong_weight=none",) if env == MULTI else ()

    def landmarks(name: str, *options: str, **changes: bool) -> Variant:
        kept = tuple(o for o in base if o.split("=")[0] not in {p.split("=")[0] for p in options})
        return Variant("ablation", env, f"landmarks, {name}", "landmarks", (*kept, *options), **changes)

    def mmrs(name: str, *options: str, **changes: bool) -> Variant:
        return Variant("ablation", env, f"mmrs, {name}", "mmrs", options, **changes)

    few = [
        mmrs("k = 10", "k=10"),
        mmrs("k = 512", "k=512"),
        landmarks("K = 10", "k=10"),
        landmarks("K = 512", "k=512"),
        landmarks("clipped", "bonus=clipped"),
        landmarks("1/sqrt(n)", "bonus=count"),
        landmarks("first visit", "bonus=first"),
        landmarks("life-long weight", "lifelong_weight=share")
        if env == MULTI
        else landmarks("no life-long weight", "lifelong_weight=none"),
        Variant("ablation", env, "rnd, not centred", "rnd", center=False),
        Variant("ablation", env, "rnd, two heads", "rnd", center=False, two_heads=True),
    ]
    if env == MULTI:
        return few
    return [
        *few,
        mmrs("k = 32", "k=32"),
        landmarks("K = 32", "k=32"),
        landmarks("K = 128", "k=128"),
        mmrs("decoder variance 1", "decoder_variance=1.0"),
        mmrs("decoder variance 0.1", "decoder_variance=0.1"),
        landmarks("VAE", "encoder=vae"),
        landmarks("VAE, decoder variance 1", "encoder=vae", "decoder_variance=1.0"),
        landmarks("inverse dynamics", "encoder=inverse"),
        landmarks("scale none", "input_scale=none"),
        landmarks("first visit, life-long 1/sqrt(n)", "bonus=first", "lifelong_weight=count"),
        landmarks("life-long 1/sqrt(n) alone", "bonus=visit", "lifelong_weight=count"),
        landmarks("not centred", center=False),
        landmarks("1/sqrt(n), not centred", "bonus=count", center=False),
        landmarks("two heads", center=False, two_heads=True),
        mmrs("neither centred nor scaled", "scale_global=False"),
        mmrs("two heads", two_heads=True),
        Variant("ablation", env, "re3, not centred", "re3", center=False),
        Variant("ablation", env, "re3, weight 0.01, not centred", "re3", center=False, weight=0.01),
    ]


METHODS = {"mmrs": (), "landmarks": ("lifelong_weight=none",), "rnd": (), "re3": (), "ride": ()}


def grid_tuning_variants() -> list[Variant]:
    """Three weights per method, on seeds that no other study uses."""
    return [
        Variant("tuning", env, f"{method}, weight {weight}", method, options, weight=weight, steps=GRID_TUNING_STEPS)
        for env in GRIDS
        for method, options in METHODS.items()
        for weight in WEIGHTS
    ]


def grid_variants(chosen: dict[tuple[str, str], float]) -> list[Variant]:
    """MiniGrid at the weights that tuning chose."""
    variants = [Variant("minigrid", env, "ppo", "none", steps=GRID_STEPS) for env in GRIDS]
    for (env, method), weight in chosen.items():
        variants.append(Variant("minigrid", env, method, method, METHODS[method], weight=weight, steps=GRID_STEPS))
    return variants
