"""`mmrs audit`: is the bonus of a run doing its job? Flags, each with its figure and its remedy."""

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
    """Ask whether a run's bonus does its job. Exit code 0: nothing found; 1: something was."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run; it may still be going on."""
    steps: int = 4096
    """Steps to play with the newest checkpoint, over all environments; 0: judge by the record alone."""
    seed: int = 1_000_003
    """Of games and actions; not the training's."""


def audit(config: AuditConfig, console: Console | None = None) -> int:
    """Judge, show, and write `audit.json` into the run for the report; 1 where anything is flagged."""
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
        console.print(f"{len(flagged)} of {len(findings)} checks flagged", highlight=False)
    return 1 if flagged else 0


def findings_of(run: RunFolder, steps: int, seed: int) -> tuple[list[Finding], list[str]]:
    """Every check of a run that can be made, and what could not be, with the reason."""
    record = read_run(run.path)
    if record.method == "ppo":
        return [], ["This run has no bonus: there is nothing to audit."]
    findings = audit_record(record)
    notes = []
    if record.bad:
        notes.append(f"Half-written or damaged lines in the record: {record.bad}. The others are used.")
    if not findings:
        notes.append("The record holds no numbers of the bonus yet: only the trained bonus can be judged.")
    if not steps:
        return findings, notes
    if not store.checkpoints(run.checkpoints):
        return findings, [*notes, "There is no checkpoint yet: the trained bonus was not probed."]
    seen = probe(run, steps, seed)
    assert seen is not None, "runs without a bonus were sent home above"
    return [*findings, *audit_probe(seen)], notes


def _show(finding: Finding, console: Console) -> None:
    mark, style = ("FLAG", "bold red") if finding.flagged else ("ok", "green")
    console.print(f"{mark:>4}", style=style, end="  ", highlight=False)
    title = finding.title if finding.flagged else f"not: {finding.title}"
    console.print(f"{title} ({finding.figure})", highlight=False, markup=False, soft_wrap=True)
    if finding.flagged:
        console.print(f"      {finding.remedy}", highlight=False, markup=False, soft_wrap=True)
