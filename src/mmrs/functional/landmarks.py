"""A code book of landmarks for life: nearest landmark, and streaming k-centre admission and merging."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mmrs.functional.neighbours import squared_distances

SAME = 1e-9
"""Squared distance, as a share of the mean squared length, below which two embeddings differ by rounding alone."""


@dataclass(frozen=True)
class Moves:
    """What an admission does to a book of K places."""

    source: Tensor
    """``[K]`` candidate that a place now holds; -1 where it keeps its landmark."""
    into: Tensor
    """``[K]`` place that what was counted at a place belongs to from now on: its own, or that it was merged into."""
    held: int
    """Landmarks there are now; they fill the places from 0."""
    merges: int


def nearest(x: Tensor, centres: Tensor, held: int) -> tuple[Tensor, Tensor]:
    """Place of the nearest landmark and the squared distance to it, each ``[S]``; (0, inf) from an empty book.

    Args:
        x: ``[S, d]`` embeddings.
        centres: ``[K, d]`` embedded landmarks; zeros at free places.
        held: how many places are taken.
    """
    anchor = centres.sum(0) / max(held, 1)
    x, centres = x - anchor, centres - anchor
    free = torch.arange(len(centres), device=x.device) >= held
    lengths = centres.square().sum(-1).masked_fill(free, torch.inf)
    label = torch.addmm(lengths, x, centres.T, alpha=-2.0).argmin(1)
    # The product picks the landmark; its distance is taken directly, so that a landmark met again is at exactly 0.
    distance = (x - centres[label]).square().sum(-1)
    return label, distance if held else torch.full_like(distance, torch.inf)


def closest_pair(centres: Tensor, held: int) -> Tensor:
    """Squared distance of the two nearest landmarks; 0 while places are free, for then nothing need be merged."""
    if held < len(centres) or held < 2:
        return centres.new_zeros(())
    return _apart(centres).min()


def admit(
    x: Tensor, allowed: Tensor, centres: Tensor, mass: Tensor, held: int, *, most_merges: int, ratio: float
) -> Moves:
    """Let the worst-covered candidates into the book, free places first, then by merging the two nearest landmarks.

    A merge happens only while the worst-covered candidate is farther (squared, by `ratio`) from the book than the two
    nearest landmarks from one another. Of these the one with the greater mass stays.

    Args:
        x: ``[S, d]`` candidates.
        allowed: ``[S]`` bool; others are never admitted.
        centres: ``[K, d]`` embedded landmarks.
        mass: ``[K]`` visits of each landmark.
        held: how many places are taken.
        most_merges: bound of the merges.
        ratio: how much farther than the closest pair a candidate must be.
    """
    book = _Book(x, allowed, centres, mass, held)
    merges = 0
    while True:
        candidate = int(book.distance.argmax())
        worst = float(book.distance[candidate])
        if worst <= book.same:
            break
        if book.held < len(centres):
            book.place(book.held, candidate)
            continue
        if merges == most_merges or len(centres) < 2 or worst <= ratio * book.closest():
            break
        book.merge(candidate)
        merges += 1
    return Moves(book.source, book.into, book.held, merges)


class _Book:
    """The book while candidates are let in; works on copies."""

    def __init__(self, x: Tensor, allowed: Tensor, centres: Tensor, mass: Tensor, held: int) -> None:
        candidates = allowed.sum().clamp_min(1)
        anchor = centres.sum(0) / held if held else (x * allowed.unsqueeze(1)).sum(0) / candidates
        self.x, self.centres = x - anchor, centres - anchor
        self.allowed, self.mass, self.held = allowed, mass.clone(), held
        self.into = torch.arange(len(centres), device=x.device)
        self.source = torch.full_like(self.into, -1)
        self.same = SAME * float((self.x.square().sum(-1) * allowed).sum() / candidates)
        self.label, self.distance = nearest(self.x, self.centres, held)
        self.distance = torch.where(allowed, self.distance, 0.0)
        self.between: Tensor | None = None
        """Squared distances of the landmarks, worked out once and then row by row; inf on the diagonal."""

    def place(self, place: int, candidate: int) -> None:
        """Let a candidate into a free place."""
        self.centres[place] = self.x[candidate]
        self.source[place] = candidate
        self.held = max(self.held, place + 1)
        distance = torch.where(self.allowed, (self.x - self.x[candidate]).square().sum(-1), 0.0)
        closer = distance < self.distance
        self.label = torch.where(closer, place, self.label)
        self.distance = torch.where(closer, distance, self.distance)

    def closest(self) -> float:
        """Squared distance of the two nearest landmarks."""
        if self.between is None:
            self.between = _apart(self.centres)
        return float(self.between.min())

    def merge(self, candidate: int) -> None:
        """Free a place by merging the two nearest landmarks, and give it to the candidate."""
        assert self.between is not None, "closest() comes first"
        first, second = divmod(int(self.between.argmin()), len(self.centres))
        keep, leave = (first, second) if self.mass[first] >= self.mass[second] else (second, first)
        self.mass[keep] += self.mass[leave]
        self.mass[leave] = 0
        self.into[self.into == leave] = keep
        self._rehome(leave)
        self.place(leave, candidate)
        row = (self.centres - self.centres[leave]).square().sum(-1)
        row[leave] = torch.inf
        self.between[leave], self.between[:, leave] = row, row

    def _rehome(self, leave: int) -> None:
        """Find another landmark for the candidates whose nearest one leaves."""
        orphans = (self.label == leave).nonzero().squeeze(1)
        if not len(orphans):
            return
        x = self.x[orphans]
        apart = torch.addmm(self.centres.square().sum(-1), x, self.centres.T, alpha=-2.0)
        apart[:, leave] = torch.inf
        label = apart.argmin(1)
        distance = (x - self.centres[label]).square().sum(-1)
        self.label[orphans] = label
        self.distance[orphans] = torch.where(self.allowed[orphans], distance, 0.0)


def _apart(centres: Tensor) -> Tensor:
    """``[K, K]`` squared distances, inf on the diagonal."""
    centred = centres - centres.mean(0)
    return squared_distances(centred, centred).fill_diagonal_(torch.inf)
