import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from broker.errors import KafkaConfigError
from broker.kafka.config import KafkaConfig
from broker.kafka.java_properties import librdkafka_settings
from jvm.jar_sets import kafka_classpath
from jvm.java import find_java

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
        (
            ["security.protocol=SASL_PLAINTEXT", "ssl.truststore.location=", "ssl.keystore.location=/me.jks"],
            {"security.protocol": "SASL_PLAINTEXT"},
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
        (["sasl.jaas.config=secret"], "can't parse sasl.jaas.config"),
        (["sasl.mechanism=GSSAPI", "sasl.jaas.config=com.sun.Krb5LoginModule required x=secret;"], "GSSAPI"),
        (["sasl.mechanism=PLAIN", f"sasl.jaas.config={JAAS}.scram.ScramLoginModule required x=secret;"], "PLAIN"),
        (["sasl.mechanism=PLAIN", f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required x=secret;"], "username="),
        ([f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required username=secret password=secret;"], "GSSAPI"),
        (
            ["sasl.mechanism=PLAIN", f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required username=secret;"],
            "lacks",
        ),
        (["config.providers=file", "sasl.jaas.config=${file:/etc/secret:jaas}"], "placeholder"),
        (
            ["sasl.mechanism=PLAIN", f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required tokenauth=true;"],
            "tokenauth",
        ),
        (["ssl.truststore.certificates=secret", "ssl.cipher.suites=secret"], "ssl.cipher.suites has no counterpart"),
        (["sasl.jaas.config=secret", "sasl.oauthbearer.token.endpoint.url=secret"], "has no counterpart"),
        (["sasl.jaas.config=secret", "sasl.username=secret"], "sasl.username is a setting of librdkafka"),
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


def test_two_names_of_the_mechanism_with_two_values_are_refused() -> None:
    lines = ["sasl.mechanisms=PLAIN", "sasl.mechanism=SCRAM-SHA-256"]
    with pytest.raises(KafkaConfigError, match="keep one of them"):
        KafkaConfig.parse("broker:9092", lines, "client.properties")
    assert KafkaConfig.parse("broker:9092", ["sasl.mechanisms=PLAIN", "sasl.mechanism=PLAIN"], "").client()


class Java:
    """Kafka's own clients, which read files one after the other."""

    def __init__(self) -> None:
        command = [
            find_java(),
            "-Xmx128m",
            "-cp",
            kafka_classpath(),
            str(Path(__file__).with_name("ReadClientFile.java")),
        ]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True)

    def read(self, file: Path) -> dict[str, str]:
        """Return settings and options of the login, or `refused`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file, file=self.process.stdin, flush=True)
        parts = base64.b64decode(self.process.stdout.readline()).decode().split("\0")
        return dict(zip(parts[::2], parts[1::2], strict=False))


@pytest.fixture(scope="module")
def java(jars: Path) -> Iterator[Java]:
    java = Java()
    yield java
    java.process.communicate()


SIGNS = st.sampled_from(["a", "9", "u0041", "u00", "\\", '"', "'", ";", "=", ":", " ", "\t", "\f", "\x0b", "\x85", "é"])
MORE = st.sampled_from(
    ["\n", "\r", "\\\n", "#", "!", "/", "*", "//", "/*", "*/", "$", "${a:b}", ".", "-", "_", "n", "7", "\xa0"]
)
WORDS = st.lists(SIGNS | MORE, max_size=6).map("".join)
NAMES = st.sampled_from(["username", "password", "tokenauth", "x"])
OPTIONS = st.tuples(NAMES, st.sampled_from(["=", " = "]), st.sampled_from(['"', "'", ""]), WORDS).map(
    lambda each: f"{each[0]}{each[1]}{each[2]}{each[3]}{each[2]} "
)
ENDS = st.sampled_from([";", " ;  ", "", "; x", ";\n# no\n"])
LOGIN = f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required"
FILES = st.tuples(
    st.sampled_from(
        ["sasl.mechanism=PLAIN", "sasl.mechanism : PLAIN  ", "sasl.mechanism PLAIN\t", "sasl.mechan\\\n ism=PLAIN"]
    ),
    WORDS.map(lambda words: f"note={words}"),
    st.tuples(WORDS, st.lists(OPTIONS, max_size=2).map("".join), ENDS).map(
        lambda each: f"{LOGIN} username=a password='{each[0]}' {each[1]}{each[2]}"
    ),
).map("\n".join)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES)
@example(
    "sasl.mechanism=PLAIN\nsasl.jaas.config=a.PlainLoginModule required username=é password='${x}' tokenauth=\"true\";"
)
def test_files_are_read_as_kafka_s_own_clients_read_them(java: Java, tmp_path: Path, text: str) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(text.encode())
    theirs = java.read(file)
    # To Java, an option without a name is an option. A note may continue on the line of the login, which then is none.
    assume("option null" not in theirs and theirs.keys() & {"module", "refused"})

    login = {name: theirs.get(f"option {name}", "") for name in ("username", "password", "tokenauth")}
    is_ours = theirs.get("sasl.mechanism") == "PLAIN" and login["username"] and "option password" in theirs
    if is_ours and login["tokenauth"].lower() != "true":
        found = KafkaConfig.load("broker:9092", file).settings
        assert {name: found[f"sasl.{name}"] for name in ("username", "password")} == {
            name: login[name] for name in ("username", "password")
        }
    else:
        with pytest.raises(KafkaConfigError):
            KafkaConfig.load("broker:9092", file)
