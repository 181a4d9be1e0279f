"""A broker that requires TLS client certificates and passwords."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from broker.local.local_broker import LocalBroker


@dataclass(frozen=True)
class Certificates:
    """PEM files, as librdkafka's settings name them."""

    ca: Path
    chain: Path
    key: Path

    def settings(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca),
            "ssl.certificate.location": str(self.chain),
            "ssl.key.location": str(self.key),
        }


def issue(folder: Path) -> tuple[Certificates, Path]:
    """Make a CA, a client's certificate, and a server's in one file as the broker wants it."""
    folder.mkdir()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    client, server = authority.issue_cert("client@example.org"), authority.issue_cert("127.0.0.1", "localhost")
    (folder / "client.pem").write_text(chain_of(client))
    (folder / "client.key").write_text(pkcs8_of(client))
    (folder / "server.pem").write_text(pkcs8_of(server) + chain_of(server))
    return Certificates(folder / "ca.pem", folder / "client.pem", folder / "client.key"), folder / "server.pem"


def chain_of(issued: trustme.LeafCert) -> str:
    return "".join(blob.bytes().decode() for blob in issued.cert_chain_pems)


def pkcs8_of(issued: trustme.LeafCert) -> str:
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def tls_broker(
    folder: Path, users: dict[str, str], jars: Path, certificates: Certificates, server: Path
) -> LocalBroker:
    listener = "listener_name_clients_ssl"
    settings: dict[str, Any] = {
        f"{listener}_keystore_type": "PEM",
        f"{listener}_keystore_location": server,
        f"{listener}_truststore_type": "PEM",
        f"{listener}_truststore_location": certificates.ca,
        f"{listener}_client_auth": "required",
    }
    return LocalBroker(
        folder,
        users=users,
        jars=jars,
        listener_security_protocol_map="CLIENTS:SASL_SSL,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        **settings,
    )
