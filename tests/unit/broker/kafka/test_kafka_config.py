import subprocess
from pathlib import Path

import pytest

from broker.errors import KafkaConfigError
from broker.kafka.config import KafkaConfig

SERVERS = "kafka:9092"


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `cert.pem`, which is also its own CA, its `key.pem` (PKCS#8) and the same as `old.pem`."""
    folder = tmp_path_factory.mktemp("pem")
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=spark", "-days", "2"]
    subprocess.run([*request, "-keyout", "key.pem", "-out", "cert.pem"], cwd=folder, check=True, capture_output=True)
    old = ["openssl", "pkey", "-traditional", "-in", "key.pem", "-out", "old.pem"]
    subprocess.run(old, cwd=folder, check=True, capture_output=True)
    return folder


def config(folder: Path, *lines: str) -> KafkaConfig:
    file = folder / "client.properties"
    file.write_text("\n".join(lines))
    return KafkaConfig.load(SERVERS, file)


def mutual_tls(pem: Path, key: str = "key.pem") -> list[str]:
    return [
        "security.protocol=sasl_ssl",
        "sasl.mechanisms=SCRAM-SHA-512",
        "sasl.username=spark",
        "sasl.password=hunter2",
        f"ssl.ca.location={pem}/cert.pem",
        f"ssl.certificate.location={pem}/cert.pem",
        f"ssl.key.location={pem}/{key}",
        "ssl.key.password=hunter3",
        "ssl.endpoint.identification.algorithm=none",
    ]


def test_one_file_gives_the_java_client_the_same_trust_key_and_login(pem: Path, tmp_path: Path) -> None:
    options = config(tmp_path, *mutual_tls(pem)).spark_options()

    assert options.pop("kafka.sasl.jaas.config").endswith(
        'ScramLoginModule required username="spark" password="hunter2";'
    )
    assert options == {
        "kafka.bootstrap.servers": SERVERS,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": f"{pem}/cert.pem",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": (pem / "cert.pem").read_text().rstrip(),
        "kafka.ssl.keystore.key": (pem / "key.pem").read_text().rstrip(),
        "kafka.ssl.key.password": "hunter3",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


def test_certificates_given_as_text_and_a_keystore_reach_the_java_client(tmp_path: Path) -> None:
    settings = {
        "ssl.ca.pem": "CA",
        "ssl.certificate.pem": "CERT",
        "ssl.key.pem": "-----BEGIN ENCRYPTED PRIVATE KEY-----",
    }
    as_text = KafkaConfig({"bootstrap.servers": SERVERS} | settings).spark_options()
    keystore = config(tmp_path, "ssl.keystore.location=/k.p12", "ssl.keystore.password=hunter2").spark_options()

    assert as_text["kafka.ssl.truststore.certificates"] == "CA"
    assert as_text["kafka.ssl.keystore.certificate.chain"] == "CERT"
    assert keystore["kafka.ssl.keystore.type"] == "PKCS12"
    assert keystore["kafka.ssl.keystore.location"] == "/k.p12"
    assert keystore["kafka.ssl.keystore.password"] == "hunter2"


@pytest.mark.parametrize(
    ("client", "line", "said"),
    [
        ("spark_options", "sasl.username", "line 1 is not of the form name=value"),
        ("spark_options", "sasl.mechanisms=OAUTHBEARER", "use one of PLAIN"),
        ("spark_options", "ssl.crl.location=/x", "ssl.crl.location can't be used by Spark"),
        ("spark_options", "sasl.oauthbearer.config=secret-of-mine", "sasl.oauthbearer.config can't be used"),
        ("spark_options", "enable.ssl.certificate.verification=false", "name the CA in ssl.ca.location"),
        ("spark_options", "ssl.certificate.location=/nowhere\nssl.key.location=/nowhere", "/nowhere can't be read"),
        ("kafka_python", "ssl.ca.pem=secret-of-mine", "ssl.ca.location"),
        ("kafka_python", "sasl.mechanisms=OAUTHBEARER", "use one of PLAIN"),
        ("kafka_python", "sasl.mechanisms=AWS_MSK_IAM", "MSK SASL/SCRAM and mutual TLS"),
        ("kafka_python", "sasl.oauthbearer.method=oidc", "use one of PLAIN"),
        ("kafka_python", "enable.ssl.certificate.verification=false", "name the CA"),
    ],
)
def test_a_setting_that_a_client_lacks_is_refused_with_the_remedy(
    tmp_path: Path, client: str, line: str, said: str
) -> None:
    with pytest.raises(KafkaConfigError, match=said) as raised:
        getattr(config(tmp_path, line), client)()

    assert "secret-of-mine" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KafkaConfigError, match=r"^Kafka settings file .*nowhere\.properties can't be read"):
        KafkaConfig.load(SERVERS, tmp_path / "nowhere.properties")
    with pytest.raises(KafkaConfigError, match=r"^Kafka password file .*nowhere can't be read"):
        KafkaConfig.load(SERVERS, password_file=tmp_path / "nowhere")


def test_a_quote_in_a_password_cannot_break_out_of_the_login_module(tmp_path: Path) -> None:
    login = ("sasl.mechanisms=PLAIN", "sasl.username=a", 'sasl.password=x";\\ y')

    jaas = config(tmp_path, *login).spark_options()["kafka.sasl.jaas.config"]

    assert jaas.endswith('password="x\\";\\\\ y";')


def test_a_key_that_java_cannot_read_is_refused_with_the_command_that_converts_it(pem: Path, tmp_path: Path) -> None:
    with pytest.raises(KafkaConfigError, match="openssl pkcs8 -topk8"):
        config(tmp_path, *mutual_tls(pem, "old.pem")).spark_options()


def test_no_secret_is_in_a_representation_or_an_error(pem: Path, tmp_path: Path) -> None:
    one = config(tmp_path, *mutual_tls(pem), "sasl.mechanisms=GSSAPI")

    with pytest.raises(KafkaConfigError) as raised:
        one.spark_options()

    assert "hunter" not in f"{one!r} {raised.value} {one}"
