"""The paper's tables as data: its own counts where they hold, the corrected ones where they do not."""

import pytest

from mmrs.report import reference_scores as paper
from mmrs.report import reference_scores as published


def test_both_tables_are_whole():
    assert len(paper.ATARI) == 20
    assert len(paper.BULLET) == 6
    for table in (paper.ATARI, paper.BULLET):
        assert all(tuple(row) == paper.METHODS for row in table.values())
    # Sums of the printed digits, added up apart from this file: a slip of one digit changes them.
    sums = {m: round(sum(row[m].mean for row in paper.ATARI.values())) for m in paper.METHODS}
    assert sums == {"ppo": 125580, "re3": 147730, "ride": 151760, "rnd": 109340, "mmrs": 179980}
    sums = {m: round(sum(row[m].mean for row in paper.BULLET.values())) for m in paper.METHODS}
    assert sums == {"ppo": 9290, "re3": 11200, "ride": 10610, "rnd": 10400, "mmrs": 11870}


@pytest.mark.parametrize(("claim", "counted"), [*zip(paper.CLAIMS, (16, 3, 1, 15, 16, 13, 5), strict=True)])
def test_counts_of_the_text(claim, counted):
    assert claim.count() == counted
    assert claim.holds == (claim.said == counted)


def test_misprints_are_put_right_and_said():
    for game, method in paper.MISSING_K:
        score = paper.paper_score(game, method)
        assert score.mean > 1000 > float(score.printed.split("±")[0])
        assert "without its k" in score.note

    assert paper.paper_score("ALE/KungFuMaster-v5", "ppo").mean == 38960
    assert paper.paper_score("ALE/DemonAttack-v5", "rnd").std > paper.paper_score("ALE/DemonAttack-v5", "rnd").mean


def test_bold_is_the_best_but_for_one_tie():
    odd = {
        (game, method)
        for table in (paper.ATARI, paper.BULLET)
        for game, row in table.items()
        for method, score in row.items()
        if score.bold != (method in paper.best(row))
    }
    assert odd == {("InvertedPendulum", m) for m in ("ppo", "re3", "ride", "rnd")}


def test_environments_find_their_rows():
    assert paper.game_name("ALE/Alien-v5") == "Alien"
    assert paper.game_name("BreakoutNoFrameskip-v4") == "Breakout"
    assert paper.game_name("Walker2DBulletEnv-v0") == "Walker2D"
    assert paper.game_name("CartPole-v1") == "CartPole-v1"
    assert paper.paper_score("CartPole-v1", "mmrs") is None
    assert paper.paper_score("ALE/Alien-v5", "mmrs-paper") == paper.paper_score("ALE/Alien-v5", "mmrs")
    assert paper.paper_score("HopperBulletEnv-v0", "mmrs").mean == 2460
    assert published.published_ppo("ALE/Alien-v5")["cleanrl"] == "1736±69"
    assert "cleanrl" not in published.published_ppo("ALE/AirRaid-v5")
    assert published.published_ppo("CartPole-v1") == {}


def test_published_scores_name_their_sources_and_known_games():
    assert {source for row in published.PPO.values() for source in row} <= published.SOURCES.keys()
    assert published.PPO.keys() <= paper.ATARI.keys() | paper.BULLET.keys()
    assert paper.ATARI.keys() - published.RANDOM_HUMAN.keys() == {"AirRaid"}
    assert all(low < high for low, high in published.RANDOM_HUMAN.values())
