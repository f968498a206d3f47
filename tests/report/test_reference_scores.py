"""The paper's tables as data: its own counts where they hold, corrected counts where they do not."""

import pytest

from mmrs.report import reference_scores as reference


def test_both_tables_are_whole():
    assert len(reference.ATARI) == 20
    assert len(reference.BULLET) == 6
    for table in (reference.ATARI, reference.BULLET):
        assert all(tuple(row) == reference.METHODS for row in table.values())
    # Sums of the printed digits, computed separately: a wrong digit changes them.
    sums = {m: round(sum(row[m].mean for row in reference.ATARI.values())) for m in reference.METHODS}
    assert sums == {"ppo": 125580, "re3": 147730, "ride": 151760, "rnd": 109340, "mmrs": 179980}
    sums = {m: round(sum(row[m].mean for row in reference.BULLET.values())) for m in reference.METHODS}
    assert sums == {"ppo": 9290, "re3": 11200, "ride": 10610, "rnd": 10400, "mmrs": 11870}


@pytest.mark.parametrize(("claim", "counted"), [*zip(reference.CLAIMS, (16, 3, 1, 15, 16, 13, 5), strict=True)])
def test_counts_of_the_text(claim, counted):
    assert claim.count() == counted
    assert claim.holds == (claim.claimed == counted)


def test_misprints_are_corrected_and_noted():
    for game, method in reference.MISSING_K:
        score = reference.paper_score(game, method)
        assert score.mean > 1000 > float(score.printed.split("±")[0])
        assert "without its k" in score.note

    assert reference.paper_score("ALE/KungFuMaster-v5", "ppo").mean == 38960
    assert (
        reference.paper_score("ALE/DemonAttack-v5", "rnd").std > reference.paper_score("ALE/DemonAttack-v5", "rnd").mean
    )


def test_bold_is_the_best_but_for_one_tie():
    odd = {
        (game, method)
        for table in (reference.ATARI, reference.BULLET)
        for game, row in table.items()
        for method, score in row.items()
        if score.bold != (method in reference.best(row))
    }
    assert odd == {("InvertedPendulum", m) for m in ("ppo", "re3", "ride", "rnd")}


def test_environments_find_their_rows():
    assert reference.game_name("ALE/Alien-v5") == "Alien"
    assert reference.game_name("BreakoutNoFrameskip-v4") == "Breakout"
    assert reference.game_name("Walker2DBulletEnv-v0") == "Walker2D"
    assert reference.game_name("CartPole-v1") == "CartPole-v1"
    assert reference.game_name("Ant-v5") == "Ant-v5", "MuJoCo's, not Bullet's"
    assert reference.scored_family("AntBulletEnv-v0") == ("bullet", "Ant")
    assert reference.scored_family("Ant-v5") is None
    assert reference.bounds("AntBulletEnv-v0") == (0.0, reference.paper_score("AntBulletEnv-v0", "ppo").mean)
    assert reference.paper_score("CartPole-v1", "mmrs") is None
    assert reference.paper_score("ALE/Alien-v5", "mmrs-paper") == reference.paper_score("ALE/Alien-v5", "mmrs")
    assert reference.paper_score("HopperBulletEnv-v0", "mmrs").mean == 2460
    assert reference.published_ppo("ALE/Alien-v5")["cleanrl"] == "1736±69"
    assert "cleanrl" not in reference.published_ppo("ALE/AirRaid-v5")
    assert reference.published_ppo("CartPole-v1") == {}


def test_published_scores_name_their_sources_and_known_games():
    assert {source for row in reference.PPO.values() for source in row} <= reference.SOURCES.keys()
    assert reference.PPO.keys() <= reference.ATARI.keys() | reference.BULLET.keys()
    assert reference.ATARI.keys() - reference.RANDOM_HUMAN.keys() == {"AirRaid"}
    assert all(low < high for low, high in reference.RANDOM_HUMAN.values())
