from pathlib import Path

import pytest

from broker.errors import KafkaConfigError
from broker.kafka.config import KafkaConfig

SERVERS = "kafka:9092"


def settings_file(folder: Path, text: str) -> Path:
    file = folder / "client.properties"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_quote_in_a_password_cannot_break_out_of_the_login_module(tmp_path: Path) -> None:
    file = settings_file(tmp_path, 'sasl.mechanisms=PLAIN\nsasl.username=a\nsasl.password=x";\\ y\n')

    jaas = KafkaConfig.load(SERVERS, file).spark_options()["kafka.sasl.jaas.config"]

    assert jaas.endswith('password="x\\";\\\\ y";')


@pytest.mark.parametrize(
    ("text", "said"),
    [("sasl.username\n", "line 1 is not of the form name=value"), ("sasl.mechanisms=OAUTHBEARER", "use one of PLAIN")],
)
def test_an_unusable_setting_is_named_with_its_remedy(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(KafkaConfigError, match=said):
        KafkaConfig.load(SERVERS, settings_file(tmp_path, text)).spark_options()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KafkaConfigError, match=r"^Kafka settings file .*nowhere\.properties can't be read"):
        KafkaConfig.load(SERVERS, tmp_path / "nowhere.properties")
    with pytest.raises(KafkaConfigError, match=r"^Kafka password file .*nowhere can't be read"):
        KafkaConfig.load(SERVERS, password_file=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("ssl.ca.pem=-----BEGIN", "ssl.ca.location"),
        ("sasl.mechanisms=OAUTHBEARER", "use one of PLAIN"),
        ("sasl.mechanisms=AWS_MSK_IAM", "MSK SASL/SCRAM and mutual TLS"),
        ("sasl.oauthbearer.method=oidc", "use one of PLAIN"),
        ("enable.ssl.certificate.verification=false", "name the CA"),
    ],
)
def test_settings_that_kafka_python_lacks_are_named(line: str, remedy: str, tmp_path: Path) -> None:
    config = KafkaConfig.load(SERVERS, settings_file(tmp_path, line))

    with pytest.raises(KafkaConfigError, match=remedy):
        config.kafka_python()
