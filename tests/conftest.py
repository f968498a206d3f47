"""Settings of the whole suite: deterministic hypothesis, one torch thread a worker."""

import torch
from hypothesis import HealthCheck, settings

# Network rewards take milliseconds an example and share two cores, so a deadline would only measure the machine.
settings.register_profile(
    "mmrs", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("mmrs")
torch.set_num_threads(1)
