"""Names that would be code if anybody put them into a query: they stay names."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tables.quotas.quota_table import delete_quota, quotas_in_force
from tables.schema.ddl import catalog_table
from tables.store.open import is_catalog
from tests.kits.stream_kit import Stream, event

HOSTILE = [
    "x'; DROP TABLE producer_id_quotas; --",
    '" OR 1=1 --',
    "' OR entity_name IS NULL OR '1'='1",
    "`a`.`b`",
    "%",
    "\\' \n\x00",
    "a:b${jndi:ldap://x}",
]


def test_quotas_and_principals_of_any_name_hold_for_exactly_that_name(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path / "t'; DROP TABLE x -- `b`")
    for number, name in enumerate(HOSTILE):
        stream.quota(number + 1, name)
    floods = [event(100 * number + pid, f"User:{name}") for number, name in enumerate(HOSTILE) for pid in range(20)]
    stream.batch(*floods, *[event(10_000 + pid, "User:alice") for pid in range(20)])

    stream.run()

    decisions = {row["principal"]: row for row in stream.rows("throttle_decisions")}
    assert {name: row["quota"] for name, row in decisions.items()} == {
        f"User:{name}": number + 1.0 for number, name in enumerate(HOSTILE)
    }
    assert {row["quota_source"] for row in decisions.values()} == {"user"}

    for number, name in enumerate(HOSTILE):
        delete_quota(stream.tables, name)
        left = {entry.entity_name for entry in quotas_in_force(stream.tables)}
        assert left == set(HOSTILE[number + 1 :])


@pytest.mark.parametrize(
    "tables",
    ["main.q; DROP TABLE x", "main.`q`", "main.q--", "main.q.r", 'main."q"', "main.q\n", "a b.c", "main.q/*"],
)
def test_an_odd_name_is_never_taken_for_a_catalog_and_schema(tables: str) -> None:
    # `main.q--` is a name of letters, digits, `_` and `-`, and is quoted.
    assert not is_catalog(tables) or catalog_table(tables, "t") == "`main`.`q--`.`t`"
