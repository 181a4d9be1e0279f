"""`pid-quota why`, and the evidence that the view `principal_churn` collects."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.lifecycle import why
from lifecycle.churn import Churn, Diagnosis, diagnosis_text
from lifecycle.churn_fixes import FIXES
from tables.query.churn_clients import diagnosis_of
from tables.query.sql_query import query
from tests.kits.command_kit import PidQuota, printed
from tests.kits.kip_kit import ago, append_kip_tables, deploys, failed_init, init, now
from tests.unit.jobs.table_rows import Row, append, broker_state, confirmed, decision, hold_fact, metrics, seconds

SERVICE = "system:serviceaccount:data:etl"
ANY = (Churn.LEAK, Churn.SCALE_OUT, Churn.DEPLOY, Churn.RESTART_LOOP, Churn.PER_MESSAGE)


def text(kind: Churn, *others: Churn, unlikely: tuple[Churn, ...] = ()) -> str:
    return diagnosis_text(Diagnosis(kind, tuple(other for other in others if other is not kind), unlikely))


def rows_of(
    times: Iterable[float], principal: str | None = "User:m", client_id: str = "app", first: int = 0, **values: Any
) -> list[Row]:
    """One new producer id at each of some times, in seconds ago."""
    return [
        init(ago(at), first + number, principal=principal, client_id=client_id, **values)
        for number, at in enumerate(times)
    ]


def every(gap_s: float, count: int, jitter: float = 0.0, seed: int = 1) -> list[float]:
    rng = np.random.default_rng(seed)
    times, at = [], 3600.0
    for _ in range(count):
        times.append(at)
        at -= gap_s * (1 + jitter * (rng.random() - 0.5))
    return times


def going_on(gap_s: float, count: int) -> list[float]:
    return [gap_s * number for number in range(count, 0, -1)]


def diagnoses(tables: Path) -> dict[tuple[str, str], str]:
    rows = query(str(tables), "TABLE principal_churn", now()).records()
    return {(row["principal"], row["client"]): diagnosis_text(diagnosis_of(row)) for row in rows}


def kinds(tables: Path) -> dict[tuple[str, str], Churn]:
    rows = query(str(tables), "TABLE principal_churn", now()).records()
    return {(row["principal"], row["client"]): diagnosis_of(row).kind for row in rows}


def takes(name: str, rivals: Sequence[tuple[str, str]], count: int, gap_s: float, **values: Any) -> list[Row]:
    """A transactional id, taken in turn by some rivals, each a client id and an address."""
    return [
        init(
            ago(3600 - gap_s * number),
            7000,
            principal=f"User:{name}",
            transactional_id=name,
            result_producer_epoch=number,
            client_id=rivals[number % len(rivals)][0],
            client_host=rivals[number % len(rivals)][1],
            **values,
        )
        for number in range(count)
    ]


def fenced_first(count: int) -> list[Row]:
    """Connect's leader fences a task's id, whose last transaction ends, and one of two workers takes it (KIP-618)."""
    fencer, task = "connector-worker-adminclient-x", "connector-producer-x-0"
    pay = {"principal": "User:connect", "transactional_id": "connect-x-0"}
    rows = []
    for number in range(count):
        at, epoch, host = 600 - 20 * number, 2 * number, f"10.0.0.{number % 2}"
        rows += [
            init(ago(at), 9, **pay, client_id=fencer, client_host="10.0.0.9", result_producer_epoch=epoch),
            failed_init(ago(at - 1), "CONCURRENT_TRANSACTIONS", **pay, client_id=task, client_host=host),
            init(ago(at - 2), 9, **pay, client_id=task, client_host=host, result_producer_epoch=epoch + 1),
        ]
    return rows


def test_a_task_that_connect_fences_before_each_start_has_no_rival(tmp_path: Path) -> None:
    append_kip_tables(tmp_path, inits=fenced_first(12))
    assert set(diagnoses(tmp_path).values()) == {"healthy"}


def test_it_shows_the_entries_of_the_principal_at_the_last_sweep(pid_quota: PidQuota, tmp_path: Path) -> None:
    append_kip_tables(tmp_path, inits=rows_of(going_on(0.5, 100)))
    before = pid_quota("why", "User:m", "--tables", tmp_path)[1]
    swept = {
        "swept_at": ago(600), "topic": "t", "principal": "User:m", "led_pids": 10, "held_pids": 100_000,
        "open_transactions": 0, "idle_hours": [100_000], "estimated_bytes": 30_600_000, "expiration_ms": 86_400_000,
        "missing_replicas": 0,
    }  # fmt: skip
    other = {"principal": "User:n", "held_pids": 7}
    append(tmp_path, "producer_occupancy", {**swept, "broker_id": 1}, {**swept, "broker_id": 2, "swept_at": ago(900)})
    append(tmp_path, "producer_occupancy", {**swept, **other, "broker_id": 3})
    # An older sweep of a broker does not count.
    append(tmp_path, "producer_occupancy", {**swept, "broker_id": 1, "swept_at": ago(4000), "held_pids": 5})

    _, text, _ = pid_quota("why", "User:m", "--tables", tmp_path)
    _, as_json, _ = pid_quota("why", "User:m", "--tables", tmp_path, "--json")

    assert "held by brokers" not in before
    assert (
        "held by brokers: 200,000 entries (producer ids times partitions times replicas), about 61.2 MB of heap" in text
    )
    held = json.loads(as_json)["held"]
    assert (held["entries"], held["estimated_bytes"]) == (200_000, 61_200_000)
    assert datetime.fromisoformat(held["swept_at"]) == ago(900)


def test_client_ids_that_count_up_or_end_in_a_uuid_are_one_client(tmp_path: Path) -> None:
    uuids = ("0b5a9dcb-8f9a-4a1c-9c55-1b9e5f7d2a01", "77aa9dcb-8f9a-4a1c-9c55-1b9e5f7d2a02")
    append_kip_tables(
        tmp_path,
        inits=[
            *(row for n in range(40) for row in rows_of([600 - 3 * n], "User:java", f"producer-{n}", first=n)),
            *rows_of(every(3, 40), "User:loop", "producer-1", first=100),
            *(row for n, uuid in enumerate(uuids) for row in rows_of([n], "User:uuid", f"job-{uuid}", first=200 + n)),
            *rows_of([5], "User:word", "decade", first=300),
        ],
    )
    found = kinds(tmp_path)
    assert found == {
        ("User:java", "producer-#"): Churn.CANT_TELL,
        ("User:loop", "producer-#"): Churn.CANT_TELL,
        ("User:uuid", "job-#"): Churn.HEALTHY,
        ("User:word", "decade"): Churn.HEALTHY,
    }
    # One process counts its producers; one that starts anew begins with 1 again.
    assert "unlikely scale-out, deploy or restart loop" in diagnoses(tmp_path)["User:java", "producer-#"]


@pytest.mark.parametrize(
    ("client_id", "client"),
    [
        ("producer-17", "producer-#"),
        ("app-0b5a9dcb-8f9a-4a1c-9c55-1b9e5f7d2a01-StreamThread-1-producer", "app-#-StreamThread-1-producer"),
        ("checkout-5f7b8c9d6-x2x7k", "checkout-#"),
        ("kafka-nodejs-producer", "kafka-nodejs-producer"),
        ("sink-1c9f03ab77-out", "sink-#-out"),
        ("decade-v2", "decade-v#"),
        ("app-0B5A9DCB-8F9A-4A1C-9C55-1B9E5F7D2A01", "app-#"),
        ("app-{0B5A9DCB-8F9A-4A1C-9C55-1B9E5F7D2A01}", "app-{#}"),
        ("sink-1C9F03AB77-out", "sink-#-out"),
        ("sink-01ARZ3NDEKTSV4RRFFQ69G5FAV-out", "sink-#-out"),
        ("rdkafka", "rdkafka"),
    ],
)
def test_generated_parts_of_a_client_id_become_a_hash_sign(tmp_path: Path, client_id: str, client: str) -> None:
    append_kip_tables(tmp_path, inits=rows_of([5], "User:m", client_id))
    assert [name for _, name in diagnoses(tmp_path)] == [client]


def test_twenty_clients_with_few_new_ids_count_as_one_and_busy_ones_stay_apart(tmp_path: Path) -> None:
    rare = ["".join(pair) for pair in product("ghijk", "lmno")]
    inits = [row for n, name in enumerate(rare) for row in rows_of([600 - n], "User:m", name, first=n)]
    inits += rows_of(every(3, 5), "User:m", "busy", first=1000)
    inits += [row for n, name in enumerate(rare[:19]) for row in rows_of([n], "User:n", name, first=2000 + n)]
    inits += [row for n, name in enumerate(rare) for row in rows_of([n], None, name, first=3000 + n)]
    append_kip_tables(tmp_path, inits=inits)

    found = diagnoses(tmp_path)

    assert [name for principal, name in found if principal == "User:m"] == ["*", "busy"]
    assert len([name for principal, name in found if principal == "User:n"]) == 19
    assert [name for principal, name in found if principal is None] == ["*"]


def test_all_but_the_fifty_clients_with_most_new_ids_count_as_one(tmp_path: Path) -> None:
    names = ["".join(pair) for pair in product("ghijkl", "mnopqrstu")]
    inits = [row for n, name in enumerate(names) for row in rows_of(every(3, 5 + n), "User:m", name, first=100 * n)]
    append_kip_tables(tmp_path, inits=inits)

    counts = query(str(tmp_path), "SELECT client, new_pids FROM principal_churn", now()).rows

    assert len(counts) == 51
    assert dict(counts)["*"] == 5 + 6 + 7 + 8


def test_a_client_with_a_new_client_id_each_time_counts_as_one(tmp_path: Path) -> None:
    names = [f"c{number:04d}x" for number in range(60)]
    inits = [row for n, name in enumerate(names) for row in rows_of([600 - n], "User:m", name, first=n)]
    append_kip_tables(tmp_path, inits=inits)
    assert kinds(tmp_path) == {("User:m", "*"): Churn.CANT_TELL}


def test_an_error_answer_before_an_id_counts_for_the_same_client_and_address_only(tmp_path: Path) -> None:
    refused = {"transactional_id": "t", "producer_id": 5, "producer_epoch": 1}
    times = every(3, 30)
    append_kip_tables(
        tmp_path,
        inits=[
            *rows_of(times, "User:m", first=0),
            *(failed_init(ago(at + 1), "PRODUCER_FENCED", principal="User:m", **refused) for at in times),
            *rows_of(times, "User:n", first=100),
            *(
                failed_init(ago(at + 1), "PRODUCER_FENCED", principal="User:n", client_host="h", **refused)
                for at in times
            ),
            *rows_of(times, "User:o", first=200),
            *(failed_init(ago(at + 1), "CONCURRENT_TRANSACTIONS", principal="User:o", **refused) for at in times),
        ],
    )
    select = "SELECT principal, errors_before_share FROM principal_churn"
    assert dict(query(str(tmp_path), select, now()).rows) == {"User:m": 1.0, "User:n": 0.0, "User:o": 0.0}


def test_a_client_that_gets_only_errors_is_diagnosed(tmp_path: Path) -> None:
    inits = [failed_init(ago(60 - n), "INVALID_TRANSACTION_TIMEOUT", transactional_id="t") for n in range(6)]
    append_kip_tables(tmp_path, inits=inits)
    (row,) = query(str(tmp_path), "TABLE principal_churn", now()).records()
    assert (row["new_pids"], row["error_answers"]) == (0, 6)


def test_epochs_are_no_producer_ids(tmp_path: Path) -> None:
    bumps = [
        init(ago(600 - n), 7, transactional_id="pay", producer_id=7, producer_epoch=n, result_producer_epoch=n + 1)
        for n in range(50)
    ]
    append_kip_tables(tmp_path, inits=[init(ago(601), 7, transactional_id="pay"), *bumps])
    (row,) = query(str(tmp_path), "TABLE principal_churn", now()).records()
    assert (row["new_pids"], row["epoch_bumps"], row["instances"]) == (1, 50, 0)


class TestCommand:
    @pytest.mark.parametrize(
        ("inits", "is_shown"),
        [(deploys, True), (lambda who, at: rows_of(going_on(0.4, 120), who), False)],
        ids=["deploys", "per message"],
    )
    def test_a_throttled_deploy_gets_the_command_for_a_quota(
        self,
        pid_quota: PidQuota,
        tmp_path: Path,
        inits: Callable[[str, datetime], list[Row]],
        is_shown: bool,
    ) -> None:
        throttle = decision("User:pods", ago(30), throttled_until=now() + seconds(3600))
        append_kip_tables(tmp_path, inits=inits("User:pods", ago(60)), decisions=[throttle])

        out = pid_quota("why", "User:pods", "--tables", tmp_path)[1]

        assert ("--suggest --entity-name pods` prints the command" in out) == is_shown

    def test_it_prints_diagnosis_evidence_and_the_fix_in_each_language(
        self, pid_quota: PidQuota, tmp_path: Path
    ) -> None:
        append_kip_tables(
            tmp_path,
            inits=[*rows_of(going_on(0.4, 120), "User:mallory", "batch"), *rows_of([9], "User:mallory", "other", 500)],
            decisions=[
                decision(
                    "User:mallory",
                    ago(30),
                    throttled_until=now() + seconds(3600),
                    addresses=[("10.0.0.8", 2), ("10.0.0.7", 1200)],
                ),
                decision("User:mallory", ago(100), addresses=[("10.0.0.9", 7)]),
                decision("User:bob", ago(20), addresses=[("10.0.0.6", 7)]),
            ],
        )
        append(tmp_path, "broker_status", broker_state(1, datetime.now(timezone.utc)))
        out = printed(pid_quota("why", "User:mallory", "--tables", tmp_path))
        fix = FIXES[Churn.PER_MESSAGE]
        host = init(now(), 0)["client_host"]
        assert out.splitlines()[:10] == [
            "User:mallory: 2 throttles in the last 24 hours, throttled now",
            "  refused in its last throttle, by address: 10.0.0.7 (1,200), 10.0.0.8 (2)",
            f"client batch: {text(Churn.PER_MESSAGE, *ANY)}",
            "  evidence: 120 new producer ids in 24 h (7,200 an hour while active), the next one after 0.4 s (median), "
            "0% after an error, 1 address",
            f"  new producer ids by address: {host} (120)",
            "  what decides: how long each producer id is in use: give --bootstrap-server to ask the brokers",
            f"  fix: {fix.summary}",
            f"  Java: {fix.java}",
            f"  Python: {fix.python}",
            f"  librdkafka: {fix.librdkafka}",
        ]
        assert out.splitlines()[10:] == [
            "client other: healthy",
            "  evidence: 1 new producer id in 24 h, no second one from any address, 0% after an error, 1 address",
            f"  new producer ids by address: {host} (1)",
        ]

    def test_the_addresses_with_most_new_ids_are_named_and_json_contains_more(
        self, pid_quota: PidQuota, tmp_path: Path
    ) -> None:
        hosts = [f"10.0.0.{min(number, 39)}" for number in range(42)]
        inits = [
            *(row for n, host in enumerate(hosts) for row in rows_of([600 - n], "User:m", first=n, client_host=host)),
            *rows_of([5], "User:m", "unknown", first=100, client_host=None),
        ]
        decisions = [decision("User:m", ago(60 - count), addresses=[("10.0.0.7", count)]) for count in (1, 2)]
        append_kip_tables(tmp_path, inits=inits, decisions=decisions)

        lines = pid_quota("why", "m", "--tables", tmp_path)[1].splitlines()
        found = json.loads(pid_quota("why", "m", "--tables", tmp_path, "--json")[1])

        assert lines[1] == "  refused in its last throttle, by address: 10.0.0.7 (2)"
        by_address = next(line for line in lines if line.startswith("  new producer ids by address: "))
        assert by_address.startswith("  new producer ids by address: 10.0.0.39 (3), ")
        assert by_address.endswith(" (1), others (35)")
        assert found["refused_from"] == {"10.0.0.7": 2}
        app, unknown = (client["addresses"] for client in found["clients"])
        assert (len(app), app["10.0.0.39"], sum(app.values())) == (40, 3, 42)
        assert unknown == {}

    def test_all_addresses_are_named_if_clients_are_merged_into_one_row(
        self, pid_quota: PidQuota, tmp_path: Path
    ) -> None:
        # given so many clients that the view puts them into one row
        names = ["".join(pair) for pair in product("abcdefgh", repeat=2)]
        inits = [row for n, name in enumerate(names) for row in rows_of([600 - n], client_id=name, first=n)]
        append_kip_tables(tmp_path, inits=inits)

        (client,) = json.loads(pid_quota("why", "m", "--tables", tmp_path, "--json")[1])["clients"]

        assert client["client"] == "*"
        assert sum(client["addresses"].values()) == len(names)

    def test_an_uncertain_diagnosis_has_a_fix_for_each_possible_kind(self, pid_quota: PidQuota, tmp_path: Path) -> None:
        append_kip_tables(tmp_path, inits=rows_of(every(5, 40), "User:crash"))
        out = pid_quota("why", "crash", "--tables", tmp_path)[1]
        assert f"client app: {text(Churn.CANT_TELL, Churn.HEALTHY, *ANY)}" in out
        for kind in ANY:
            assert f"  fix if {kind.value}: {FIXES[kind].summary}" in out

    @pytest.mark.parametrize(
        ("begin_s", "gap_s", "answered", "last_s", "words"),
        [
            (600, 5, 120, 0, ("client app: likely leak, else scale-out or deploy", "100% still in use")),
            # The others may be on topics without a right to read.
            (600, 5, 50, 0, ("client app: can't tell",)),
            (40_000, 60, 120, -7200, ("100% in use when the client last wrote, 2 h ago",)),
            # Times of old records, and of a device with a wrong clock, do not tell when an id was in use.
            (600, 5, 120, -3 * 86_400, ("client app: can't tell", "(median), 0% after an error")),
            (600, 5, 120, 3000, ("client app: can't tell", "(median), 0% after an error")),
        ],
        ids=[
            "they decide the diagnosis",
            "few decide nothing",
            "a client that pauses has kept its producers",
            "old",
            "future",
        ],
    )
    def test_answers_of_the_brokers_are_used(
        self,
        pid_quota: PidQuota,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        begin_s: int,
        gap_s: int,
        answered: int,
        last_s: int,
        words: tuple[str, ...],
    ) -> None:
        append_kip_tables(tmp_path, inits=rows_of([begin_s - gap_s * n for n in range(120)], "User:m"))
        last = dict.fromkeys(range(answered), round((now().timestamp() + last_s) * 1000))
        monkeypatch.setattr(why, "ask_last_batches", lambda *_: last)
        out = pid_quota("why", "m", "--tables", tmp_path, "--bootstrap-server", "kafka:9092")[1]
        assert all(each in out for each in words)

    def test_a_tool_is_known_by_its_names_and_gets_the_fix_that_it_has(
        self, pid_quota: PidQuota, tmp_path: Path
    ) -> None:
        times = [600.0 - 10 * number for number in range(60)]
        inits = [
            row
            for n, at in enumerate(times)
            for row in rows_of([at], "User:flink", f"producer-sink-0-{n}", first=n, transactional_id=f"sink-0-{n}")
        ]
        append_kip_tables(tmp_path, inits=inits)
        out = pid_quota("why", "flink", "--tables", tmp_path)[1]
        assert "client producer-sink-0-#: likely new transactional id each time" in out
        assert "  fix in Flink's KafkaSink: Choose setTransactionNamingStrategy" in out
        assert json.loads(pid_quota("why", "flink", "--tables", tmp_path, "--json")[1])["clients"][0]["tool"]

    def test_transactional_ids_that_expired_while_idle_are_no_new_ones(
        self, pid_quota: PidQuota, tmp_path: Path
    ) -> None:
        inits = [
            init(ago(at - 3 * n), 100 * turn + n, client_id=f"billing-{n}", transactional_id=f"billing-{n}")
            for turn, at in enumerate((9000, 600))
            for n in range(7)
        ]
        append_kip_tables(tmp_path, inits=inits)
        out = pid_quota("why", "alice", "--tables", tmp_path)[1]
        assert "client billing-#: likely expired while idle" in out
        assert "7 new transactional ids, 7 producer ids for transactional ids that had expired" in out
        assert "transactional.id.expiration.ms" in out

    def test_a_hold_is_shown_with_its_reason_and_a_page_for_the_owner(
        self, pid_quota: PidQuota, tmp_path: Path
    ) -> None:
        append_kip_tables(tmp_path, inits=rows_of([5], "User:m"))
        append(tmp_path, "broker_status", broker_state(1, now()), broker_state(2, now()))
        until = now() + seconds(600)
        append(
            tmp_path,
            "holds",
            hold_fact("written", now(), until=until, reason="12 PIDs refused"),
            confirmed(1, now(), until=until, held_requests=40, let_in=2),
        )
        out = pid_quota("why", "m", "--tables", tmp_path)[1]
        (line,) = [line for line in out.splitlines() if "on hold since" in line]
        assert "confirmed by 1 of 2 brokers, 40 requests for new producer ids held, 2 let in" in line
        assert line.endswith(": 12 PIDs refused")
        assert "docs/throttled.md" in out
        hold = json.loads(pid_quota("why", "m", "--tables", tmp_path, "--json")[1])["hold"]
        assert (hold["hold"], hold["confirmed_brokers"], hold["writer"]) == ("held", 1, "stream")

    def test_a_silent_stream_causes_a_warning(self, pid_quota: PidQuota, tmp_path: Path) -> None:
        append_kip_tables(tmp_path, inits=rows_of([5000], "User:m"))
        append(tmp_path, "broker_status", broker_state(1, ago(36 * 60)))
        code, out, err = pid_quota("why", "m", "--tables", tmp_path)
        assert (code, out[:7]) == (0, "User:m:")
        assert err.startswith("warning: no rows since ")
        assert ": is the stream running?\nlook: the log of" in err

    def test_a_principal_with_metrics_that_asks_for_no_new_ids_is_healthy(
        self, pid_quota: PidQuota, tmp_path: Path
    ) -> None:
        append_kip_tables(tmp_path)
        append(tmp_path, "producer_id_metrics", metrics("User:quiet", now()))
        append(tmp_path, "broker_status", broker_state(1, datetime.now(timezone.utc)))

        code, out, err = pid_quota("why", "quiet", "--tables", tmp_path)
        as_json = json.loads(pid_quota("why", "quiet", "--tables", tmp_path, "--json")[1])

        assert (code, err) == (0, "")
        assert out == "User:quiet: no request for a producer id was reported in the last 24 hours\n"
        assert (as_json["principal"], as_json["clients"]) == ("User:quiet", [])

    def test_a_principal_without_requests_is_an_error(self, pid_quota: PidQuota, tmp_path: Path) -> None:
        append_kip_tables(tmp_path)
        code, out, err = pid_quota("why", "User:nobody", "--tables", tmp_path)
        assert (code, out) == (1, "")
        assert "neither rows nor recent requests of 'User:nobody'" in err

    @pytest.mark.parametrize(
        ("text", "known", "meant"),
        [
            (SERVICE, [f"User:{SERVICE}", "User:bob"], f"User:{SERVICE}"),
            ("Team:data", ["Team:data"], "Team:data"),
            ("a;b", ["User:a;b"], "User:a;b"),
        ],
    )
    def test_of_two_meanings_the_one_that_exists_counts(
        self, pid_quota: PidQuota, tmp_path: Path, text: str, known: list[str], meant: str
    ) -> None:
        inits = [row for number, name in enumerate(known) for row in rows_of([5], name, first=number)]
        append_kip_tables(tmp_path, inits=inits)
        assert pid_quota("why", text, "--tables", tmp_path)[1].startswith(f"{meant}: ")

    def test_a_name_that_is_mistyped_or_means_two_is_refused_with_those_to_choose_from(
        self, pid_quota: PidQuota, tmp_path: Path
    ) -> None:
        names = ("User:mallory", "Team:data", "User:Team:data")
        inits = [row for number, name in enumerate(names) for row in rows_of([5], name, first=number)]
        append_kip_tables(tmp_path, inits=inits)
        append(tmp_path, "producer_id_metrics", metrics("User:Alice", ago(90_000)))
        assert "did you mean 'User:mallory'?" in pid_quota("why", "malory", "--tables", tmp_path)[2]
        # Without a request of the last 24 hours.
        assert "did you mean 'User:Alice'?" in pid_quota("why", "alice", "--tables", tmp_path)[2]
        code, _, error = pid_quota("why", "Team:data", "--tables", tmp_path)
        assert (code, "write 'Team:data' or 'User:Team:data'" in error) == (2, True)
