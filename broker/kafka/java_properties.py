"""Reads client settings from a Java properties file, which Kafka's own tools use (`--command-config`)."""

import re
from collections.abc import Iterable, Iterator, Mapping

from broker.errors import KafkaConfigError
from broker.kafka.jaas import parse_login

_OF_JAVA = ("sasl.jaas.config", "ssl.truststore.", "ssl.keystore.")
_NOT_OF_JAVA = ("ssl.keystore.location", "ssl.keystore.password")
"""These names do not prove that the settings are Java's, because librdkafka has the same names."""
_SAME = {
    "client.id": "client.id",
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanisms",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
    "ssl.key.password": "ssl.key.password",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_ELSEWHERE = frozenset(
    {
        *("sasl.jaas.config", "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password"),
        *("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password"),
        # OpenSSL negotiates TLS 1.2 or newer, as Java does by default.
        *("ssl.protocol", "ssl.enabled.protocols"),
    }
)
_OF_LIBRDKAFKA = (
    *("sasl.username", "sasl.password", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"),
    "ssl.crl.location",
)
_LOGIN_MODULES = {"PlainLoginModule": ("PLAIN",), "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512")}
_BLANKS = " \t\f"
_SPLIT = re.compile(rf"((?:[^\\=:{_BLANKS}]|\\.)*)[{_BLANKS}]*[=:]?[{_BLANKS}]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PLACEHOLDER = re.compile(r"\$\{[^}]*?:[^}]*?\}")
_PROVIDERS = "config.providers"
"""Only with this setting, Kafka's clients replace placeholders."""
_TRIMMED = "".join(map(chr, range(33)))
"""What Kafka's clients remove at both ends of a value."""
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def is_java(lines: Iterable[str]) -> bool:
    r"""Whether settings contain a name that only Java clients have.

    Examples:
        >>> is_java(["sasl.mechanism: PLAIN", "sasl.jaas.config = x \\", " y;"]), is_java(["sasl.password=a"])
        (True, False)
    """
    names = {name for name, _ in read_properties(lines)}
    return any(name.startswith(_OF_JAVA) for name in names.difference(_NOT_OF_JAVA))


def read_properties(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    r"""Yield names and values. This handles continued lines, escapes, and the separators `=`, `:` and blank.

    Examples:
        >>> list(read_properties(["a = 1 \\", "   2", "! no", "b\\:c:3\\u00e9"]))
        [('a', '1 2'), ('b:c', '3é')]
    """
    waiting: str | None = None
    # The added empty line ends a last line that has a backslash at its end.
    for line in (*lines, ""):
        text = (waiting or "") + line.lstrip(_BLANKS)
        if waiting is None and (not text or text[0] in "#!"):
            continue
        waiting = None
        if (len(text) - len(text.rstrip("\\"))) % 2:
            waiting = text[:-1]
            continue
        if text:
            name, value = _SPLIT.findall(text)[0]
            yield _unescaped(name), _unescaped(value)


def librdkafka_settings(lines: Iterable[str], origin: str) -> dict[str, str]:
    """Translate a Java client's settings to librdkafka's, without settings that only tune a client.

    Raises KafkaConfigError for a security setting without a counterpart. The message shows no secret.
    """
    java = {name: value.strip(_TRIMMED) for name, value in read_properties(lines)}
    for name, value in java.items():
        if name.startswith(("sasl.", "ssl.")) and name not in _SAME and name not in _ELSEWHERE:
            is_ours = name in _OF_LIBRDKAFKA or name in _SAME.values()
            what = (
                "is a setting of librdkafka, beside settings of Java" if is_ours else "has no counterpart outside Java"
            )
            msg = f"{origin}: {name} {what}: leave it out, or write only librdkafka's settings"
            raise KafkaConfigError(msg)
        if _PROVIDERS in java and _PLACEHOLDER.search(value):
            msg = f"{origin}: {name} is a placeholder of Java's config providers: write the value itself"
            raise KafkaConfigError(msg)
    settings = {ours: java[theirs] for theirs, ours in _SAME.items() if theirs in java}
    if settings.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl.endpoint.identification.algorithm"] = "none"
    return settings | _login(java, origin) | _stores(java, origin)


def _login(java: Mapping[str, str], origin: str) -> dict[str, str]:
    jaas = java.get("sasl.jaas.config")
    if jaas is None:
        return {}
    login = parse_login(jaas)
    if login is None:
        msg = f'{origin}: Kafka can\'t parse sasl.jaas.config. Write: CLASS required username="…" password="…";'
        raise KafkaConfigError(msg)
    mechanism, options = java.get("sasl.mechanism", "GSSAPI"), login.options
    if mechanism not in _LOGIN_MODULES.get(login.module, ()):
        able = ", ".join(each for mechanisms in _LOGIN_MODULES.values() for each in mechanisms)
        # The message shows only the class, because the rest contains the password.
        which = f"sasl.mechanism {mechanism} with the login module {login.module}"
        msg = f"{origin}: {which} is not supported: use one of {able}"
        raise KafkaConfigError(msg)
    if options.get("tokenauth", "").lower() == "true":
        msg = f"{origin}: tokenauth=true, a login by delegation token, is not supported: use the user's own password"
        raise KafkaConfigError(msg)
    if not options.get("username") or "password" not in options:
        msg = f'{origin}: sasl.jaas.config lacks username="…" or password="…": both are needed'
        raise KafkaConfigError(msg)
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _stores(java: Mapping[str, str], origin: str) -> dict[str, str]:
    if java.get("security.protocol", "").upper().endswith("PLAINTEXT"):
        # Kafka's clients don't look at stores without TLS.
        return {}
    settings = {}
    if "ssl.truststore.location" in java:
        if java.get("ssl.truststore.type", "JKS").upper() != "PEM":
            msg = (
                f"{origin}: ssl.truststore.location is no PEM file (ssl.truststore.type), and only Java reads others: "
                "`keytool -exportcert -rfc -keystore FILE -alias NAME` writes PEM"
            )
            raise KafkaConfigError(msg)
        settings["ssl.ca.location"] = java["ssl.truststore.location"]
    if "ssl.keystore.location" in java:
        location, kind = java["ssl.keystore.location"], java.get("ssl.keystore.type", "JKS").upper()
        if kind == "PEM":
            # The file contains both certificate and key.
            settings |= {"ssl.certificate.location": location, "ssl.key.location": location}
        elif kind == "PKCS12":
            settings |= {"ssl.keystore.location": location}
            settings |= {name: java[name] for name in ("ssl.keystore.password",) if name in java}
        else:
            msg = (
                f"{origin}: a keystore of the type {kind} can be read by Java only: convert it with "
                "`keytool -importkeystore -deststoretype PKCS12`, and set ssl.keystore.type=PKCS12"
            )
            raise KafkaConfigError(msg)
    return settings


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    if found[2] == "u":
        msg = "a Java properties file has \\u without four hexadecimal digits: write a backslash as two"
        raise KafkaConfigError(msg)
    return _CONTROL.get(found[2], found[2])
