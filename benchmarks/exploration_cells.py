"""What is compared in `benchmarks.exploration`: worlds, methods, and one change at a time."""

from dataclasses import dataclass, replace

from mmrs.ppo.advantages import MixingConfig
from mmrs.runs.config import TrainConfig
from mmrs.runs.presets import default_config

KEY, MULTI, TV = "mmrs/KeyRooms-v0", "mmrs/MultiRooms-v0", "mmrs/NoisyTV-v0"
GRIDS = ("minigrid/DoorKey-8x8", "minigrid/MultiRoom-N4")
SEEDS = range(1000, 1020)
"""None of them was used to choose anything."""
GRID_SEEDS, GRID_TUNING_SEEDS = range(2000, 2005), range(100, 101)
GRID_STEPS, GRID_TUNING_STEPS = 204_800, 102_400
WEIGHTS = (0.003, 0.01, 0.03)


@dataclass(frozen=True)
class Cell:
    """A method on a world."""

    study: str
    env: str
    name: str
    bonus: str
    options: tuple[str, ...] = ()
    centre: bool = True
    two_heads: bool = False
    weight: float | None = None
    steps: int | None = None

    def config(self, seed: int) -> TrainConfig:
        """The run of a seed."""
        preset = "rooms" if self.env in GRIDS else None
        config = default_config(self.env, self.bonus, preset)
        bonus = replace(config.bonus, options=(*config.bonus.options, *self.options))
        if not self.centre:
            bonus = replace(bonus, centre=False)
        if self.weight is not None:
            if self.bonus == "mmrs":
                bonus = replace(bonus, options=(*bonus.options, f"lambda_g={self.weight}"))
            else:
                bonus = replace(bonus, weight=self.weight)
        config = replace(config, bonus=bonus, seed=seed, steps=self.steps or config.steps, device="cpu")
        if self.two_heads:
            config = replace(config, mixing=MixingConfig(mode="two_heads", intrinsic_episodic=False))
        return config


def main_cells() -> list[Cell]:
    """Every method with its defaults on the two worlds."""
    cells = []
    for env in (KEY, MULTI):
        landmarks = ("life=none",) if env == MULTI else ()
        cells += [
            Cell("main", env, "mmrs", "mmrs"),
            Cell("main", env, "landmarks", "landmarks", landmarks),
            Cell("main", env, "ppo", "none"),
            Cell("main", env, "rnd", "rnd"),
            Cell("main", env, "re3", "re3"),
            Cell("main", env, "ride", "ride"),
            Cell("main", env, "mmrs as written", "mmrs", ("preset=paper",)),
        ]
    return cells


def noise_cells() -> list[Cell]:
    """NoisyTV before and after the remedy."""
    return [
        Cell("noise", TV, "landmarks", "landmarks"),
        Cell("noise", TV, "landmarks, scale none", "landmarks", ("scale=none",)),
        Cell("noise", TV, "landmarks, scale none, inverse", "landmarks", ("scale=none", "encoder=inverse")),
        Cell("noise", TV, "landmarks, scale none, admit elsewhere", "landmarks", ("scale=none", "admit=elsewhere")),
        Cell("noise", TV, "mmrs", "mmrs"),
        Cell("noise", TV, "mmrs, control", "mmrs", ("control=True",)),
        Cell("noise", TV, "rnd", "rnd"),
        Cell("noise", TV, "ppo", "none"),
    ]


def ablation_cells(env: str) -> list[Cell]:
    """One change at a time; the unchanged methods are in the main study."""
    base = ("life=none",) if env == MULTI else ()

    def landmarks(name: str, *options: str, **changes: bool) -> Cell:
        kept = tuple(o for o in base if o.split("=")[0] not in {p.split("=")[0] for p in options})
        return Cell("ablation", env, f"landmarks, {name}", "landmarks", (*kept, *options), **changes)

    def mmrs(name: str, *options: str, **changes: bool) -> Cell:
        return Cell("ablation", env, f"mmrs, {name}", "mmrs", options, **changes)

    few = [
        mmrs("k = 10", "k=10"),
        mmrs("k = 512", "k=512"),
        landmarks("K = 10", "k=10"),
        landmarks("K = 512", "k=512"),
        landmarks("clipped", "pay=clipped"),
        landmarks("1/sqrt(n)", "pay=count"),
        landmarks("first visit", "pay=first"),
        landmarks("life-long weight", "life=share") if env == MULTI else landmarks("no life-long weight", "life=none"),
        Cell("ablation", env, "rnd, not centred", "rnd", centre=False),
        Cell("ablation", env, "rnd, two heads", "rnd", centre=False, two_heads=True),
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
        landmarks("scale none", "scale=none"),
        landmarks("first visit, life-long 1/sqrt(n)", "pay=first", "life=count"),
        landmarks("life-long 1/sqrt(n) alone", "pay=visit", "life=count"),
        landmarks("not centred", centre=False),
        landmarks("1/sqrt(n), not centred", "pay=count", centre=False),
        landmarks("two heads", centre=False, two_heads=True),
        mmrs("neither centred nor scaled", "scale_global=False"),
        mmrs("two heads", two_heads=True),
        Cell("ablation", env, "re3, not centred", "re3", centre=False),
        Cell("ablation", env, "re3, weight 0.01, not centred", "re3", centre=False, weight=0.01),
    ]


METHODS = {"mmrs": (), "landmarks": ("life=none",), "rnd": (), "re3": (), "ride": ()}


def grid_tuning_cells() -> list[Cell]:
    """Three weights a method, on seeds of their own."""
    return [
        Cell("tuning", env, f"{method}, weight {weight}", method, options, weight=weight, steps=GRID_TUNING_STEPS)
        for env in GRIDS
        for method, options in METHODS.items()
        for weight in WEIGHTS
    ]


def grid_cells(chosen: dict[tuple[str, str], float]) -> list[Cell]:
    """MiniGrid at the weights that tuning chose."""
    cells = [Cell("minigrid", env, "ppo", "none", steps=GRID_STEPS) for env in GRIDS]
    for (env, method), weight in chosen.items():
        cells.append(Cell("minigrid", env, method, method, METHODS[method], weight=weight, steps=GRID_STEPS))
    return cells
