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
ENDED = Lives(kept_share=0.0, used_seconds=0.1, down_seconds=3.0)
KEPT = Lives(kept_share=1.0, kept_seconds=3600.0)
RECORDED = json.loads(Path(__file__).with_name("recorded_churn.json").read_text(encoding="utf-8"))

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


def of(**values: Any) -> tuple[Churn, ...]:
    found = diagnose(replace(CHURN, **values))
    return (found.kind, *found.could_be)


# By answers


def test_fewer_than_five_new_ids_are_healthy() -> None:
    assert of(new_pids=4, median_life_seconds=0.1) == (HEALTHY,)
    assert of(new_pids=5, median_life_seconds=0.1) != (HEALTHY,)


def test_errors_before_most_ids_explain_them_unless_a_process_restarts_after_each() -> None:
    assert of(errors_before_share=0.5) == (ON_ERROR, RESTART)
    assert ON_ERROR not in of(errors_before_share=0.49)
    # One error is no habit.
    assert of(new_pids=1, errors_before_share=1.0, error_answers=1) == (HEALTHY,)


def test_more_errors_than_new_ids_mean_retries_in_vain() -> None:
    assert of(new_pids=1, error_answers=5) == (ON_ERROR, RESTART)
    assert of(new_pids=1, error_answers=4) == (HEALTHY,)
    assert ON_ERROR not in of(new_pids=300, error_answers=300)


def test_a_fencing_war_is_likely_if_instances_are_fenced_or_take_over_ten_times_within_a_minute() -> None:
    assert of(new_pids=1, fenced_answers=2, instances=3) == (WAR,)
    assert of(new_pids=1, fenced_answers=1, instances=3) == (HEALTHY,)
    assert of(new_pids=1, returns=10, instances=20, instance_seconds=59.0) == (WAR,)
    assert of(new_pids=1, returns=10, instances=20, instance_seconds=60.0) == (WAR, RESTART)


def test_a_transactional_id_that_moves_between_hosts_may_be_a_task_that_fails_or_a_deploy() -> None:
    moving = {"new_pids": 1, "returns": 3, "instances": 6}

    assert of(**moving, instance_seconds=599.0) == (WAR, RESTART)
    assert of(**moving, instance_seconds=10_000.0) == (HEALTHY, WAR)
    assert of(**moving, instance_seconds=10_000.0, fenced_answers=2, error_answers=2) == (WAR,)
    assert of(new_pids=1, returns=2, instances=4) == (HEALTHY,)


def test_rivals_with_one_name_and_address_look_like_a_restart_loop_or_a_pool() -> None:
    again = {"new_pids": 1, "instances": 20}
    assert of(**again, instance_seconds=4.0) == (HEALTHY, RESTART, WAR)
    assert of(new_pids=5, instances=20, instance_seconds=4.0) == (CANT_TELL, RESTART, WAR, HEALTHY)
    assert of(**again, instance_seconds=3600.0) == (HEALTHY,)
    # Many more new ids than take-overs: the take-overs do not explain them.
    assert WAR not in of(new_pids=300, instances=5, instance_seconds=4.0)


# By requests alone

ALL = (RESTART, PER_MESSAGE, LEAK, DEPLOY, SCALE_OUT)


def test_requests_alone_leave_several_kinds_for_many_ids() -> None:
    assert of() == (CANT_TELL, *ALL)
    assert of(life_spread=0.2) == (CANT_TELL, *ALL)


def test_up_to_99_ids_within_30_seconds_are_likely_a_healthy_start() -> None:
    burst = {"median_life_seconds": 0.1, "silent_seconds": 60}
    assert of(new_pids=99, span_seconds=30, **burst) == (HEALTHY, *ALL)
    assert of(new_pids=100, span_seconds=30, **burst) == (CANT_TELL, *ALL)
    assert of(new_pids=99, span_seconds=31, **burst) == (CANT_TELL, *ALL, HEALTHY)
    assert of(new_pids=99, span_seconds=601, silent_seconds=600) == (CANT_TELL, *ALL)


def test_a_start_that_a_throttle_has_cut_short_may_be_any_kind() -> None:
    burst = {"new_pids": 93, "span_seconds": 18, "silent_seconds": 3000, "median_life_seconds": 0.2}
    assert of(**burst)[0] is HEALTHY
    assert of(**burst, throttles=1) == (CANT_TELL, *ALL, HEALTHY)
    assert of(**burst, throttles=1, lives=ENDED)[0] is PER_MESSAGE
    # While the throttle lasts, silence does not show that the requests have ended.
    assert LEAK not in of(**burst, throttles=1, lives=KEPT)
    assert LEAK in of(**burst, throttles=1, throttled_now=True, lives=KEPT)


def test_one_id_an_hour_from_each_address_may_be_healthy() -> None:
    assert of(new_pids=24, span_seconds=23 * 3600) == (HEALTHY, *ALL)
    assert of(new_pids=25, span_seconds=23 * 3600) == (CANT_TELL, *ALL)
    assert of(new_pids=25, span_seconds=23 * 3600, hosts=2) == (CANT_TELL, *ALL, HEALTHY)


def test_fast_ids_that_go_on_are_likely_a_producer_per_message() -> None:
    fast = {"new_pids": 2000, "median_life_seconds": 0.4, "span_seconds": 900}
    assert of(**fast) == (PER_MESSAGE, RESTART, LEAK)
    assert of(**fast, hosts=2) == (PER_MESSAGE, RESTART, LEAK, DEPLOY, SCALE_OUT)
    assert of(**fast, silent_seconds=300) == (CANT_TELL, RESTART, PER_MESSAGE, LEAK)
    # Groups of ids with pauses between them are not fast.
    assert of(new_pids=100, median_life_seconds=0.4)[0] is CANT_TELL


def test_growing_waits_are_likely_those_of_a_supervisor() -> None:
    assert of(growing_share=0.65)[0] is RESTART
    assert of(growing_share=0.64)[0] is CANT_TELL
    assert of(growing_share=0.74, new_pids=17)[0] is CANT_TELL


def test_a_few_ids_from_each_of_many_hosts_that_have_ended_are_likely_a_scale_out() -> None:
    assert of(hosts=100, silent_seconds=300) == (SCALE_OUT, RESTART, PER_MESSAGE, LEAK, DEPLOY)
    assert of(hosts=100)[0] is CANT_TELL
    assert of(hosts=99, silent_seconds=300)[0] is CANT_TELL


def test_groups_at_least_two_hours_apart_are_likely_deploys() -> None:
    others = (RESTART, PER_MESSAGE, LEAK, SCALE_OUT)
    assert of(new_pids=60, steps=3, span_seconds=14_400) == (DEPLOY, *others)
    assert of(new_pids=60, steps=3, span_seconds=14_399) == (CANT_TELL, DEPLOY, *others)
    assert of(new_pids=60, steps=30)[0] is not DEPLOY


def test_more_ids_than_an_address_hides_processes_are_no_deploy_and_no_scale_out() -> None:
    assert of(new_pids=1000) == (CANT_TELL, *ALL)
    assert of(new_pids=1001) == (CANT_TELL, RESTART, PER_MESSAGE, LEAK)
    assert of(new_pids=1001, steps=2) == (CANT_TELL, DEPLOY, RESTART, PER_MESSAGE, LEAK, SCALE_OUT)


def test_a_transactional_id_for_each_new_id_is_likely_flink_s_default() -> None:
    others = (RESTART, LEAK, DEPLOY, SCALE_OUT)
    assert of(transactional_ids=240) == (NEW_TRANSACTIONAL_ID, *others)
    assert NEW_TRANSACTIONAL_ID not in of(transactional_ids=239)
    assert of(transactional_ids=300, steps=60) == (CANT_TELL, NEW_TRANSACTIONAL_ID, *others)


def test_java_s_client_ids_that_count_up_are_those_of_one_process() -> None:
    java = {"client": "producer-#", "client_ids": 300}
    assert of(**java, counted_ids=75) == (CANT_TELL, PER_MESSAGE, LEAK)
    assert of(**java, counted_ids=74) == (CANT_TELL, *ALL)
    assert of(**java, counted_ids=300, lives=ENDED) == (PER_MESSAGE, LEAK)
    assert of(**java, counted_ids=300, lives=KEPT) == (LEAK,)
    # A session may end after an hour.
    assert of(**java, counted_ids=300, lives=replace(KEPT, kept_seconds=3599)) == (LEAK, PER_MESSAGE)
    # Up to 50 producers may be opened on demand, and count up as well.
    assert of(**java | {"new_pids": 49}, counted_ids=49, lives=KEPT) == (LEAK, HEALTHY)
    assert of(**java | {"new_pids": 19}, counted_ids=19, lives=KEPT)[0] is CANT_TELL


def test_java_s_first_client_id_each_time_excludes_no_leak_since_a_process_that_hangs_leaks_its_own() -> None:
    anew = {"client": "producer-#", "client_ids": 1}
    assert of(**anew) == (CANT_TELL, RESTART, PER_MESSAGE, LEAK, DEPLOY, SCALE_OUT)
    assert of(**anew, lives=ENDED) == (CANT_TELL, RESTART, PER_MESSAGE, LEAK)


def test_a_cause_that_rarely_leaves_such_evidence_is_named_as_unlikely_and_never_left_out() -> None:
    war = diagnose(ChurnEvidence(client="app", new_pids=5, span_seconds=60, fenced_answers=2, instances=3))
    assert (war.kind, war.could_be) == (Churn.FENCING_WAR, ())
    assert {RESTART, DEPLOY} <= {*war.unlikely}
    few = diagnose(ChurnEvidence(client="app", new_pids=4, span_seconds=60))
    assert few == Diagnosis(HEALTHY)


# By lives


def test_ids_that_stay_in_use_are_a_leak_if_more_arrive_for_an_hour() -> None:
    kept = {"lives": KEPT, "new_pids": 50, "span_seconds": 3600}
    assert of(**kept) == (LEAK, DEPLOY, SCALE_OUT)
    assert of(**kept | {"new_pids": 49}) == (CANT_TELL, LEAK, DEPLOY, SCALE_OUT)
    assert of(**kept | {"span_seconds": 3599}) == (CANT_TELL, LEAK, DEPLOY, SCALE_OUT)


def test_ids_that_stay_in_use_while_no_more_arrive_are_a_scale_out_or_a_start() -> None:
    assert of(lives=KEPT, silent_seconds=400) == (SCALE_OUT, LEAK, DEPLOY)
    assert of(lives=KEPT, new_pids=30, span_seconds=20, silent_seconds=400) == (HEALTHY, DEPLOY, SCALE_OUT)
    assert LEAK in of(lives=KEPT, new_pids=30, span_seconds=20, silent_seconds=1)
    assert of(lives=replace(KEPT, kept_share=0.79), silent_seconds=400)[0] is not SCALE_OUT


def test_a_few_groups_that_stay_in_use_may_be_the_waves_of_a_roll_out() -> None:
    waves = {"lives": KEPT, "new_pids": 60, "span_seconds": 7200}
    assert of(**waves, steps=4)[0] is CANT_TELL
    assert of(**waves, steps=5)[0] is LEAK


def test_ids_in_use_for_five_minutes_exclude_processes_that_end() -> None:
    assert of(lives=replace(KEPT, kept_share=0.95, kept_seconds=300)) == (CANT_TELL, LEAK, DEPLOY, SCALE_OUT)
    assert of(lives=replace(KEPT, kept_share=0.94)) == (CANT_TELL, *ALL)
    assert of(lives=replace(KEPT, kept_seconds=299)) == (CANT_TELL, *ALL)


def test_groups_whose_ids_end_as_the_next_group_begins_are_likely_deploys() -> None:
    replaced = Lives(kept_share=0.05, used_seconds=3600, replaced_share=0.5)
    hourly = {"new_pids": 480, "steps": 24, "span_seconds": 1800 * 23}
    assert of(lives=replaced, **hourly) == (DEPLOY, RESTART, PER_MESSAGE, LEAK)
    assert of(lives=replace(replaced, replaced_share=0.49), **hourly)[0] is not DEPLOY
    assert of(lives=replace(replaced, used_seconds=59.0), **hourly)[0] is not DEPLOY
    # Replicas that crash together come back as often.
    assert of(lives=replaced, **hourly | {"span_seconds": 1799 * 23})[0] is CANT_TELL
    # One by one with a minute between them.
    assert of(lives=replaced, new_pids=480, steps=480) == (CANT_TELL, RESTART, PER_MESSAGE, LEAK, DEPLOY)


def test_groups_that_end_before_the_next_ones_begin_are_likely_jobs() -> None:
    # A job of each hour opens 20 producers for four minutes.
    jobs = lives((at, at + 240) for hour in range(24) for at in range(3600 * hour, 3600 * hour + 20))
    found = known(lives_of(jobs, 24 * 3_600_000))
    assert found.replaced_share == 0.0

    assert of(lives=found, new_pids=480, steps=24) == (PER_MESSAGE, DEPLOY, RESTART, LEAK, SCALE_OUT)
    # Workers that are recycled one by one.
    assert of(lives=found, new_pids=480, steps=480) == (CANT_TELL, *ALL)


def test_equal_waits_after_work_of_varying_length_are_likely_those_of_a_supervisor() -> None:
    crashes = Lives(kept_share=0, used_seconds=5, used_spread=0.9, down_seconds=3, down_spread=0.1)
    assert of(lives=crashes) == (RESTART, PER_MESSAGE, LEAK)
    assert of(lives=replace(crashes, used_seconds=600)) == (RESTART, PER_MESSAGE, LEAK, DEPLOY, SCALE_OUT)
    for other in (
        replace(crashes, down_seconds=0.0),
        replace(crashes, down_spread=0.6),
        replace(crashes, used_spread=0.5),
    ):
        assert of(lives=other)[0] is CANT_TELL


def test_ids_used_at_once_are_likely_a_producer_per_message_at_irregular_times_or_on_schedule() -> None:
    brief = (PER_MESSAGE, RESTART, LEAK)
    assert of(lives=ENDED) == brief
    assert of(lives=ENDED, life_spread=0.1) == (CANT_TELL, RESTART, PER_MESSAGE, LEAK)
    assert of(lives=replace(ENDED, on_schedule=True), life_spread=0.1) == brief
    assert of(lives=replace(ENDED, kept_share=0.11))[1:] == (RESTART, LEAK, DEPLOY, SCALE_OUT)


def test_a_flood_of_ids_used_at_once_is_likely_a_producer_per_message() -> None:
    flood = {"lives": ENDED, "median_life_seconds": 0.1}
    assert of(**flood, new_pids=25_001) == (PER_MESSAGE,)
    assert of(**flood, new_pids=25_000) == (PER_MESSAGE, RESTART, LEAK)


def test_processes_that_write_once_and_come_in_groups_or_from_many_hosts_may_be_a_deploy() -> None:
    assert of(lives=ENDED, hosts=299) == (PER_MESSAGE, RESTART, LEAK, DEPLOY, SCALE_OUT, HEALTHY)
    assert DEPLOY in of(lives=ENDED, new_pids=60, steps=3, span_seconds=3600)
    assert DEPLOY not in of(lives=ENDED, new_pids=60, steps=3, span_seconds=3599)


def lives(times: Iterable[tuple[float, float]], host: str = "a") -> list[Life]:
    return [Life(host, round(begin * 1000), round(end * 1000)) for begin, end in times]


def known(lives: Lives | None) -> Lives:
    assert lives is not None
    return lives


def test_lives_summarise_how_long_ids_were_in_use() -> None:
    kept = lives([(at, 59.5) for at in range(0, 50, 10)])
    ended = lives([(at, at + 2) for at in range(0, 50, 10)])
    assert known(lives_of(kept, 60_000)) == Lives(kept_share=1.0, kept_seconds=39.5, silent_seconds=0.5)
    found = known(lives_of(ended, 60_000))
    assert (found.kept_share, found.used_seconds, found.down_seconds, found.down_spread) == (0.0, 2.0, 8.0, 0.0)
    overlapping = known(lives_of(lives([(at, at + 31) for at in range(0, 500, 10)]), 600_000))
    assert overlapping.down_seconds == 0.0
    assert lives_of(lives([(59, 59)]), 60_000) is None


def test_ids_of_a_client_that_pauses_count_as_in_use() -> None:
    paused = known(lives_of(lives([(at, 3600) for at in range(0, 3000, 60)]), 12 * 3_600_000))
    assert (paused.kept_share, paused.silent_seconds) == (1.0, 39_600.0)
    ended = known(lives_of(lives([(at, at + 5) for at in range(0, 3000, 60)]), 12 * 3_600_000))
    assert ended.kept_share == 0.0


def test_a_clock_s_step_is_kept_and_that_of_a_wait_is_not() -> None:
    jitter = [0.1, 0.0, 0.2, 0.05] * 100
    on_time = lives([(8 * beat + off, 8 * beat + off) for beat, off in enumerate(jitter)])
    slipping = lives([(5.13 * beat + off, 5.13 * beat + off) for beat, off in enumerate(jitter)])
    for beats in (12, 40, 400):
        assert known(lives_of(on_time[:beats], 9_000_000)).on_schedule
        assert not known(lives_of(slipping[:beats], 9_000_000)).on_schedule
    assert known(lives_of([*on_time[:20], *on_time[25:60]], 9_000_000)).on_schedule
    assert not known(lives_of([*on_time, *lives([(0, 0), (1, 1)], "b")], 9_000_000)).on_schedule


# Any kind


@pytest.mark.parametrize("each", RECORDED, ids=lambda each: each["name"])
def test_the_cause_of_what_real_clients_did_is_found(each: dict[str, Any]) -> None:
    requests, kinds = ChurnEvidence(**each["evidence"]), set(each["kinds"])
    found = diagnose(replace(requests, lives=Lives(**each["lives"])) if each["lives"] else requests)
    alone = diagnose(requests)
    assert {kind.value for kind in found.fitting} & kinds
    # Requests alone leave more kinds open, the cause among them.
    assert {kind.value for kind in (alone.kind, *alone.could_be)} & kinds


def test_most_of_what_real_clients_did_gets_a_likely_cause() -> None:
    diagnoses = [
        diagnose(ChurnEvidence(**each["evidence"], lives=each["lives"] and Lives(**each["lives"]))) for each in RECORDED
    ]
    assert sum(found.kind is Churn.CANT_TELL for found in diagnoses) <= 9
    assert len({each["name"].rpartition("-")[0] for each in RECORDED}) >= 15


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


def test_the_rate_is_counted_over_a_minute_at_least() -> None:
    assert replace(CHURN, new_pids=10, span_seconds=1).pids_per_hour == 600
    assert replace(CHURN, new_pids=10, span_seconds=120).pids_per_hour == 300


@pytest.mark.parametrize("kind", Churn)
def test_every_kind_has_a_fix_in_each_language(kind: Churn) -> None:
    fix = FIXES[kind]
    assert all(text.endswith(".") for text in (fix.summary, fix.java, fix.python, fix.librdkafka))
