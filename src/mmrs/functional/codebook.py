"""A code book of landmarks for life: nearest landmark, and streaming k-centre admission and merging."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mmrs.functional.neighbors import squared_distances

SAME = 1e-9
"""Squared distance, as a share of the mean squared length, below which two embeddings differ by rounding alone."""


@dataclass(frozen=True)
class Moves:
    """What an update does to a book of K places."""

    source: Tensor
    """``[K]`` candidate that a place now holds; -1 where it keeps its landmark."""
    into: Tensor
    """``[K]`` place that what was counted at a place belongs to from now on: its own, or that it was merged into."""
    taken: Tensor
    """``[K]`` bool: places that hold a landmark."""
    merges: int


def nearest(x: Tensor, centres: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
    """Place of the nearest landmark and the squared distance to it, each ``[S]``; (0, inf) from an empty book.

    Args:
        x: ``[S, d]`` embeddings.
        centres: ``[K, d]`` embedded landmarks.
        taken: ``[K]`` bool; other places are free.
    """
    anchor = (centres * taken.unsqueeze(1)).sum(0) / taken.sum().clamp_min(1)
    x, centres = x - anchor, centres - anchor
    lengths = centres.square().sum(-1).masked_fill(~taken, torch.inf)
    label = torch.addmm(lengths, x, centres.T, alpha=-2.0).argmin(1)
    # The product picks the landmark; its distance is taken directly, so that a landmark met again is at exactly 0.
    distance = (x - centres[label]).square().sum(-1)
    return label, torch.where(taken.any(), distance, torch.inf)


def seen_twice(x: Tensor, allowed: Tensor, env: Tensor, time: Tensor, radius: Tensor, *, elsewhere: bool) -> Tensor:
    """``[S]`` bool: candidates that another candidate lies near: one of another environment, or (unless `elsewhere`) of
    another time than the step before or after.

    Args:
        x: ``[S, d]``.
        allowed: ``[S]`` bool; others bear no witness.
        env: ``[S]`` number of the environment.
        time: ``[S]`` step.
        radius: squared distance within which two candidates are the same.
        elsewhere: whether only another environment counts.
    """
    x = x - (x * allowed.unsqueeze(1)).sum(0) / allowed.sum().clamp_min(1)
    witness = env.unsqueeze(1) != env
    if not elsewhere:
        witness |= (time.unsqueeze(1) - time).abs() > 1
    near = squared_distances(x, x) <= radius
    return allowed & (near & witness & allowed).any(1)


def admit(
    x: Tensor,
    allowed: Tensor,
    centres: Tensor,
    taken: Tensor,
    mass: Tensor,
    *,
    most_merges: int,
    ratio: float,
    apart: float = 0.0,
) -> Moves:
    """Merge landmarks that are too near, then let the worst-covered candidates in.

    A candidate takes a free place, or else one freed by merging the two nearest landmarks, but only where it is farther
    (squared, by `ratio`) from the book than they are from one another. Of two the one with the greater mass stays.

    Args:
        x: ``[S, d]`` candidates.
        allowed: ``[S]`` bool; others are never admitted.
        centres: ``[K, d]`` embedded landmarks.
        taken: ``[K]`` bool: places that hold one.
        mass: ``[K]`` visits of each landmark.
        most_merges: bound of the merges.
        ratio: how much farther than the closest pair a candidate must be.
        apart: squared distance below which two states are the same, rounding aside.
    """
    book = _Book(x, allowed, centres, taken, mass)
    same = max(apart, SAME * book.size)
    while book.merges < most_merges and book.closest() <= same:
        book.merge()
    while (worst := float(book.distance.max())) > same:
        candidate = int(book.distance.argmax())
        if not book.free:
            if book.merges == most_merges or worst <= ratio * book.closest():
                break
            book.merge()
        book.place(candidate)
    return Moves(book.source, book.into, book.taken, book.merges)


class _Book:
    """The book while it changes; works on copies."""

    def __init__(self, x: Tensor, allowed: Tensor, centres: Tensor, taken: Tensor, mass: Tensor) -> None:
        candidates = allowed.sum().clamp_min(1)
        anchor = (x * allowed.unsqueeze(1)).sum(0) / candidates
        self.x, self.centres = x - anchor, centres - anchor
        self.allowed, self.taken, self.mass, self.merges = allowed, taken.clone(), mass.clone(), 0
        self.size = float((self.x.square().sum(-1) * allowed).sum() / candidates)
        """Mean squared length of the candidates."""
        self.into = torch.arange(len(centres), device=x.device)
        self.source = torch.full_like(self.into, -1)
        self.free = (~taken).nonzero().squeeze(1).tolist()[::-1]
        self.label, distance = nearest(self.x, self.centres, taken)
        self.distance = torch.where(allowed, distance, 0.0)
        self.between = squared_distances(self.centres, self.centres).fill_diagonal_(torch.inf)
        """Squared distances of the landmarks, worked out once and then row by row; inf at free places."""
        self.between.masked_fill_(~taken, torch.inf).masked_fill_(~taken.unsqueeze(1), torch.inf)

    def closest(self) -> float:
        """Squared distance of the two nearest landmarks; inf if there are fewer."""
        return float(self.between.min())

    def place(self, candidate: int) -> None:
        """Let a candidate into a free place."""
        place = self.free.pop()
        self.centres[place], self.source[place], self.taken[place] = self.x[candidate], candidate, True
        distance = torch.where(self.allowed, (self.x - self.x[candidate]).square().sum(-1), 0.0)
        closer = distance < self.distance
        self.label = torch.where(closer, place, self.label)
        self.distance = torch.where(closer, distance, self.distance)
        row = (self.centres - self.centres[place]).square().sum(-1).masked_fill(~self.taken, torch.inf)
        row[place] = torch.inf
        self.between[place], self.between[:, place] = row, row

    def merge(self) -> None:
        """Merge the two nearest landmarks, and so free a place."""
        first, second = divmod(int(self.between.argmin()), len(self.centres))
        keep, leave = (first, second) if self.mass[first] >= self.mass[second] else (second, first)
        self.mass[keep] += self.mass[leave]
        self.mass[leave], self.taken[leave], self.source[leave] = 0, False, -1
        self.into[self.into == leave] = keep
        self.between[leave], self.between[:, leave] = torch.inf, torch.inf
        self.free.append(leave)
        self.merges += 1
        orphans = (self.label == leave).nonzero().squeeze(1)
        self.label[orphans], distance = nearest(self.x[orphans], self.centres, self.taken)
        self.distance[orphans] = torch.where(self.allowed[orphans], distance, 0.0)
