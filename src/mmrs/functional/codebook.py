"""Codebook of landmarks that lasts for a whole run: nearest landmark, streaming k-center insertion, and merging."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mmrs.functional.neighbors import squared_distances

ROUNDING_TOL = 1e-9
"""Squared distance, relative to the mean squared length, below which two embeddings differ by rounding alone."""


@dataclass(frozen=True)
class CodebookUpdate:
    """What `insert_landmarks` changes in a codebook of K slots."""

    source: Tensor
    """``[K]`` index of the candidate that a slot now holds; -1 where it keeps its landmark."""
    merged_into: Tensor
    """``[K]`` slot to which the counts of a slot belong from now on: itself, or the one it was merged into."""
    used: Tensor
    """``[K]`` bool: slots that hold a landmark."""
    merges: int
    """Number of merges."""


def nearest_landmark(x: Tensor, centers: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
    """Slot of the nearest landmark and the squared distance to it, each ``[S]``; (0, inf) from an empty codebook.

    Args:
        x: ``[S, d]`` embeddings.
        centers: ``[K, d]`` embedded landmarks.
        used: ``[K]`` bool; the other slots are free.
    """
    origin = (centers * used.unsqueeze(1)).sum(0) / used.sum().clamp_min(1)
    x, centers = x - origin, centers - origin
    sq_lengths = centers.square().sum(-1).masked_fill(~used, torch.inf)
    label = torch.addmm(sq_lengths, x, centers.T, alpha=-2.0).argmin(1)
    # The product picks the landmark. Its distance is taken directly, so that a landmark met again is at exactly 0.
    sq_dist = (x - centers[label]).square().sum(-1)
    return label, torch.where(used.any(), sq_dist, torch.inf)


def confirmed_states(x: Tensor, mask: Tensor, env: Tensor, time: Tensor, radius: Tensor, *, multi_env: bool) -> Tensor:
    """``[S]`` bool: candidates that have another candidate nearby.

    The other one must come from another environment or (unless `multi_env`) from a time that differs by more than a
    step.

    Args:
        x: ``[S, d]`` embeddings.
        mask: ``[S]`` bool mask of candidates; the others are ignored.
        env: ``[S]`` index of the environment.
        time: ``[S]`` step.
        radius: squared distance within which two candidates are the same.
        multi_env: whether only another environment counts.
    """
    x = x - (x * mask.unsqueeze(1)).sum(0) / mask.sum().clamp_min(1)
    independent = env.unsqueeze(1) != env
    if not multi_env:
        independent |= (time.unsqueeze(1) - time).abs() > 1
    near = squared_distances(x, x) <= radius
    return mask & (near & independent & mask).any(1)


def insert_landmarks(
    x: Tensor,
    mask: Tensor,
    centers: Tensor,
    used: Tensor,
    visit_count: Tensor,
    *,
    max_merges: int,
    insert_ratio: float,
    min_sq_dist: float = 0.0,
) -> CodebookUpdate:
    """Merge landmarks that are too near, then insert candidates, each time the one farthest from the codebook.

    A candidate takes a free slot. If there is none, the two nearest landmarks are merged, but only where the squared
    distance of the candidate exceeds `insert_ratio` times theirs. Of the two, the one with more visits stays.

    Args:
        x: ``[S, d]`` embeddings of candidates.
        mask: ``[S]`` bool mask of candidates; the others are never inserted.
        centers: ``[K, d]`` embedded landmarks.
        used: ``[K]`` bool: slots that hold a landmark.
        visit_count: ``[K]`` visits of each landmark.
        max_merges: largest number of merges.
        insert_ratio: how many times the squared distance of the closest pair a candidate must be away.
        min_sq_dist: squared distance up to which two states are the same, rounding aside.
    """
    codebook = _Codebook(x, mask, centers, used, visit_count)
    tol = max(min_sq_dist, ROUNDING_TOL * codebook.mean_sq_length)
    while codebook.merges < max_merges and codebook.closest_pair() <= tol:
        codebook.merge()
    while (farthest := float(codebook.sq_dist.max())) > tol:
        candidate = int(codebook.sq_dist.argmax())
        if not codebook.free:
            if codebook.merges == max_merges or farthest <= insert_ratio * codebook.closest_pair():
                break
            codebook.merge()
        codebook.insert(candidate)
    return CodebookUpdate(codebook.source, codebook.merged_into, codebook.used, codebook.merges)


class _Codebook:
    """The codebook while it changes; works on copies."""

    def __init__(self, x: Tensor, mask: Tensor, centers: Tensor, used: Tensor, visit_count: Tensor) -> None:
        candidates = mask.sum().clamp_min(1)
        origin = (x * mask.unsqueeze(1)).sum(0) / candidates
        self.x, self.centers = x - origin, centers - origin
        self.mask, self.used, self.visit_count, self.merges = mask, used.clone(), visit_count.clone(), 0
        self.mean_sq_length = float((self.x.square().sum(-1) * mask).sum() / candidates)
        self.merged_into = torch.arange(len(centers), device=x.device)
        self.source = torch.full_like(self.merged_into, -1)
        self.free = (~used).nonzero().squeeze(1).tolist()[::-1]
        self.label, sq_dist = nearest_landmark(self.x, self.centers, used)
        self.sq_dist = torch.where(mask, sq_dist, 0.0)
        """Squared distance of each candidate to its nearest landmark."""
        self.pairs = squared_distances(self.centers, self.centers).fill_diagonal_(torch.inf)
        """Squared distances of the landmarks, computed once and then row by row; inf at free slots."""
        self.pairs.masked_fill_(~used, torch.inf).masked_fill_(~used.unsqueeze(1), torch.inf)

    def closest_pair(self) -> float:
        """Squared distance of the two nearest landmarks; inf if there are fewer."""
        return float(self.pairs.min())

    def insert(self, candidate: int) -> None:
        """Insert a candidate into a free slot."""
        slot = self.free.pop()
        self.centers[slot], self.source[slot], self.used[slot] = self.x[candidate], candidate, True
        sq_dist = torch.where(self.mask, (self.x - self.x[candidate]).square().sum(-1), 0.0)
        closer = sq_dist < self.sq_dist
        self.label = torch.where(closer, slot, self.label)
        self.sq_dist = torch.where(closer, sq_dist, self.sq_dist)
        row = (self.centers - self.centers[slot]).square().sum(-1).masked_fill(~self.used, torch.inf)
        row[slot] = torch.inf
        self.pairs[slot], self.pairs[:, slot] = row, row

    def merge(self) -> None:
        """Merge the two nearest landmarks, which frees a slot."""
        first, second = divmod(int(self.pairs.argmin()), len(self.centers))
        keep, drop = (first, second) if self.visit_count[first] >= self.visit_count[second] else (second, first)
        self.visit_count[keep] += self.visit_count[drop]
        self.visit_count[drop], self.used[drop], self.source[drop] = 0, False, -1
        self.merged_into[self.merged_into == drop] = keep
        self.pairs[drop], self.pairs[:, drop] = torch.inf, torch.inf
        self.free.append(drop)
        self.merges += 1
        orphans = (self.label == drop).nonzero().squeeze(1)
        self.label[orphans], sq_dist = nearest_landmark(self.x[orphans], self.centers, self.used)
        self.sq_dist[orphans] = torch.where(self.mask[orphans], sq_dist, 0.0)
