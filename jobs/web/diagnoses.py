"""Diagnoses and fixes in words, for a principal's page."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from jobs.lifecycle.why import evidence_text
from lifecycle.churn import HARMLESS, Churn, Diagnosis, diagnosis_text, what_decides
from lifecycle.churn_fixes import FIXES
from tables.query.churn_clients import diagnosis_of


def diagnosed(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of the view `principal_churn` with their diagnosis, its evidence and its fixes."""
    return [_with_words(row, diagnosis_of(row)) for row in rows]


def _with_words(row: Mapping[str, Any], diagnosis: Diagnosis) -> dict[str, Any]:
    kinds = diagnosis.could_be if diagnosis.kind is Churn.CANT_TELL else (diagnosis.kind,)
    shown = ("client", "kind", "new_pids", "pids_per_hour", "span_seconds")
    return {name: row[name] for name in shown} | {
        "text": diagnosis_text(diagnosis),
        "evidence": evidence_text(row),
        "decides": what_decides(diagnosis, with_lives=False),
        "fixes": [
            {"kind": kind.value, "harmless": kind in HARMLESS, **asdict(FIXES[kind])}
            for kind in kinds
            if kind is not Churn.HEALTHY
        ],
    }
