"""Check who signed a webhook: over the raw body, in constant time, within a window where the sender gives a time. Pure.

Each way returns the parts that its signature vouches for, and with them an id: a request that is sent again has the
same one, whatever unsigned headers somebody changes.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

WINDOW_SECONDS = 300
_PREFIX = "whsec_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedEvent:
    """A request whose sender knows the secret of the route."""

    id: str  # the same for a second copy; empty when copies cannot be told from new events
    event: str = ""


Check = Callable[[bytes, Mapping[str, str], bytes, float], SignedEvent | None]
"""Takes the secret, the headers, the body and the time in seconds; returns None for a wrong signature."""


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _sign(secret: bytes, content: bytes) -> str:
    return hmac.new(secret, content, hashlib.sha256).hexdigest()


def _is_recent(timestamp: str, now: float) -> bool:
    is_number = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12
    return is_number and abs(now - int(timestamp)) <= WINDOW_SECONDS


def _hash(*contents: bytes) -> str:
    return hashlib.sha256(b"\n".join(contents)).hexdigest()[:40]


def _check_github(secret: bytes, headers: Mapping[str, str], body: bytes, now: float) -> SignedEvent | None:
    if not _is_same(headers.get("X-Hub-Signature-256", ""), f"sha256={_sign(secret, body)}"):
        return None
    # By the body: GitHub's own id of a delivery is not signed.
    return SignedEvent(id=_hash(body), event=headers.get("X-GitHub-Event", ""))


def _check_gitlab(secret: bytes, headers: Mapping[str, str], body: bytes, now: float) -> SignedEvent | None:
    """Check GitLab's secret token, which is sent as it is."""
    if not _is_same(headers.get("X-Gitlab-Token", ""), secret.decode()):
        return None
    given = headers.get("Idempotency-Key", "") or headers.get("X-Gitlab-Event-UUID", "")
    return SignedEvent(
        id=_hash(given.encode("utf-8", "surrogateescape"), body), event=headers.get("X-Gitlab-Event", "")
    )


def _check_slack(secret: bytes, headers: Mapping[str, str], body: bytes, now: float) -> SignedEvent | None:
    timestamp = headers.get("X-Slack-Request-Timestamp", "")
    expected = _sign(secret, b"v0:" + timestamp.encode("utf-8", "surrogateescape") + b":" + body)
    if not _is_same(headers.get("X-Slack-Signature", ""), f"v0={expected}") or not _is_recent(timestamp, now):
        return None
    return SignedEvent(id=_hash(timestamp.encode(), body))


def _check_hmac(secret: bytes, headers: Mapping[str, str], body: bytes, now: float) -> SignedEvent | None:
    """Check our own plain form: HMAC-SHA256 over time, a dot and the body."""
    timestamp = headers.get("X-Hermes-Timestamp", "")
    expected = _sign(secret, timestamp.encode("utf-8", "surrogateescape") + b"." + body)
    if not _is_same(headers.get("X-Hermes-Signature", ""), f"sha256={expected}") or not _is_recent(timestamp, now):
        return None
    return SignedEvent(id=_hash(timestamp.encode(), body), event=headers.get("X-Hermes-Event", ""))


def _sign_standard(secret: bytes, content: bytes) -> str:
    """Sign as standardwebhooks.com says: the secret is base64; one that is not is used as it stands."""
    try:
        key = base64.b64decode(secret.decode().removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = secret
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def _check_standard(secret: bytes, headers: Mapping[str, str], body: bytes, now: float) -> SignedEvent | None:
    """Check the form of standardwebhooks.com, which many services use."""
    name, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    expected = _sign_standard(secret, f"{name}.{timestamp}.".encode("utf-8", "surrogateescape") + body)
    given = headers.get("webhook-signature", "").split(" ")[:8]
    matches = [_is_same(one, expected) for one in given]  # all of them: the time must not tell which
    if not any(matches) or not _is_recent(timestamp, now):
        return None
    return SignedEvent(id=_hash(name.encode()))


def _check_bearer(secret: bytes, headers: Mapping[str, str], body: bytes, now: float) -> SignedEvent | None:
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if not _is_same(token.strip(), secret.decode()) or scheme.lower() != "bearer":
        return None
    given = headers.get("Idempotency-Key", "")
    return SignedEvent(id=_hash(given.encode("utf-8", "surrogateescape")) if given else "")


CHECKS: dict[str, Check] = {
    "github": _check_github,
    "gitlab": _check_gitlab,
    "slack": _check_slack,
    "hmac": _check_hmac,
    "standard": _check_standard,
    "bearer": _check_bearer,
}


def sign_sample(kind: str, secret: str, body: bytes, now: float) -> dict[str, str]:
    """Return the headers with which a sender of this kind would sign a body, for a test of one's own route."""
    key, timestamp = secret.encode(), str(int(now))
    match kind:
        case "github":
            return {"X-Hub-Signature-256": f"sha256={_sign(key, body)}", "X-GitHub-Event": "test"}
        case "gitlab":
            return {"X-Gitlab-Token": secret, "X-Gitlab-Event": "Test Hook"}
        case "slack":
            signed = _sign(key, f"v0:{timestamp}:".encode() + body)
            return {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": f"v0={signed}"}
        case "hmac":
            signed = _sign(key, f"{timestamp}.".encode() + body)
            return {"X-Hermes-Timestamp": timestamp, "X-Hermes-Signature": f"sha256={signed}"}
        case "standard":
            name = f"msg_{timestamp}"
            signed = _sign_standard(key, f"{name}.{timestamp}.".encode() + body)
            return {"webhook-id": name, "webhook-timestamp": timestamp, "webhook-signature": signed}
        case _:
            return {"Authorization": f"Bearer {secret}"}
