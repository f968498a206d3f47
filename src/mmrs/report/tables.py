"""Tables of scores beside those of the paper and published ones, for the page and as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

from mmrs.report.data import (
    FAMILIES,
    Cell,
    ReportData,
    interval_of,
    method_label,
    metric_label,
    short,
    text_of,
)
from mmrs.report.reference_scores import SOURCES, game_name, paper_row, paper_score, published_ppo
from mmrs.stats import Summary


@dataclass(frozen=True)
class Entry:
    """One method in one game."""

    env: str
    method: str
    text: str
    """Mean ± standard deviation over seeds, or "missing"."""
    interval: str
    seeds: str
    """Number of seeds, of how many, and how many of them are not finished."""
    value: float | None
    best: bool
    paper: str
    """The paper's score as printed; empty where it has none."""
    paper_best: bool
    paper_note: str
    summary: Summary | None


@dataclass(frozen=True)
class ScoreTable:
    """One metric in one set of games."""

    family: str
    metric: str
    methods: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...], tuple[str, ...]], ...]
    """Game, one entry per method, one published score of PPO per source."""
    sources: tuple[str, ...]
    steps: str
    """Steps of the runs here; the paper's took ten million."""

    @property
    def name(self) -> str:
        """Name of the table's files."""
        return re.sub(r"[^a-z0-9_]+", "-", f"{self.family}-{self.metric}".lower())

    @property
    def title(self) -> str:
        """Heading of the table."""
        return f"{FAMILIES[self.family]}: {metric_label(self.metric)}"


def score_tables(report: ReportData) -> list[ScoreTable]:
    """One table per set of games and metric."""
    tables = []
    for family in FAMILIES:
        envs = report.family(family)
        methods = tuple(m for m in report.methods if any((env, m) in report.pairs for env in envs))
        sources = tuple(s for s in SOURCES if any(s in published_ppo(env) for env in envs))
        for metric in report.metrics if envs else ():
            rows = tuple((env, _entries(report, env, methods, metric), _published(env, sources)) for env in envs)
            tables.append(ScoreTable(family, metric, methods, rows, sources, _steps(report, envs)))
    return tables


def _steps(report: ReportData, envs: tuple[str, ...]) -> str:
    totals = {run.total for cell in report.cells.values() if cell.env in envs for run in cell.runs}
    ends = sorted({min(totals), max(totals)}) if totals else []
    return " to ".join(f"{end:,}" for end in ends) or "no"


def _published(env: str, sources: tuple[str, ...]) -> tuple[str, ...]:
    scores = published_ppo(env)
    return tuple(scores.get(source, "") for source in sources)


def _entries(report: ReportData, env: str, methods: tuple[str, ...], metric: str) -> tuple[Entry, ...]:
    summaries = {m: cell.summary(metric) for m in methods if (cell := report.cells.get((env, m)))}
    means = [s.mean for s in summaries.values() if s]
    highest = max(means, default=None)
    # The best of all the paper's methods, including those without a run here.
    paper_highest = max((score.mean for score in paper_row(env).values()), default=None)
    entries = []
    for method in methods:
        found, paper = summaries.get(method), paper_score(env, method)
        entries.append(
            Entry(
                env=env,
                method=method,
                text=text_of(found) if found else "missing",
                interval=interval_of(found) if found else "",
                seeds=_seeds(report.cells.get((env, method)), metric),
                value=found.mean if found else None,
                best=found is not None and found.mean == highest and len(means) > 1,
                paper=paper.printed.replace("±", " ± ") if paper else "",
                paper_best=paper is not None and paper.mean == paper_highest,
                paper_note=paper.note if paper else "",
                summary=found,
            )
        )
    return tuple(entries)


def _seeds(cell: Cell | None, metric: str) -> str:
    if cell is None:
        return "no run"
    found = len(cell.scores.get(metric, {}))
    text = f"{found} of {cell.planned} seeds" if found < cell.planned else f"{found} seed{'s' if found > 1 else ''}"
    return f"{text}, {cell.unfinished} not finished" if cell.unfinished else text


# --- files ------------------------------------------------------------------------------------------------------------


def to_csv(table: ScoreTable) -> str:
    """One line a cell and source: ours with its interval, the paper's as meant, the published ones as printed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["game", "method", "source", "mean", "std", "low", "high", "seeds", "note"])
    for env, entries, published in table.rows:
        for entry in entries:
            mean, std, low, high, seeds = entry.summary or ("", "", "", "", 0)
            if seeds == 1:
                std = low = high = ""
            note = entry.seeds if entry.summary else "missing"
            writer.writerow([_plain(env), _plain(entry.method), "this report", mean, std, low, high, seeds, note])
            score = paper_score(env, entry.method)
            if score:
                writer.writerow([env, entry.method, "paper", score.mean, score.std, "", "", "", score.note])
        for source, text in zip(table.sources, published, strict=True):
            if text:
                mean_text, _, std_text = text.partition("±")
                writer.writerow([env, "ppo", SOURCES[source], mean_text, std_text, "", "", "", ""])
    return out.getvalue()


def _plain(text: str) -> str:
    """A name that a spreadsheet does not read as a formula."""
    return f"'{text}" if text[:1] in "=+-@\t\r" else text


def to_markdown(table: ScoreTable) -> str:
    """The table as Markdown: score, interval and the paper's score; the best in bold."""
    head = ["game", *(method_label(m) for m in table.methods), *table.sources]
    lines = [f"## {table.title}", "", _row(map(_markdown, head)), _row(["---"] * len(head))]
    for env, entries, published in table.rows:
        cells = [_markdown_entry(entry) for entry in entries]
        lines.append(_row([_markdown(game_name(env)), *cells, *(_markdown(text) for text in published)]))
    return "\n".join([*lines, "", _footnote(table), ""])


def _row(cells: object) -> str:
    return "| " + " | ".join(cells) + " |"  # type: ignore[arg-type]


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(text.split()))


def _markdown_entry(entry: Entry) -> str:
    ours = f"**{entry.text}**" if entry.best else entry.text
    paper = f"; paper {'**' if entry.paper_best else ''}{entry.paper}{'**' if entry.paper_best else ''}"
    return f"{ours} {entry.interval} ({entry.seeds}){paper if entry.paper else ''}".replace("  ", " ")


def _footnote(table: ScoreTable) -> str:
    lines = ["Mean ± standard deviation over seeds, Student's 95 % interval of the mean in brackets."]
    if table.family != "other":
        lines.append(f"Runs here take {table.steps} steps, the paper's took 10,000,000.")
    lines += [f"{source}: {SOURCES[source]}." for source in table.sources]
    return " ".join(lines)


def to_latex(table: ScoreTable) -> str:
    """A booktabs table of the scores here, with the interval under each mean."""
    head = " & ".join(["Game", *(_latex(method_label(m)) for m in table.methods)])
    lines = [
        f"% {_latex(table.title)}",
        rf"\begin{{tabular}}{{l{'r' * len(table.methods)}}}",
        r"\toprule",
        head + r" \\",
    ]
    lines.append(r"\midrule")
    for env, entries, _ in table.rows:
        tops = [_latex_score(entry) for entry in entries]
        lines.append(" & ".join([_latex(game_name(env)), *tops]) + r" \\")
        lines.append(" & ".join(["", *(rf"{{\footnotesize {_latex(e.interval)}}}" for e in entries)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex_score(entry: Entry) -> str:
    if not entry.summary:
        return "missing"
    mean, std, *_, seeds = entry.summary
    text = rf"{short(mean)} \pm {short(std)}" if seeds > 1 else short(mean)
    return rf"$\mathbf{{{text}}}$" if entry.best else f"${text}$"


def _latex(text: str) -> str:
    known = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(known.get(c, "\\" + c if c in "&%$#_{}" else c) for c in " ".join(text.split()))
