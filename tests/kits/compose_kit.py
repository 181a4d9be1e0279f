"""Runs compose.yaml with podman and local stand-ins for the images.

The images of others are replaced: Python's by Debian as debootstrap makes it, with the fetched jars in the place where
our Dockerfile fetches them, and the jar of Kafka's tools; Kafka's and Prometheus's by those in `compose_stand_ins`. All
containers share the network of one that does nothing else, with a loopback device alone: names of services are
addresses of it.
"""

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.kits.broker_kit import wait_until
from tests.kits.ivy_kit import retrieve

ROOT = Path(__file__).parents[2]
STAND_INS = Path(__file__).parents[1] / "bundle" / "compose_stand_ins"
TOOLS = ("podman", "runc", "debootstrap")
BASE = "python:3.13.7-slim-bookworm"
_OF_THE_HOST = Path("/etc/ssl/certs/ca-certificates.crt")
_PACKAGES = "ca-certificates,python3-pip,python3-venv,python-is-python3"
_KAFKA_TOOLS_SHA256 = "62f3c5dd7aa3442d4c5bc6a95f86e2502178ea09de8e27f74d9563bf955e253c"
_BUILD_S = 1200
# Below the limits of a machine that may not raise its own.
_LIMITS = ("--ulimit", "nofile=1024:16384", "--ulimit", "nproc=4096:4096")


def missing() -> list[str]:
    """What has to be there before a container can run."""
    return [name for name in TOOLS if shutil.which(name) is None] or (["root"] if os.geteuid() else [])


def load_compose(**variables: str) -> dict[str, Any]:
    """Return compose.yaml with variables as Compose substitutes them: `${NAME:-default}`."""
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1]) or found[2], text)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


class Podman:
    """Podman with images, containers and volumes in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: object, limit_s: float = 180) -> str:
        done = self.run(*arguments, limit_s=limit_s)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, *arguments: object, limit_s: float = 180) -> subprocess.CompletedProcess[str]:
        storage = ["--storage-driver=overlay", f"--root={self.folder}/root", f"--runroot={self.folder}/run"]
        command = ["podman", *storage, "--cgroup-manager=cgroupfs", "--runtime=runc", *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)

    def build(self, image: str, file: Path, context: Path) -> None:
        """Build an image; packages come over the network of this machine."""
        how = ("--network=host", "--isolation=chroot", "--pull=never", "--layers=false")
        self("build", *how, "-t", image, "-f", file, context, limit_s=_BUILD_S)

    def close(self) -> None:
        """End all containers and forget everything."""
        self.run("rm", "--all", "--force", "--time=5")
        self.run("system", "reset", "--force")


def make_base(podman: Podman, folder: Path, jars: Path, kafka_version: str) -> None:
    """Import what stands in for Python's image; what was fetched is kept beside the jars for the next run."""
    kept = jars.resolve() / "compose-base"
    if not (kept / ".complete").exists():
        shutil.rmtree(kept, ignore_errors=True)
        made = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(kept)]
        subprocess.run(made, check=True, capture_output=True, timeout=_BUILD_S)
        # pip may write into it, as it may in Python's image.
        for mark in kept.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            mark.unlink()
        if _OF_THE_HOST.exists():
            shutil.copy(_OF_THE_HOST, kept / "etc/ssl/certs")
        (kept / ".complete").touch()
    archive = folder / "base.tar"
    parts = (".complete", "kafka", "spark", "compiler")
    fetched = [f"--transform=s,^{part},opt/pid-quota/jars/{part}," for part in parts]
    subprocess.run(["tar", "-C", kept, "--exclude=./.complete", "-cf", archive, "."], check=True)
    subprocess.run(["tar", "-C", jars, "-rf", archive, *fetched, *parts], check=True)
    tools = _kafka_tools(jars / "built" / "compose-tools", kafka_version)
    place = "--transform=s,^,opt/kafka/libs/,"
    subprocess.run(["tar", "-C", tools.parent, "-rf", archive, place, tools.name], check=True)
    podman("import", archive, BASE)
    archive.unlink()


def _kafka_tools(folder: Path, version: str) -> Path:
    """Fetch the jar of Kafka's own tools once; what they need is among our jars."""
    jar = folder / f"kafka-tools-{version}.jar"
    if not jar.exists():
        dependency = ("-notransitive", "-dependency", "org.apache.kafka", "kafka-tools", version)
        retrieve(folder, *dependency, "-types", "jar", "-confs", "default")
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    assert found == _KAFKA_TOOLS_SHA256, f"{jar} has the SHA-256 {found}, not {_KAFKA_TOOLS_SHA256}"
    return jar


class Compose:
    """The services of compose.yaml, started in the order that they ask for."""

    def __init__(self, podman: Podman, services: Mapping[str, Any]) -> None:
        self._podman, self._services = podman, services
        self._names = podman.folder / "hosts"
        self._names.write_text(f"127.0.0.1 localhost {' '.join(services)}\n")
        self._started: list[str] = []
        podman(
            "run", "--detach", "--name=network", "--network=none", "--pull=never", *_LIMITS, BASE, "sleep", "infinity"
        )

    def up(self, *names: str) -> None:
        """Start services, each after those it depends on are healthy or have ended well."""
        for name in names:
            if name in self._started:
                continue
            for other, how in self._services[name].get("depends_on", {}).items():
                self.up(other)
                self._wait(other, how["condition"])
            self._start(name)

    def healthy(self, name: str) -> None:
        """Wait until a service's health check passes."""
        self._wait(name, "service_healthy")

    def done(self, name: str) -> None:
        """Wait until a service has ended well."""
        self._wait(name, "service_completed_successfully")

    def replace(self, name: str) -> None:
        """Put a new container in a service's place; its volumes stay."""
        self._podman("rm", "--force", "--time=60", name)
        self._started.remove(name)
        self._start(name)
        self.healthy(name)

    def exec(self, name: str, *command: str) -> str:
        """Run a command in a service's container and return what it prints."""
        return self._podman("exec", name, *command)

    def stop(self, name: str) -> str:
        """Stop a service as `docker compose stop` does, and return all that it printed."""
        self._podman("stop", "--time=60", name)
        return self.logs(name)

    def logs(self, name: str) -> str:
        shown = self._podman.run("logs", name)
        return shown.stdout + shown.stderr

    def _start(self, name: str) -> None:
        service = self._services[name]
        variables = [f"--env={key}={value}" for key, value in service.get("environment", {}).items()]
        volumes = [f"--volume={_absolute(volume)}" for volume in service.get("volumes", [])]
        volumes.append(f"--volume={self._names}:/etc/hosts:ro")
        options = [
            "--detach",
            f"--name={name}",
            f"--hostname={name}",
            "--pull=never",
            *_LIMITS,
            "--network=container:network",
            *variables,
            *volumes,
        ]
        # podman takes one word as the entry point.
        entrypoint, *words = service.get("entrypoint", [""])
        options += [f"--entrypoint={entrypoint}"] if entrypoint else []
        self._podman("run", *options, service["image"], *words, *service.get("command", []))
        self._started.append(name)

    def _wait(self, name: str, condition: str) -> None:
        def is_met() -> bool:
            state = self._state(name)
            assert not state.startswith("exited") or state == "exited 0", f"{name}: {self.logs(name)}"
            if condition == "service_completed_successfully":
                return state == "exited 0"
            return self._podman.run("exec", name, *self._services[name]["healthcheck"]["test"][1:]).returncode == 0

        try:
            wait_until(is_met, f"{name}: {condition}")
        except AssertionError as error:
            msg = f"{error}\n{self.logs(name)}"
            raise AssertionError(msg) from error

    def _state(self, name: str) -> str:
        shown = self._podman("inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", name)
        time.sleep(0.5)
        return shown.strip()


def _absolute(volume: str) -> str:
    return f"{ROOT}{volume[1:]}" if volume.startswith(".") else volume
