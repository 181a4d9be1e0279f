"""The churn diagnosis: what a client does, from what a broker can see of it."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lifecycle.churn import Churn, Diagnosis, diagnose, what_decides
from lifecycle.churn_evidence import ChurnEvidence
from lifecycle.churn_fixes import FIXES
from lifecycle.producer_lives import Life, Lives, lives_of

# One new producer id every 3 s, without pattern.
CHURN = ChurnEvidence(
    client="app",
    new_pids=300,
    span_seconds=900,
    silent_seconds=3,
    median_life_seconds=3.0,
    life_spread=1.5,
    growing_share=0.4,
)
ENDED = Lives(kept_share=0.0)
KEPT = Lives(kept_share=1.0)
RECORDED = json.loads(Path(__file__).with_name("recorded_churn.json").read_text(encoding="utf-8"))


def of(**values: Any) -> tuple[Churn, ...]:
    found = diagnose(replace(CHURN, **values))
    return (found.kind, *found.could_be)


# Without a rhythm


def test_few_ids_and_those_of_a_start_are_healthy() -> None:
    burst = {"median_life_seconds": 0.1, "span_seconds": 10, "silent_seconds": 60}
    assert of(new_pids=4, median_life_seconds=0.1) == (Churn.HEALTHY,)
    assert of(new_pids=40, **burst) == (Churn.HEALTHY,)
    hidden = (Churn.CANT_TELL, Churn.RESTART_LOOP, Churn.PER_MESSAGE, Churn.LEAK, Churn.SCALE_OUT)
    assert of(new_pids=100, **burst) == hidden


def test_a_start_that_has_only_just_begun_may_be_anything() -> None:
    assert of(new_pids=40, span_seconds=10, silent_seconds=1) == (Churn.HEALTHY, Churn.PER_MESSAGE)


def test_errors_before_most_ids_explain_them_whatever_the_rhythm() -> None:
    assert of(errors_before_share=0.5) == (Churn.ON_ERROR,)
    assert Churn.ON_ERROR not in of(errors_before_share=0.49)


def test_who_asks_in_vain_again_and_again_does_so_on_error() -> None:
    assert of(new_pids=1, error_answers=5) == (Churn.ON_ERROR,)
    assert of(new_pids=1, error_answers=4) == (Churn.HEALTHY,)
    assert Churn.ON_ERROR not in of(new_pids=300, error_answers=300)


def test_who_takes_a_transactional_id_back_is_at_war_for_it() -> None:
    assert of(new_pids=1, returns=3, instances=6) == (Churn.FENCING_WAR,)
    assert of(new_pids=1, fenced_answers=2, instances=3) == (Churn.FENCING_WAR,)
    assert of(new_pids=1, returns=2, instances=4) == (Churn.HEALTHY,)


def test_a_transactional_id_that_moves_between_hosts_with_each_deploy_is_no_sure_fencing_war() -> None:
    moving = {"new_pids": 1, "returns": 3, "instances": 6}

    assert of(**moving, instance_seconds=10_000.0) == (Churn.HEALTHY, Churn.FENCING_WAR)
    assert of(**moving, instance_seconds=599.0) == (Churn.FENCING_WAR,)
    assert of(**moving, instance_seconds=10_000.0, fenced_answers=2, error_answers=2) == (Churn.FENCING_WAR,)


def test_rivals_that_nothing_tells_apart_may_be_one_that_restarts() -> None:
    again = {"new_pids": 1, "instances": 20}
    rivals = (Churn.RESTART_LOOP, Churn.FENCING_WAR)
    assert of(**again, instance_seconds=4.0) == (Churn.HEALTHY, *rivals)
    assert of(new_pids=5, instances=20, instance_seconds=4.0) == (Churn.CANT_TELL, *rivals)
    assert of(**again, instance_seconds=3600.0) == (Churn.HEALTHY,)


# By requests alone


def test_without_lives_fast_ones_are_likely_a_producer_per_message_and_may_be_kept() -> None:
    kinds = (Churn.PER_MESSAGE, Churn.LEAK, Churn.RESTART_LOOP)
    assert of(median_life_seconds=0.05, life_spread=0.1) == kinds
    assert of(hosts=2) == kinds


def test_without_lives_one_address_may_hide_a_fleet() -> None:
    assert of()[0] is Churn.CANT_TELL
    assert Churn.SCALE_OUT in of()


def test_without_lives_a_regular_rhythm_may_be_four_things() -> None:
    assert of(life_spread=0.2) == (
        Churn.CANT_TELL,
        Churn.RESTART_LOOP,
        Churn.PER_MESSAGE,
        Churn.LEAK,
        Churn.SCALE_OUT,
    )


def test_a_growing_wait_is_a_supervisor_s() -> None:
    assert of(growing_share=0.9) == (Churn.RESTART_LOOP,)
    assert of(growing_share=0.9, lives=ENDED) == (Churn.RESTART_LOOP,)


def test_many_hosts_with_a_few_ids_each_are_a_scale_out_that_ends() -> None:
    assert of(hosts=100, silent_seconds=300) == (Churn.SCALE_OUT,)
    assert of(hosts=100) == (Churn.SCALE_OUT, Churn.PER_MESSAGE)
    assert of(hosts=99)[0] is Churn.PER_MESSAGE
    assert of(hosts=2, new_pids=6)[0] is not Churn.SCALE_OUT


def test_groups_with_pauses_are_likely_deploys_if_they_are_hours_apart() -> None:
    others = (Churn.PER_MESSAGE, Churn.LEAK, Churn.RESTART_LOOP)
    assert of(new_pids=60, steps=3, span_seconds=14_400) == (Churn.DEPLOY, *others)
    assert of(new_pids=60, steps=3, span_seconds=14_399) == (Churn.CANT_TELL, Churn.DEPLOY, *others)
    assert of(new_pids=60, steps=30)[0] is not Churn.DEPLOY


def test_a_transactional_id_for_each_producer_id_is_flink_s_habit() -> None:
    assert of(transactional_ids=240) == (Churn.NEW_TRANSACTIONAL_ID, Churn.DEPLOY)
    # Twenty instances with an id each also begin once.
    assert of(transactional_ids=240, silent_seconds=300) == (Churn.NEW_TRANSACTIONAL_ID, Churn.SCALE_OUT)
    assert of(transactional_ids=240, lives=KEPT, silent_seconds=300) == (Churn.SCALE_OUT,)


def test_long_pauses_at_each_address_are_healthy() -> None:
    assert of(median_life_seconds=600, life_spread=0.1) == (Churn.HEALTHY, Churn.LEAK)


def test_java_s_own_client_ids_tell_processes_apart() -> None:
    regular = {"client": "producer-#", "life_spread": 0.1}
    assert of(**regular, client_ids=300) == (Churn.PER_MESSAGE, Churn.LEAK)
    assert of(**regular, client_ids=300, lives=ENDED) == (Churn.PER_MESSAGE,)
    assert of(**regular, client_ids=300, lives=KEPT) == (Churn.LEAK,)
    # Four processes, each of which counts.
    assert of(**regular, client_ids=75, hosts=4, lives=ENDED) == (Churn.PER_MESSAGE,)
    assert of(**regular, client_ids=1, lives=ENDED) == (Churn.RESTART_LOOP,)


# By lives


def test_what_is_opened_and_kept_and_goes_on_is_a_leak() -> None:
    assert of(lives=KEPT, life_spread=0.1) == (Churn.LEAK,)
    assert of(lives=KEPT, new_pids=20) == (Churn.CANT_TELL, Churn.LEAK, Churn.SCALE_OUT)


def test_what_is_opened_and_kept_and_has_stopped_is_a_roll_out() -> None:
    assert of(lives=KEPT, silent_seconds=400) == (Churn.SCALE_OUT,)
    assert of(lives=KEPT, new_pids=30, span_seconds=20, silent_seconds=400) == (Churn.HEALTHY,)


def test_lives_that_end_when_others_have_begun_are_a_deploy() -> None:
    replaced = Lives(kept_share=0.05, used_seconds=3600, outlived=12, replaced_share=0.9)
    assert of(lives=replaced, new_pids=480, steps=24) == (Churn.DEPLOY,)
    # One by one with a minute between them.
    assert of(lives=replaced, new_pids=480, steps=480) == (Churn.DEPLOY, Churn.RESTART_LOOP)
    assert of(lives=replace(replaced, outlived=0), steps=480)[0] is not Churn.DEPLOY


def test_groups_that_end_before_the_next_ones_begin_are_no_certain_deploy() -> None:
    # A job of each hour opens 20 producers for four minutes.
    jobs = lives((at, at + 240) for hour in range(24) for at in range(3600 * hour, 3600 * hour + 20))
    found = known(lives_of(jobs, 24 * 3_600_000))
    assert (found.replaced_share, found.outlived) == (0.0, 9.5)

    assert of(lives=found, new_pids=480, steps=24) == (Churn.PER_MESSAGE, Churn.DEPLOY, Churn.RESTART_LOOP)
    # Workers that are recycled one by one.
    recycled = of(lives=replace(found, kept_share=0.1), new_pids=480, steps=480)
    assert recycled == (Churn.CANT_TELL, Churn.RESTART_LOOP, Churn.PER_MESSAGE, Churn.DEPLOY)


def test_a_supervisor_waits_as_long_each_time_however_long_the_process_works() -> None:
    assert of(lives=Lives(kept_share=0, used_seconds=5, used_spread=0.9, down_spread=0.1)) == (Churn.RESTART_LOOP,)


def test_what_is_used_once_is_a_producer_per_message_if_work_comes_when_it_comes_or_on_schedule() -> None:
    assert of(lives=ENDED) == (Churn.PER_MESSAGE,)
    assert of(lives=ENDED, life_spread=0.1) == (Churn.CANT_TELL, Churn.RESTART_LOOP, Churn.PER_MESSAGE)
    assert of(lives=replace(ENDED, on_schedule=True), life_spread=0.1) == (Churn.PER_MESSAGE,)
    # A container for each.
    assert of(lives=ENDED, hosts=300) == (Churn.PER_MESSAGE,)


def lives(times: Iterable[tuple[float, float]], host: str = "a") -> list[Life]:
    return [Life(host, round(begin * 1000), round(end * 1000)) for begin, end in times]


def known(lives: Lives | None) -> Lives:
    assert lives is not None
    return lives


def test_a_life_is_told_from_hand_outs_and_last_batches() -> None:
    minute = 60_000
    kept = lives([(at, 59.5) for at in range(0, 50, 10)])
    ended = lives([(at, at + 2) for at in range(0, 50, 10)])
    assert lives_of(kept, minute) == KEPT
    found = known(lives_of(ended, minute))
    assert (found.kept_share, found.used_seconds, found.outlived, found.down_spread) == (0.0, 2.0, 0.0, 0.0)
    # Each of these saw the three after it.
    assert known(lives_of(lives([(at, at + 31) for at in range(0, 500, 10)]), 600_000)).outlived == 3
    assert lives_of(lives([(59, 59)]), minute) is None


def test_a_clock_s_step_is_kept_and_that_of_a_wait_is_not() -> None:
    jitter = [0.1, 0.0, 0.2, 0.05] * 100
    on_time = lives([(8 * beat + off, 8 * beat + off) for beat, off in enumerate(jitter)])
    slipping = lives([(5.13 * beat + off, 5.13 * beat + off) for beat, off in enumerate(jitter)])
    for beats in (12, 40, 400):
        assert known(lives_of(on_time[:beats], 9_000_000)).on_schedule
        assert not known(lives_of(slipping[:beats], 9_000_000)).on_schedule
    assert known(lives_of([*on_time[:20], *on_time[25:60]], 9_000_000)).on_schedule
    assert not known(lives_of([*on_time, *lives([(0, 0), (1, 1)], "b")], 9_000_000)).on_schedule


# Whatever it is


@pytest.mark.parametrize("each", RECORDED, ids=lambda each: each["name"])
def test_what_real_clients_did_is_told(each: dict[str, Any]) -> None:
    requests, kinds = ChurnEvidence(**each["evidence"]), set(each["kinds"])
    found = diagnose(replace(requests, lives=Lives(**each["lives"])) if each["lives"] else requests)
    alone = diagnose(requests)
    assert {kind.value for kind in found.fitting} & kinds
    # What requests alone leave open, they name.
    assert {kind.value for kind in (alone.kind, *alone.could_be)} & kinds


def test_of_what_real_clients_did_little_is_left_open() -> None:
    told = [
        diagnose(ChurnEvidence(**each["evidence"], lives=each["lives"] and Lives(**each["lives"]))) for each in RECORDED
    ]
    assert sum(found.kind is Churn.CANT_TELL for found in told) <= 3
    assert len({each["name"].rpartition("-")[0] for each in RECORDED}) >= 15


def test_what_would_decide_is_said_where_something_is_open() -> None:
    open_one = Diagnosis(Churn.PER_MESSAGE, (Churn.LEAK,))
    assert "--bootstrap-servers" in what_decides(open_one, with_lives=False)
    assert "whether it stops" in what_decides(open_one, with_lives=True)
    war = Diagnosis(Churn.CANT_TELL, (Churn.RESTART_LOOP, Churn.FENCING_WAR))
    assert "transactional.id" in what_decides(war, with_lives=True)
    assert what_decides(Diagnosis(Churn.LEAK), with_lives=True) == ""


def test_harmless_is_what_is_harmless_whichever_it_is() -> None:
    assert Diagnosis(Churn.DEPLOY, (Churn.RESTART_LOOP,)).is_harmless
    assert not Diagnosis(Churn.CANT_TELL, (Churn.LEAK, Churn.SCALE_OUT)).is_harmless


def test_the_rate_is_counted_over_a_minute_at_least() -> None:
    assert replace(CHURN, new_pids=10, span_seconds=1).pids_per_hour == 600
    assert replace(CHURN, new_pids=10, span_seconds=120).pids_per_hour == 300


@pytest.mark.parametrize("kind", Churn)
def test_every_kind_has_a_fix_in_each_language(kind: Churn) -> None:
    fix = FIXES[kind]
    assert all(text.endswith(".") for text in (fix.summary, fix.java, fix.python, fix.librdkafka))
