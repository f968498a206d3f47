"""The documentation agrees with the code: tags, names, words, links, defaults, commands, the example of the README."""

import ast
import re
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest
from benchmarks import options_page

from mmrs.cli import COMMANDS
from mmrs.rewards import REWARDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mmrs"
README, DEVIATIONS = ROOT / "README.md", ROOT / "docs" / "deviations.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
COMMENT = re.compile(r"# (Deviation|Unstated)\b")
ACCOUNT = re.compile(r"`([DU]) ([\w/]+\.py): ([^`]+)`")
CODE_NAME = re.compile(r"`([\w/.]+\.py)(?:::([\w.]+))?`")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
MODULE_NAME = re.compile(r"\b(?:mmrs|benchmarks|tests)(?:\.[A-Za-z_]\w*)+")
DIALECT = {
    r"\bslopes\b|\w_slopes?\b": "gradients",
    r"\bpull(s|ed)?\b(?! request)": "vector-Jacobian product, backward",
    r"(?<!negative on )\bthe way back\b": "backward pass",
    r"\ba row an\b": "one row per",
    r"\bOf everything\b|\bOf Adam\b": "a noun before the 'of'",
    r"\btold\b": "programs get a value, they are not told",
    r"\bspreads\b|\b[Tt]he spread of\b|\ba spread\b": "standard deviation",
}
"""Words that read badly in this project's prose, each with what to write instead."""
BRITISH = re.compile(
    r"centre|centring|colour|neighbour|behaviour|favour|grey|"
    r"(?:normalis|standardis|initialis|summaris|organis|optimis|regularis|maximis|minimis|vectoris|serialis|discretis|"
    r"randomis|recognis|generalis)(?:e|ed|es|er|ers|ing|ation)(?![a-z])",
    re.IGNORECASE,
)


def lines_of_text() -> list[tuple[str, int, str]]:
    """File, number and text of every line of the pages and of the source."""
    paths = [*PAGES, *sorted(SOURCE.rglob("*.py"))]
    return [(str(p.relative_to(ROOT)), n, line) for p in paths for n, line in enumerate(p.read_text().splitlines(), 1)]


def nodes_of_source() -> list[tuple[Path, ast.AST]]:
    return [(path, node) for path in sorted(SOURCE.rglob("*.py")) for node in ast.walk(ast.parse(path.read_text()))]


# --- tags -------------------------------------------------------------------------------------------------------------


def tags() -> list[tuple[str, str, str]]:
    """Kind (D or U), file and line of each tag in the source."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for line in path.read_text().splitlines():
            found += [(kind[0], str(path.relative_to(SOURCE)), line) for kind in COMMENT.findall(line)]
    return found


def accounts(text: str) -> list[tuple[str, str, str]]:
    return ACCOUNT.findall(text)


def test_every_tag_of_the_source_is_accounted_for_once():
    known = accounts(DEVIATIONS.read_text())
    for kind, file, line in tags():
        fitting = [words for k, f, words in known if (k, f) == (kind, file) and words in line]
        assert len(fitting) == 1, f"{file}: {line.strip()!r} has {len(fitting)} rows in docs/deviations.md, expected 1"


def test_every_account_has_its_tag():
    found = tags()
    for kind, file, words in accounts(DEVIATIONS.read_text()):
        lines = [line for k, f, line in found if (k, f) == (kind, file) and words in line]
        assert len(lines) == 1, f"docs/deviations.md names {words!r} in {file}: {len(lines)} tags fit, expected 1"


# --- names ------------------------------------------------------------------------------------------------------------


def names_in(path: Path, imported: bool = False) -> set[str]:
    """Functions, classes and constants of a module, members of a class as Class.member; what it imports if asked."""
    found: set[str] = set()

    def read(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    read(node.body, f"{prefix}{node.name}.")
            if isinstance(node, ast.If):  # such as imports for type checkers alone
                read(node.body, prefix)
            if imported and isinstance(node, ast.Import | ast.ImportFrom):
                found.update(alias.asname or alias.name for alias in node.names)
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    read(ast.parse(path.read_text()).body, "")
    return found


@EVERY_PAGE
def test_files_and_functions_named_exist(page):
    for file, name in CODE_NAME.findall(FENCE.sub("", page.read_text())):
        candidates = [root / file for root in (SOURCE, ROOT) if (root / file).is_file()]
        assert candidates, f"{page.name} names {file}, which does not exist"
        assert not name or name in names_in(candidates[0]), (
            f"{page.name} names {name} in {file}, which has no such thing"
        )


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or a name that its innermost module defines or imports."""
    top, *rest = name.split(".")
    path = SOURCE if top == "mmrs" else ROOT / top
    while rest and ((path / rest[0]).is_dir() or (path / f"{rest[0]}.py").is_file()):
        path /= rest.pop(0)
    module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return not rest or (module.is_file() and rest[0] in names_in(module, imported=True))


def test_modules_named_in_pages_and_source_exist():
    named = {(file, name) for file, _, line in lines_of_text() for name in MODULE_NAME.findall(line)}
    wrong = [f"{file}: {name}" for file, name in sorted(named) if not name.endswith(".py") and not resolves(name)]
    assert not wrong, "\n".join(wrong)


def test_no_test_module_imports_another():
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
            other = [name for name in names if re.match(r"tests\b(?!\.support\b)|\.|test_", name)]
            assert not other, f"{path.relative_to(ROOT)} imports {other}: what tests share belongs in tests/support"


def test_the_map_has_every_equation_and_algorithm_line_figure_and_table():
    text = (ROOT / "docs" / "paper.md").read_text()
    rows = re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)
    assert [row for row in rows if re.fullmatch(r"\(\d+\)", row)] == [f"({n})" for n in range(1, 25)]
    for kind, last in {"Definition": 2, "Lemma": 2, "Theorem": 1, "Fig.": 5, "Table": 5}.items():
        for n in range(1, last + 1):
            assert any(row.startswith(f"{kind} {n}") for row in rows), f"{kind} {n}"
    assert {"1", "2", "3", "4", "5 to 8", "9", "10", "11"} <= set(rows)  # Algorithm 1
    for row in (line for line in text.splitlines() if line.startswith("| (")):
        assert CODE_NAME.search(row) or "not implemented, because" in row, row


# --- links and words --------------------------------------------------------------------------------------------------


@EVERY_PAGE
def test_relative_links_resolve(page):
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / link.partition("#")[0]).resolve() if not link.startswith("#") else page
        assert target.exists(), f"{page.name} links to {link}, which does not exist"


@EVERY_PAGE
def test_pages_name_no_path_of_a_machine(page):
    assert not re.search(r"(?<![\w.])/(work|home|root)/", page.read_text())


def test_words_are_those_of_the_field():
    wrong = [
        f"{file}:{number}: {found[0]!r}; write: {instead}"
        for file, number, line in lines_of_text()
        for pattern, instead in DIALECT.items()
        if (found := re.search(pattern, line))
    ]
    assert not wrong, "\n".join(wrong)


def test_names_in_the_source_are_american():
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, node in nodes_of_source()
        for field in ("id", "name", "attr", "arg")
        if isinstance(name := getattr(node, field, None), str) and BRITISH.search(name)
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_docstrings_have_a_subject():
    for path, node in nodes_of_source():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            assert not node.value.value.startswith("Of "), f"{path.relative_to(ROOT)}:{node.lineno}"


@EVERY_PAGE
def test_lines_of_prose_are_short(page):
    prose = (line for line in FENCE.sub("", page.read_text()).splitlines() if not line.startswith("|"))
    assert [line for line in prose if len(line) > 120] == []


# --- the README -------------------------------------------------------------------------------------------------------


def test_the_readme_example_runs():
    (code,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    short = code.replace("range(100)", "range(2)").replace("range(128)", "range(16)")
    assert short.count("range(2)") == short.count("range(16)") == 1
    scope: dict[str, object] = {}
    exec(compile(short, "README.md", "exec"), scope)
    assert scope["intrinsic"].shape == (16, 8)
    assert scope["bonus"].updates == 2
    scope["envs"].close()


def test_the_readme_shows_every_command_and_no_other():
    blocks = "\n".join(FENCE.findall(README.read_text()))
    assert set(re.findall(r"^mmrs (\w+)", blocks, re.MULTILINE)) == COMMANDS.keys()


def test_the_readme_table_says_which_rewards_are_causal():
    rows = re.findall(r"^\| (`[^|]+) \|[^|]+\| (yes|no) \|$", README.read_text(), re.MULTILINE)
    documented = {name: causal == "yes" for cell, causal in rows for name in re.findall(r"`(\w+)`", cell)}
    assert documented == {name: kind.causal for name, kind in built_in().items()}


def test_the_options_page_shows_the_present_options():
    assert options_page.PAGE.read_text() == options_page.page(), "python -m benchmarks.options_page writes it anew"


# --- rewards ----------------------------------------------------------------------------------------------------------


def built_in() -> dict[str, type]:
    """Names and classes of the package's own rewards: other tests may have registered theirs."""
    factories = {name: entry.factory for name, entry in REWARDS.items()}
    made = {name: factory.func if isinstance(factory, partial) else factory for name, factory in factories.items()}
    return {name: kind for name, kind in made.items() if kind.__module__.startswith("mmrs.")}


def options(name: str) -> dict[str, object]:
    """The options of a reward with their defaults."""
    return {field.name: field.default for field in fields(REWARDS[name].config)}


def test_rewards_page_has_every_option_with_its_default():
    sections = re.split(r"^## ", (ROOT / "docs" / "rewards.md").read_text(), flags=re.MULTILINE)[1:]
    documented = {}
    for section in sections:
        table = section.partition("| option | default | meaning |")[2]
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", section.partition("\n")[0]):
            documented[name] = {option: ast.literal_eval(default) for option, default in rows}
    for name in built_in():
        assert documented[name] == options(name), name
