"""`mmrs audit`: checks of a run's bonus, each with what was measured and a remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from mmrs.audit.probe import probe
from mmrs.audit.probe_checks import audit_probe
from mmrs.audit.record_checks import Finding, audit_record
from mmrs.errors import InputError
from mmrs.runs.folder import RunFolder
from mmrs.runs.records import read_run
from mmrs.storage import checkpoint as store


@dataclass(frozen=True)
class AuditConfig:
    """Check whether a run's bonus does its job. Exit code 0: nothing is flagged, though some checks may lack data; 1:
    something is flagged."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run, which may still be training."""
    steps: int = 4096
    """Steps to play with the newest checkpoint, over all environments; 0: check the metrics alone."""
    seed: int = 1_000_003
    """Seed of environments and actions; differs from the seeds of training."""


def audit(config: AuditConfig, console: Console | None = None) -> int:
    """Check, print, and write `audit.json` into the run's folder for the report; returns 1 if anything is flagged."""
    if config.steps < 0:
        raise InputError(f"steps must be 0 or more, not {config.steps}.")
    console = console or Console()
    run = RunFolder.open(config.run)
    findings, notes = findings_of(run, config.steps, config.seed)
    for note in notes:
        console.print(note, highlight=False, soft_wrap=True)
    for finding in findings:
        _show(finding, console)
    flagged = [finding for finding in findings if finding.flagged]
    run.write_json(run.path / "audit.json", {"findings": [asdict(finding) for finding in findings], "notes": notes})
    if findings:
        console.print(_summary(findings), highlight=False)
    return 1 if flagged else 0


def findings_of(run: RunFolder, steps: int, seed: int) -> tuple[list[Finding], list[str]]:
    """The findings of every possible check, and notes on what could not be checked."""
    record = read_run(run.path)
    if record.method == "ppo":
        return [], ["This run has no bonus: there is nothing to audit."]
    findings = audit_record(record)
    notes = []
    if record.bad_lines:
        notes.append(f"Half-written or damaged lines in the metrics: {record.bad_lines}. The others are used.")
    if not findings:
        notes.append("There are no metrics of the bonus yet: only the trained bonus can be checked.")
    if not steps:
        return findings, notes
    if not store.checkpoints(run.checkpoints):
        return findings, [*notes, "There is no checkpoint yet: the trained bonus was not probed."]
    result = probe(run, steps, seed)
    assert result is not None, "runs without a bonus have returned above"
    return [*findings, *audit_probe(result)], notes


def _show(finding: Finding, console: Console) -> None:
    mark, style, title = _verdict(finding)
    console.print(f"{mark:>4}", style=style, end="  ", highlight=False)
    console.print(f"{title} ({finding.measured})", highlight=False, markup=False, soft_wrap=True)
    if finding.flagged:
        console.print(f"      {finding.remedy}", highlight=False, markup=False, soft_wrap=True)


def _verdict(finding: Finding) -> tuple[str, str, str]:
    """Mark, color and sentence of a finding."""
    if finding.flagged:
        return "FLAG", "bold red", finding.title
    if not finding.judged:
        return "?", "yellow", f"not judged: whether {finding.healthy}"
    return "ok", "green", finding.healthy


def _summary(findings: list[Finding]) -> str:
    """How many checks were flagged, passed and could not be judged."""
    flagged = sum(finding.flagged for finding in findings)
    unknown = sum(not finding.judged for finding in findings)
    counts = f"{flagged} of {len(findings)} checks flagged"
    return f"{counts}, {len(findings) - flagged - unknown} ok, {unknown} not judged" if unknown else counts
