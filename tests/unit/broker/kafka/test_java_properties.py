from pathlib import Path

import pytest

from broker.errors import KafkaConfigError
from broker.kafka.config import KafkaConfig
from broker.kafka.java_properties import librdkafka_settings, read_properties

JAAS = "org.apache.kafka.common.security"
SCRAM = rf"""
# Of an operator's laptop
! in the old style
security.protocol = SASL_SSL
sasl.mechanism: SCRAM-SHA-512
sasl.jaas.config={JAAS}.scram.ScramLoginModule required \
    username="ops" \
    password="hunter2 \\\\ \\"quoted\\";=";
ssl.truststore.type=PEM
ssl.truststore.location=/etc/kafka/ca.pem
ssl.endpoint.identification.algorithm=
group.id=ignored
request.timeout.ms=1000
"""


def load(tmp_path: Path, text: str) -> KafkaConfig:
    file = tmp_path / "client.properties"
    file.write_text(text, encoding="utf-8")
    return KafkaConfig.load("broker:9092", file)


def test_a_scram_login_over_tls_becomes_librdkafka_s_settings(tmp_path: Path) -> None:
    assert load(tmp_path, SCRAM).client() == {
        "bootstrap.servers": "broker:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "ops",
        "sasl.password": 'hunter2 \\ "quoted";=',
        "ssl.ca.location": "/etc/kafka/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_it_serves_the_other_clients_as_well(tmp_path: Path) -> None:
    config = load(tmp_path, SCRAM)

    assert 'hunter2 \\ "quoted";=' in config.kafka_python().values()
    spark = config.spark_options()
    assert spark["kafka.sasl.jaas.config"].endswith(r'username="ops" password="hunter2 \\ \"quoted\";=";')
    assert spark["kafka.ssl.truststore.type"] == "PEM"


@pytest.mark.parametrize(
    ("lines", "settings"),
    [
        (
            ["ssl.keystore.type=PEM", "ssl.keystore.location=/me.pem", "ssl.key.password=k"],
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem", "ssl.key.password": "k"},
        ),
        (
            ["ssl.keystore.type=PKCS12", "ssl.keystore.location=/me.p12", "ssl.keystore.password=k"],
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "k"},
        ),
        (
            ["ssl.truststore.certificates=CA", "ssl.keystore.key=KEY", "ssl.keystore.certificate.chain=ME"],
            {"ssl.ca.pem": "CA", "ssl.key.pem": "KEY", "ssl.certificate.pem": "ME"},
        ),
        (
            ["sasl.mechanism=PLAIN", f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required username=a password=b;"],
            {"sasl.mechanisms": "PLAIN", "sasl.username": "a", "sasl.password": "b"},
        ),
    ],
)
def test_stores_and_logins(lines: list[str], settings: dict[str, str]) -> None:
    assert librdkafka_settings(lines, "file") == settings


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["ssl.truststore.location=/secret"], "no PEM file"),
        (["ssl.truststore.location=/secret", "ssl.truststore.type=PKCS12"], "no PEM file"),
        (["ssl.keystore.location=/secret"], "type JKS"),
        (["sasl.jaas.config=secret"], "use one of PLAIN"),
        (["sasl.mechanism=GSSAPI", "sasl.jaas.config=com.sun.Krb5LoginModule required x=secret;"], "GSSAPI"),
        (["sasl.mechanism=PLAIN", f"sasl.jaas.config={JAAS}.scram.ScramLoginModule required x=secret;"], "PLAIN"),
        (["sasl.mechanism=PLAIN", f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required x=secret;"], "username="),
        ([f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required username=secret password=secret;"], "GSSAPI"),
        (
            ["sasl.mechanism=PLAIN", f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required username=secret;"],
            "lacks",
        ),
        (["sasl.jaas.config=${file:/etc/secret:jaas}"], "placeholder"),
        (["ssl.truststore.certificates=secret", "ssl.cipher.suites=secret"], "ssl.cipher.suites has no counterpart"),
        (["sasl.jaas.config=secret", "sasl.oauthbearer.token.endpoint.url=secret"], "has no counterpart"),
    ],
)
def test_settings_for_java_alone_are_refused_by_name_without_their_values(lines: list[str], said: str) -> None:
    with pytest.raises(KafkaConfigError, match=said) as caught:
        librdkafka_settings(lines, "client.properties")
    assert str(caught.value).startswith("client.properties: ")
    assert "secret" not in str(caught.value)


def test_librdkafka_s_own_file_is_read_as_before(tmp_path: Path) -> None:
    text = "sasl.username=a\nsasl.password=back\\slash:and=more\nssl.keystore.location=/me.p12\n"

    assert "back\\slash:and=more" in load(tmp_path, text).client().values()


def test_the_format_of_java() -> None:
    lines = ["a:1", "b 2", "c = x\\", "  y", "d\\ e=\\u00e9\\t!", "f", "  # no", "g=\\\\", "h=last\\"]

    assert list(read_properties(lines)) == [
        *(("a", "1"), ("b", "2"), ("c", "xy"), ("d e", "é\t!"), ("f", ""), ("g", "\\"), ("h", "last")),
    ]
