"""The churn diagnosis: what a client does, from what a broker can see of it."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lifecycle.churn import Churn, Diagnosis, diagnosis_text, what_decides
from lifecycle.churn_evidence import ChurnEvidence
from lifecycle.churn_fixes import FIXES
from lifecycle.churn_rules import CAUSES, diagnose
from lifecycle.known_clients import KNOWN_CLIENTS, known_client
from lifecycle.producer_lives import Life, Lives, lives_of
from tables.schema.views import views

# One new producer id every 3 s, at random.
CHURN = ChurnEvidence(
    client="app",
    new_pids=300,
    span_seconds=900,
    silent_seconds=3,
    median_life_seconds=3.0,
    life_spread=1.5,
    growing_share=0.4,
)
ONCE = Lives(kept_share=0.0, down_seconds=3.0)
KEPT = Lives(kept_share=1.0, kept_seconds=3600.0)
REPLACED = Lives(kept_share=0.05, used_seconds=3600, replaced_share=0.5)
CRASHES = Lives(kept_share=0.0, used_seconds=40, used_spread=0.9, down_seconds=3, down_spread=0.1)
RECORDED = json.loads(Path(__file__).with_name("recorded_churn.json").read_text(encoding="utf-8"))
HOURLY: dict[str, Any] = {"new_pids": 480, "steps": 24, "span_seconds": 1800 * 23}
TRANSACTIONAL: dict[str, Any] = {"transactional_ids": 300}
JAVA: dict[str, Any] = {"client": "producer-#", "client_ids": 300, "counted_ids": 300}

PER_MESSAGE, LEAK, RESTART, DEPLOY, SCALE_OUT, HEALTHY, WAR, NEW_TRANSACTIONAL_ID, ON_ERROR, CANT_TELL = (
    Churn.PER_MESSAGE,
    Churn.LEAK,
    Churn.RESTART_LOOP,
    Churn.DEPLOY,
    Churn.SCALE_OUT,
    Churn.HEALTHY,
    Churn.FENCING_WAR,
    Churn.NEW_TRANSACTIONAL_ID,
    Churn.ON_ERROR,
    Churn.CANT_TELL,
)


def of(**values: Any) -> Churn:
    return diagnose(replace(CHURN, **values)).kind


@pytest.mark.parametrize(
    ("kind", "values", "others"),
    [
        # By answers. `others` turns the evidence into that of another kind.
        (HEALTHY, {"new_pids": 4}, {"new_pids": 300}),
        (ON_ERROR, {"errors_before_share": 0.5}, {"errors_before_share": 0.49}),
        (ON_ERROR, {"new_pids": 1, "error_answers": 5}, {"error_answers": 4}),
        (WAR, {"new_pids": 1, "fenced_answers": 2, "instances": 3}, {"fenced_answers": 1}),
        (WAR, {"new_pids": 1, "fenced_answers": 2, "instances": 3}, {"fences": 2}),
        (WAR, {"new_pids": 1, "returns": 10, "instances": 20, "instance_seconds": 59.0}, {"returns": 2}),
        (WAR, {"new_pids": 1, "returns": 3, "instances": 6, "instance_seconds": 599.0}, {"instance_seconds": 1e4}),
        # The producers of a pool move to another host and back.
        (HEALTHY, {**TRANSACTIONAL, "instances": 9000, "returns": 600, "instance_seconds": 9.0}, {"returns": 3000}),
        (Churn.EXPIRED_IDLE, {"new_pids": 14, "transactional_ids": 7, "expired_ids": 7}, {"expired_ids": 0}),
        (Churn.ROTATION, {"new_pids": 1, "rotations": 1, "rotation_seconds": 30.0}, {"rotation_seconds": 29.0}),
        (Churn.ROTATION, {"new_pids": 20, "rotations": 20, "rotation_seconds": 3300.0}, {"rotations": 19}),
        # By requests alone.
        (RESTART, {"growing_share": 0.65}, {"growing_share": 0.64}),
        # One process that opens its producers one after the other.
        (RESTART, {"growing_share": 0.65, "median_life_seconds": 0.1}, {"median_life_seconds": 0.09}),
        (RESTART, {"growing_share": 0.65, "lives": ONCE}, {"lives": replace(ONCE, overlap_share=0.51)}),
        (RESTART, {"lives": ONCE, "life_spread": 0.5, "new_pids": 8}, {"median_life_seconds": 0.02}),
        (HEALTHY, {"new_pids": 99, "span_seconds": 30, "silent_seconds": 60}, {"span_seconds": 31}),
        (HEALTHY, {"new_pids": 93, "span_seconds": 18, "silent_seconds": 3000}, {"throttles": 1}),
        (HEALTHY, {"new_pids": 24, "span_seconds": 23 * 3600}, {"new_pids": 25}),
        (PER_MESSAGE, {"new_pids": 2000, "median_life_seconds": 0.4}, {"silent_seconds": 300}),
        (SCALE_OUT, {"hosts": 100, "silent_seconds": 300}, {"silent_seconds": 3}),
        # A throttle, and not the end of a start, may be why no more ids come.
        (SCALE_OUT, {"hosts": 100, "silent_seconds": 300}, {"throttled_now": True}),
        (DEPLOY, {"new_pids": 60, "steps": 3, "span_seconds": 14_400}, {"span_seconds": 14_399}),
        (NEW_TRANSACTIONAL_ID, TRANSACTIONAL, {"steps": 60}),
        (NEW_TRANSACTIONAL_ID, TRANSACTIONAL, {"instances": 300}),
        # A pool that fills.
        (NEW_TRANSACTIONAL_ID, TRANSACTIONAL, {"span_seconds": 179}),
        (CANT_TELL, {}, {"new_pids": 4}),
        # By lives.
        (LEAK, {"lives": KEPT}, {"lives": replace(KEPT, quiet_seconds=400)}),
        (LEAK, {"lives": KEPT, "new_pids": 40}, {"new_pids": 39}),
        (LEAK, {"lives": KEPT, "hosts": 15}, {"hosts": 16}),
        (LEAK, {"lives": KEPT, "new_pids": 60, "span_seconds": 7200, "steps": 5}, {"steps": 4}),
        (LEAK, {"lives": KEPT, "new_pids": 39, **JAVA, "counted_ids": 5}, {"counted_ids": 4}),
        (SCALE_OUT, {"lives": replace(KEPT, quiet_seconds=400)}, {"lives": replace(KEPT, kept_share=0.79)}),
        (HEALTHY, {"lives": KEPT, "new_pids": 30, "span_seconds": 20}, {"lives": ONCE}),
        (DEPLOY, {"lives": REPLACED, **HOURLY}, {"lives": replace(REPLACED, replaced_share=0.49)}),
        (DEPLOY, {"lives": REPLACED, **HOURLY}, {"lives": replace(REPLACED, used_seconds=58.0)}),
        (DEPLOY, {"lives": REPLACED, **HOURLY}, {"span_seconds": 1799 * 23}),
        (RESTART, {"lives": CRASHES}, {"lives": replace(CRASHES, down_spread=0.6)}),
        (RESTART, {"lives": ONCE, "life_spread": 0.5}, {"life_spread": 0.2}),
        (RESTART, {"lives": ONCE, "life_spread": 0.1, "client": "producer-#"}, {"client": "app"}),
        (PER_MESSAGE, {"lives": ONCE}, {"life_spread": 0.9}),
        (PER_MESSAGE, {"lives": replace(ONCE, on_schedule=True), "life_spread": 0.1}, {"lives": ONCE}),
        (PER_MESSAGE, {"lives": ONCE, "life_spread": 0.1, **JAVA}, {"counted_ids": 74}),
        (PER_MESSAGE, {"lives": ONCE, **HOURLY}, {"life_spread": 0.1, "median_life_seconds": 6.0}),
        (NEW_TRANSACTIONAL_ID, {**TRANSACTIONAL, "lives": ONCE}, {"lives": KEPT}),
        # A tool that takes new transactional ids by design.
        (
            RESTART,
            {**TRANSACTIONAL, "lives": CRASHES, "client": "app-#-StreamThread-1-producer"},
            {"client": "app", "lives": ONCE},
        ),
    ],
)
def test_evidence_shows_a_kind_and_other_evidence_does_not(
    kind: Churn, values: dict[str, Any], others: dict[str, Any]
) -> None:
    assert of(**values) is kind
    assert of(**values | others) is not kind


def test_a_flood_never_comes_from_restarts_and_java_s_numbers_never_from_new_processes() -> None:
    flood = diagnose(replace(CHURN, lives=ONCE, median_life_seconds=0.1, new_pids=25_001))
    counted = diagnose(replace(CHURN, lives=ONCE, **JAVA))
    assert {RESTART, LEAK} <= {*flood.unlikely}
    assert {RESTART, DEPLOY, SCALE_OUT} <= {*counted.unlikely}


def test_a_cause_that_rarely_leaves_such_evidence_is_named_as_unlikely_and_never_left_out() -> None:
    war = diagnose(ChurnEvidence(client="app", new_pids=5, span_seconds=60, fenced_answers=2, instances=3))
    assert (war.kind, war.could_be) == (Churn.FENCING_WAR, ())
    assert {RESTART, DEPLOY} <= {*war.unlikely}
    few = diagnose(ChurnEvidence(client="app", new_pids=4, span_seconds=60))
    assert few == Diagnosis(HEALTHY)


# How long ids were in use


def lives(times: Iterable[tuple[float, float]], host: str = "a") -> list[Life]:
    begins = [(round(begin * 1000), round(end * 1000)) for begin, end in times]
    following = [begin for begin, _ in begins[1:]] + [0]
    return [Life(host, begin, end, after) for (begin, end), after in zip(begins, following, strict=True)]


def known(lives: list[Life], at_ms: int, **seen: Any) -> Lives:
    found = lives_of(lives, at_ms, **seen)
    assert found is not None
    return found


def test_lives_summarise_how_long_ids_were_in_use() -> None:
    kept = known(lives([(at, 59.5) for at in range(0, 50, 10)]), 60_000)
    assert (kept.kept_share, kept.kept_seconds, kept.silent_seconds, kept.quiet_seconds) == (1.0, 39.5, 0.5, 19.5)
    found = known(lives([(at, at + 2) for at in range(0, 50, 10)]), 60_000)
    assert (found.kept_share, found.used_seconds, found.down_seconds, found.down_spread) == (0.0, 2.0, 8.0, 0.0)
    overlapping = known(lives([(at, at + 31) for at in range(0, 500, 10)]), 600_000)
    assert (overlapping.down_seconds, overlapping.overlap_share) == (0.0, 0.98)
    assert lives_of(lives([(59, 59)]), 60_000) is None


def test_an_id_too_young_to_be_seen_again_is_not_classified() -> None:
    steady = lives([(0, 30), (31, 31)])
    assert known(steady, 60_000, precision_ms=30_000).kept_share == 1.0


def test_ids_of_a_client_that_pauses_count_as_in_use() -> None:
    paused = known(lives([(at, 3600) for at in range(0, 3000, 60)]), 12 * 3_600_000)
    assert (paused.kept_share, paused.silent_seconds) == (1.0, 39_600.0)
    ended = known(lives([(at, at + 5) for at in range(0, 3000, 60)]), 12 * 3_600_000)
    assert ended.kept_share == 0.0


def test_a_deploy_is_seen_though_last_uses_are_noted_early() -> None:
    pods = lives((3600 * turn + pod, 3600 * turn + 3000) for turn in range(4) for pod in range(8))
    assert known(pods, 4 * 3_600_000, slack_share=0.5, slack_ms=900_000).replaced_share == 1.0
    assert known(pods, 4 * 3_600_000).replaced_share == 0.0


def test_a_clock_s_step_is_kept_and_that_of_a_wait_is_not() -> None:
    jitter = [0.1, 0.0, 0.2, 0.05] * 100
    on_time = lives([(8 * beat + off, 8 * beat + off) for beat, off in enumerate(jitter)])
    slipping = lives([(5.13 * beat + off, 5.13 * beat + off) for beat, off in enumerate(jitter)])
    for beats in (12, 40, 400):
        assert known(on_time[:beats], 9_000_000).on_schedule
        assert not known(slipping[:beats], 9_000_000).on_schedule
    # A sample lacks some hand-outs.
    assert known(on_time[::7], 9_000_000).on_schedule
    assert not known(slipping[::7], 9_000_000).on_schedule
    # Addresses with too few ids do not count, but those with enough all do.
    assert known([*on_time, *lives([(0, 0), (1, 1)], "b")], 9_000_000).on_schedule
    slips = lives([(5.13 * beat, 5.13 * beat) for beat in range(40)], "b")
    assert not known([*on_time, *slips], 9_000_000).on_schedule


# Real clients


@pytest.mark.parametrize("each", RECORDED, ids=lambda each: each["name"])
def test_the_cause_of_what_real_clients_did_is_found(each: dict[str, Any]) -> None:
    requests, kinds = ChurnEvidence(**each["evidence"]), set(each["kinds"])
    found = diagnose(replace(requests, lives=Lives(**each["lives"])) if each["lives"] else requests)
    alone = diagnose(requests)
    assert {kind.value for kind in found.fitting} & kinds
    # Requests alone leave more kinds open, the cause among them.
    assert {kind.value for kind in (alone.kind, *alone.could_be)} & kinds


def test_two_in_forty_real_clients_get_no_likely_cause() -> None:
    diagnoses = [
        diagnose(ChurnEvidence(**each["evidence"], lives=each["lives"] and Lives(**each["lives"]))) for each in RECORDED
    ]
    assert sum(found.kind is Churn.CANT_TELL for found in diagnoses) <= 2
    assert len({each["name"].rpartition("-")[0] for each in RECORDED}) >= 15


@pytest.mark.parametrize(
    ("client", "transactional_id", "tool"),
    [
        ("connector-producer-orders-#", "connect-orders-0", "Kafka Connect"),
        ("connector-worker-adminclient-orders", "connect-orders-0", "Kafka Connect"),
        ("connector-producer-MirrorSourceConnector-#", None, "MirrorMaker"),
        ("app-#-StreamThread-1-producer", "app-0b5a9dcb-8f9a-4a1c-9c55-1b9e5f7d2a01-1", "Kafka Streams"),
        ("producer-sink-3-#", "sink-3-17", "Flink's KafkaSink"),
        ("producer-worker-txn-#-#", "worker-txn-0b5a9dcb-8f9a-4a1c-9c55-1b9e5f7d2a01-2", "Iceberg's sink"),
        ("inventory-schemahistory", None, "Debezium"),
        ("producer-#", None, "Spark's Kafka sink"),
        ("producer-pay-1-#", "pay", None),
        ("checkout", "checkout-1", None),
    ],
)
def test_popular_tools_are_known_by_their_names(client: str, transactional_id: str | None, tool: str | None) -> None:
    found = known_client(client, transactional_id)
    assert (found and found.tool) == tool


def test_each_tool_names_known_kinds_and_the_views_know_who_only_fences() -> None:
    kinds = {kind.value for kind in Churn}
    assert all({*each.fixes} <= kinds for each in KNOWN_CLIENTS)
    assert "client_id LIKE '%adminclient%'" in views()["classified_inits"]


# Texts


def test_an_uncertain_diagnosis_names_the_evidence_that_would_decide() -> None:
    open_one = Diagnosis(Churn.PER_MESSAGE, (Churn.LEAK,))
    assert "--bootstrap-server" in what_decides(open_one, with_lives=False)
    assert "closes its producers" in what_decides(open_one, with_lives=True)
    assert "whether new ids stop" in what_decides(Diagnosis(LEAK, (DEPLOY, SCALE_OUT)), with_lives=True)
    assert "its supervisor's log" in what_decides(Diagnosis(PER_MESSAGE, (LEAK, RESTART)), with_lives=True)
    war = Diagnosis(Churn.CANT_TELL, (Churn.RESTART_LOOP, Churn.FENCING_WAR))
    assert "transactional.id" in what_decides(war, with_lives=True)
    assert what_decides(Diagnosis(Churn.LEAK), with_lives=True) == ""


def test_a_diagnosis_is_harmless_if_each_likely_kind_is() -> None:
    assert Diagnosis(Churn.DEPLOY, (Churn.RESTART_LOOP,)).is_harmless
    assert not Diagnosis(Churn.CANT_TELL, (Churn.LEAK, Churn.SCALE_OUT)).is_harmless


@pytest.mark.parametrize("kind", Churn)
def test_every_kind_has_a_rule_and_a_fix_in_each_language(kind: Churn) -> None:
    fix = FIXES[kind]
    assert all(text.endswith(".") for text in (fix.summary, fix.java, fix.python, fix.librdkafka))
    assert kind is CANT_TELL or kind in dict(CAUSES)
    assert diagnosis_text(Diagnosis(kind)).startswith(kind.value)
