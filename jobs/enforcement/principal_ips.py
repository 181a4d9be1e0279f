"""Reads the file of `pid-quota enforce --principal-ips`."""

import ipaddress
from pathlib import Path

from broker.errors import EnforceError


def read_principal_ips(file: Path) -> dict[str, set[str]]:
    """Read lines `principal ip`.

    Principals may contain spaces: the last word is the ip. `#` begins a comment line.

    Returns:
        Principals by ip, normalized as Kafka writes ips.

    Raises:
        EnforceError: If the file can't be read, or a line is malformed.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"--principal-ips {file} can't be read ({error}): check the path"
        raise EnforceError(msg) from error
    principals: dict[str, set[str]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        principal, _, ip = line.strip().rpartition(" ")
        try:
            address = str(ipaddress.ip_address(ip))
        except ValueError:
            address = ""
        if not (principal.strip() and address):
            msg = f"{file}, line {number}: {line!r} is not 'principal ip', such as 'User:mallory 10.0.0.5'"
            raise EnforceError(msg)
        principals.setdefault(address, set()).add(principal.strip())
    return principals
