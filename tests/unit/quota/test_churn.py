"""The churn diagnosis: what a client does, from what a broker can see of it."""

from dataclasses import replace

import pytest

from quota.churn import FIXES, Churn, Evidence, diagnose

# One new producer id every 3 s, without pattern.
CHURN = Evidence(
    client="app",
    new_pids=300,
    span_seconds=900,
    median_life_seconds=3.0,
    life_spread=1.5,
    growing_share=0.4,
)


def of(**values):
    return diagnose(replace(CHURN, **values))


def test_new_ids_faster_than_any_process_restarts_are_a_producer_per_message():
    assert of(median_life_seconds=0.05, life_spread=0.1) is Churn.PER_MESSAGE


def test_slower_ones_are_a_producer_per_batch_if_irregular():
    assert of() is Churn.PER_MESSAGE


@pytest.mark.parametrize("rhythm", [{"life_spread": 0.2}, {"growing_share": 0.9}])
def test_the_rhythm_of_a_supervisor_is_a_restart_loop(rhythm):
    assert of(**rhythm) is Churn.RESTART_LOOP


def test_java_s_own_client_ids_tell_processes_apart():
    regular = {"client": "producer-#", "life_spread": 0.1}
    assert of(**regular, client_ids=300) is Churn.PER_MESSAGE
    assert of(client="producer-#", client_ids=1) is Churn.RESTART_LOOP
    # Several producers in each life of the process: the rhythm decides.
    assert of(**regular, client_ids=3) is Churn.RESTART_LOOP


def test_errors_before_most_ids_explain_them_whatever_the_rhythm():
    assert of(errors_before_share=0.5, life_spread=0.1) is Churn.ON_ERROR
    assert of(errors_before_share=0.49, life_spread=0.1) is Churn.RESTART_LOOP


def test_who_asks_in_vain_again_and_again_does_so_on_error():
    assert of(new_pids=1, error_answers=5) is Churn.ON_ERROR
    assert of(new_pids=1, error_answers=4) is Churn.HEALTHY
    assert of(new_pids=300, error_answers=300) is not Churn.ON_ERROR


def test_many_hosts_with_a_few_ids_each_are_a_scale_out():
    assert of(hosts=100) is Churn.SCALE_OUT
    assert of(hosts=99) is Churn.PER_MESSAGE
    assert of(hosts=2, new_pids=6) is not Churn.SCALE_OUT


def test_long_lives_are_healthy():
    assert of(median_life_seconds=600, life_spread=0.1) is Churn.HEALTHY


def test_few_ids_and_those_of_a_start_are_healthy():
    burst = {"median_life_seconds": 0.1, "span_seconds": 10}
    assert of(new_pids=4, median_life_seconds=0.1) is Churn.HEALTHY
    assert of(new_pids=40, **burst) is Churn.HEALTHY
    assert of(new_pids=100, **burst) is Churn.PER_MESSAGE


def test_a_client_that_never_got_a_second_id_from_an_address_has_no_life_to_tell():
    assert of(hosts=300, median_life_seconds=None, life_spread=None, growing_share=None) is Churn.SCALE_OUT


def test_the_rate_is_counted_over_a_minute_at_least():
    assert replace(CHURN, new_pids=10, span_seconds=1).pids_per_hour == 600
    assert replace(CHURN, new_pids=10, span_seconds=120).pids_per_hour == 300


@pytest.mark.parametrize("kind", Churn)
def test_every_kind_has_a_fix_in_each_language(kind):
    fix = FIXES[kind]
    assert all(text.endswith(".") for text in (fix.summary, fix.java, fix.python, fix.librdkafka))
