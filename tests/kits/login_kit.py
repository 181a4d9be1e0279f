"""A broker whose listener between brokers has a login, and the stores of certificates for it."""

import subprocess
from pathlib import Path

import trustme

from broker.local.local_broker import LocalBroker
from broker.local.server_files import HOST, Ports
from broker.local.server_process import free_ports
from jvm.java import find_java
from tests.kits.tls_kit import chain_of, pkcs8_of

LISTENER = "REPLICATION-9091"
"""As Strimzi names it, with a dash and a port."""
PREFIX = f"listener.name.{LISTENER.lower()}"
STORE_PASSWORD = "-".join(("store", "secret"))
NAMED = {"ssl.principal.mapping.rules": "RULE:^.*CN=([a-z]+).*$/$1/"}
"""A certificate's user is its common name."""


class LoginBroker(LocalBroker):
    """A broker with an additional listener, which is the one between brokers.

    Each user but admin needs a right for everything. Admin clients use the listener INNER, as with other brokers.
    """

    def __init__(self, folder: Path, jars: Path, protocol: str, properties: dict[str, object]) -> None:
        super().__init__(folder, jars=jars, allow_everyone_if_no_acl_found="false")
        self._extra |= {
            "inter.broker.listener.name": LISTENER,
            "listener.security.protocol.map": f"{LISTENER}:{protocol},CLIENTS:SASL_PLAINTEXT,INNER:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            **properties,
        }
        (self._replication,) = free_ports()

    def _start_on(self, ports: Ports) -> None:
        names = {"CLIENTS": ports.clients, "INNER": ports.inner, LISTENER: self._replication.inner}
        advertised = ",".join(f"{name}://{HOST}:{port}" for name, port in names.items())
        self._extra |= {
            "listeners": f"{advertised},CONTROLLER://{HOST}:{ports.controller}",
            "advertised.listeners": advertised,
        }
        super()._start_on(ports)


class Stores:
    """Certificates of one authority in the forms that Kafka reads, for the user `admin`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._authority = trustme.CA()
        self.renew()

    def renew(self, authority: trustme.CA | None = None) -> None:
        """Write all files again, with new certificates, perhaps of another authority."""
        self._authority = authority or self._authority
        issued = self._authority.issue_cert(HOST, "localhost", common_name="admin")
        (self._folder / "chain.pem").write_text(pkcs8_of(issued) + chain_of(issued))
        (self._folder / "ca.pem").write_bytes(self._authority.cert_pem.bytes())

    def pem(self) -> dict[str, object]:
        """Settings that name PEM files."""
        return {
            f"{PREFIX}.ssl.keystore.type": "PEM",
            f"{PREFIX}.ssl.keystore.location": self._folder / "chain.pem",
            f"{PREFIX}.ssl.truststore.type": "PEM",
            f"{PREFIX}.ssl.truststore.location": self._folder / "ca.pem",
        }

    def pem_texts(self) -> dict[str, object]:
        """Settings with the certificates themselves, without the listener's prefix."""
        key, marker, chain = (self._folder / "chain.pem").read_text().partition("-----BEGIN CERTIFICATE")
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": marker + chain,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": (self._folder / "ca.pem").read_text(),
        }

    def keystore(self, kind: str, key_password: str) -> dict[str, object]:
        """Settings that name stores of this kind, PKCS12 or JKS."""
        made, keys, trusted = (self._folder / f"{kind}.{name}" for name in ("p12", "keys", "trusted"))
        pem = str(self._folder / "chain.pem")
        _run(
            "openssl",
            "pkcs12",
            "-export",
            "-in",
            pem,
            "-out",
            str(made),
            "-passout",
            f"pass:{STORE_PASSWORD}",
            "-name",
            "k",
        )
        source = ["-srckeystore", str(made), "-srcstoretype", "PKCS12", "-srcstorepass", STORE_PASSWORD]
        target = ["-destkeystore", str(keys), "-deststoretype", kind, "-deststorepass", STORE_PASSWORD]
        _keytool("-importkeystore", *source, *target, "-destkeypass", key_password, "-srcalias", "k")
        store = ["-keystore", str(trusted), "-storetype", kind, "-storepass", STORE_PASSWORD]
        _keytool("-importcert", "-alias", "ca", "-file", str(self._folder / "ca.pem"), *store)
        return {
            "ssl.keystore.type": kind,
            "ssl.keystore.location": keys,
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": key_password,
            "ssl.truststore.type": kind,
            "ssl.truststore.location": trusted,
            "ssl.truststore.password": STORE_PASSWORD,
        }


def _keytool(*arguments: str) -> None:
    _run(str(Path(find_java()).resolve().with_name("keytool")), "-noprompt", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
