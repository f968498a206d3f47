"""The paper's own experiments: gridworld, maze, bounds. Nothing but sweeps, the command line and the demo imports them.

`q_learning` is the learner of Sec. 6.1 for any environment with Discrete spaces and any causal reward.
"""

from mmrs.paper.q_learning import QLearningResult, q_learning

__all__ = ["QLearningResult", "q_learning"]
