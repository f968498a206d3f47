"""Files come whole or not at all."""

from pathlib import Path

import pytest

from mmrs.errors import InputError, MissingExtraError, StorageError
from mmrs.report.rendering import new_figure, save_figure
from mmrs.storage.files import output_folder, write_atomic


def test_output_folder_is_made_and_left_empty(tmp_path):
    folder = output_folder(tmp_path / "a" / "b")
    assert list(folder.iterdir()) == []


def test_output_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--out"):
        output_folder(tmp_path / "file")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's read-only /proc")
def test_output_folder_that_nobody_may_write_to_is_refused():
    with pytest.raises(InputError, match="/proc"):
        output_folder(Path("/proc/self"))


def test_failed_write_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    target = write_atomic(tmp_path / "x.json", "old")

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(StorageError, match="No space left"):
        write_atomic(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_same_figure_gives_the_same_bytes(tmp_path):
    folders = [output_folder(tmp_path / name) for name in "ab"]
    for folder in folders:
        figure = new_figure(2, 2)
        figure.add_subplot().plot([0, 1], [0, 1])
        save_figure(figure, folder, "line")
    for name in ("line.png", "line.svg"):
        one, other = ((folder / name).read_bytes() for folder in folders)
        assert one == other


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"mmrs\[report\]"):
        new_figure(1, 1)


def test_a_path_below_a_file_is_refused_like_any_other(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot write"):
        write_atomic(tmp_path / "file" / "below", "text")
