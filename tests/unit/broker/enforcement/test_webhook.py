import hashlib
import hmac
import json
import ssl
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
import trustme

from broker.enforcement.notices import Notice, NoticeAction
from broker.enforcement.webhook import Webhook
from broker.errors import WebhookError
from tests.kits.webhook_kit import Endpoint, Proxy

KEY = "a key of the test"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    running = Endpoint()
    yield running
    running.close()


@pytest.fixture
def warnings() -> list[str]:
    return []


def hook(url: str, warnings: list[str]) -> Webhook:
    return Webhook(url, KEY, warn=warnings.append, pause_s=0.01, retry_s=(0.01, 0.01))


def notice(kind: NoticeAction = "throttled", principal: str = "User:mallory") -> Notice:
    return Notice(0, kind, "3 PIDs refused", principal)


def wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_a_throttle_and_its_release_arrive_in_order_as_json(endpoint: Endpoint, warnings: list[str]) -> None:
    with hook(endpoint.url, warnings) as webhook:
        webhook.enqueue(notice())
        webhook.enqueue(notice("restored"))

    assert [(event["event"], event["principal"]) for event in endpoint.events()] == [
        ("THROTTLE", "User:mallory"),
        ("RELEASE", "User:mallory"),
    ]
    assert endpoint.posts[0][0]["Content-Type"] == "application/json"
    assert warnings == []


def test_a_throttle_says_what_its_clients_look_like_and_asks_once_for_each_post(
    endpoint: Endpoint, warnings: list[str]
) -> None:
    asked: list[set[str]] = []

    def looks_like(principals: Collection[str]) -> dict[str, str]:
        asked.append(set(principals))
        return {"User:pods": "likely deploy, else leak"}

    with Webhook(endpoint.url, KEY, warn=warnings.append, looks_like=looks_like, pause_s=0.2) as webhook:
        webhook.enqueue(notice(principal="User:first"))
        wait_until(lambda: bool(endpoint.posts))
        for each in (notice(principal="User:pods"), notice("restored", "User:pods"), notice("alert")):
            webhook.enqueue(each)

    told = [(event["event"], event.get("looks_like", "nothing")) for event in endpoint.events()]
    assert told == [
        ("THROTTLE", None),
        ("THROTTLE", "likely deploy, else leak"),
        ("RELEASE", "nothing"),
        ("ALERT", "nothing"),
    ]
    assert asked == [{"User:first"}, {"User:pods"}]


@pytest.mark.parametrize(("kind", "event"), [("failed", "FAIL_OPEN"), ("skipped", "FAIL_OPEN"), ("alert", "ALERT")])
def test_skipped_decisions_and_warnings_are_sent_too(
    endpoint: Endpoint, warnings: list[str], kind: NoticeAction, event: str
) -> None:
    with hook(endpoint.url, warnings) as webhook:
        webhook.enqueue(notice(kind))

    assert [each["event"] for each in endpoint.events()] == [event]


def test_an_extended_lease_is_no_news(endpoint: Endpoint, warnings: list[str]) -> None:
    with hook(endpoint.url, warnings) as webhook:
        webhook.enqueue(notice("extended"))

    assert endpoint.posts == []


def test_a_receiver_can_check_the_signature_of_the_very_bytes_and_of_when_they_were_sent(
    endpoint: Endpoint, warnings: list[str]
) -> None:
    with hook(endpoint.url, warnings) as webhook:
        webhook.enqueue(notice(principal="User:jürgen"))

    ((headers, body),) = endpoint.posts
    sent_at = headers["X-Pid-Quota-Timestamp"]
    signed = hmac.new(KEY.encode(), sent_at.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["X-Pid-Quota-Signature"] == f"sha256={signed}"
    assert sent_at.isdecimal()


def test_an_endpoint_in_trouble_gets_the_same_bytes_again(endpoint: Endpoint, warnings: list[str]) -> None:
    endpoint.answers = [503, 429]

    with hook(endpoint.url, warnings) as webhook:
        webhook.enqueue(notice())
        wait_until(lambda: len(endpoint.posts) == 3)

    assert len({body for _, body in endpoint.posts}) == 1
    assert (webhook.dropped, warnings) == (0, [])


def test_notices_that_an_endpoint_refuses_are_dropped_and_reported_without_the_path(
    endpoint: Endpoint, warnings: list[str]
) -> None:
    endpoint.answers = [404]

    with hook(endpoint.url, warnings) as webhook:
        webhook.enqueue(notice())
        wait_until(lambda: webhook.dropped > 0)
        webhook.enqueue(notice("restored"))

    assert warnings == ["webhook 127.0.0.1: it answered 404; notices dropped so far: 1"]
    assert [json.loads(body)["dropped"] for _, body in endpoint.posts] == [0, 1]


def test_a_dead_endpoint_costs_its_notices_and_nothing_else(warnings: list[str]) -> None:
    with hook("http://127.0.0.1:9/", warnings) as webhook:
        webhook.enqueue(notice())
        wait_until(lambda: webhook.dropped > 0)

    assert "ConnectionRefusedError" in warnings[0]


def test_a_slow_endpoint_never_makes_the_enforcer_wait(endpoint: Endpoint, warnings: list[str]) -> None:
    endpoint.hold.clear()

    with hook(endpoint.url, warnings) as webhook:
        webhook.enqueue(notice())
        wait_until(lambda: bool(endpoint.posts))
        for _ in range(1_200):
            webhook.enqueue(notice("restored"))
        assert webhook.dropped == 200
        endpoint.hold.set()

    # A storm is a few requests: this is how the rate is limited.
    assert (len(endpoint.events()), len(endpoint.posts)) == (1_001, 11)
    assert [warning.rpartition(" ")[2] for warning in warnings] == ["1", "10", "100"]


def test_a_redirect_is_not_followed(endpoint: Endpoint, warnings: list[str]) -> None:
    endpoint.answers = [307]

    with hook(endpoint.url, warnings) as webhook:
        webhook.enqueue(notice())

    assert (len(endpoint.posts), webhook.dropped) == (1, 1)


@pytest.mark.parametrize("url", ["ftp://host/x", "host/secret", "https:///secret", "https://host:port/secret"])
def test_an_invalid_endpoint_is_refused_without_repeating_it(url: str, warnings: list[str]) -> None:
    with pytest.raises(WebhookError, match="write https://host/path") as caught:
        hook(url, warnings)
    assert "secret" not in str(caught.value)


def test_a_password_in_the_address_is_refused_and_not_shown(warnings: list[str]) -> None:
    with pytest.raises(WebhookError, match="has user info") as caught:
        hook("https://me:hunter2@host/", warnings)
    assert "hunter2" not in str(caught.value)


class TestProxy:
    @pytest.fixture
    def proxy(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
        running = Proxy()
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)
        yield running
        running.close()

    @pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy"])
    def test_a_post_goes_by_the_proxy_of_the_environment(
        self, endpoint: Endpoint, proxy: Proxy, warnings: list[str], monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv(name, f"http://me:hunter2@{proxy.address}")

        with hook(endpoint.url, warnings) as webhook:
            webhook.enqueue(notice())

        ((asked, headers),) = proxy.asked
        assert asked == f"POST {endpoint.url}"
        assert headers["proxy-authorization"] == "Basic bWU6aHVudGVyMg=="
        assert [(event["event"], event["help"]) for event in endpoint.events()] == [("THROTTLE", "docs/throttled.md")]
        assert "proxy-authorization" not in endpoint.posts[0][0]

    def test_https_is_tunnelled(
        self, proxy: Proxy, warnings: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        monkeypatch.setenv("HTTPS_PROXY", proxy.address)
        secure = Endpoint(context)

        with hook(secure.url, warnings) as webhook:
            webhook.enqueue(notice())
        secure.close()

        assert [asked for asked, _ in proxy.asked] == [f"CONNECT {secure.url.split('/')[2]}"]
        assert ([event["event"] for event in secure.events()], warnings) == (["THROTTLE"], [])

    @pytest.mark.parametrize("exempt", ["localhost,127.0.0.1", "*"])
    def test_hosts_of_no_proxy_are_reached_directly(
        self, endpoint: Endpoint, proxy: Proxy, warnings: list[str], monkeypatch: pytest.MonkeyPatch, exempt: str
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
        monkeypatch.setenv("NO_PROXY", exempt)

        with hook(endpoint.url, warnings) as webhook:
            webhook.enqueue(notice())

        assert (proxy.asked, len(endpoint.posts)) == ([], 1)

    def test_a_dead_proxy_is_named_without_its_password_and_the_path(
        self, endpoint: Endpoint, proxy: Proxy, warnings: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://me:hunter2@127.0.0.1:9")

        with hook(endpoint.url, warnings) as webhook:
            webhook.enqueue(notice())
            wait_until(lambda: webhook.dropped > 0)

        assert "ConnectionRefusedError" in warnings[0]
        assert "hunter2" not in warnings[0]
        assert "hook" not in warnings[0].removeprefix("webhook")

    def test_a_proxy_that_can_t_be_used_is_refused_at_once(
        self, proxy: Proxy, warnings: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "socks5://me:hunter2@host:1")
        with pytest.raises(WebhookError, match="HTTPS_PROXY") as caught:
            hook("https://host/", warnings)
        assert "hunter2" not in str(caught.value)
