"""Reads the policy from its ConfigMap. If the newest policy is invalid, the last good one stays in force.

A replica that starts without a valid policy uses the shipped one. Otherwise it would never become ready, and after the restart of
all replicas no pod could be created.
"""

import asyncio
from collections.abc import Set
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final

from webhook.errors import ApiError, PolicyError
from webhook.feeds.api import Api, Object
from webhook.feeds.events import event_object
from webhook.feeds.watch import Sink
from webhook.policy.loader import KEY
from webhook.policy.model import Policy
from webhook.telemetry.logs import Logger
from webhook.telemetry.metrics import Metrics

EVENT_SECONDS: Final = 1.0
"""Minimum time between two Events, however often the policy changes."""


class CurrentPolicy:
    def __init__(self, metrics: Metrics, log: Logger) -> None:
        self.current: Policy | None = None
        """None until one is loaded."""
        self.error: str | None = "none was seen yet"
        """The reason why the newest policy is not in force, or None."""
        self.shipped = False
        """Whether the shipped policy is in force because no valid one was found."""
        self._metrics = metrics
        self._log = log
        in_force = "The policy in force."
        metrics.gauges("policy_info", in_force, "hash", lambda: {self.current.hash: 1} if self.current else {})
        metrics.gauge("policy_valid", "1 if the newest policy is in force.", lambda: float(self.error is None))
        shipped = "1 if the shipped policy is in force because no other can be used."
        metrics.gauge("policy_shipped", shipped, lambda: float(self.shipped))

    def load(self, text: str | bytes) -> bool:
        """Put a policy in force. Returns False if it is invalid: then `error` says why, and the last good one stays."""
        try:
            policy = Policy.load(text)
        except PolicyError as error:
            self.refuse(str(error))
            return False
        before, self.current, self.error, self.shipped = self.current, policy, None, False
        if before is None or before.hash != policy.hash:
            self._log.info("policy", hash=policy.hash, profiles=sorted(policy.file.profiles))
        return True

    def refuse(self, why: str) -> None:
        """Report that the newest policy is invalid. The last good one stays, or else the shipped one comes into force."""
        if self.current is None:
            self.current, self.shipped = Policy.load(shipped_policy()), True
        self.error = why
        self._metrics.policy_errors.inc()
        self._log.error("policy refused", why=why.splitlines(), stays=self.current.hash, shipped=self.shipped)

    @property
    def remark(self) -> str:
        """Text that /readyz adds to "ok"; empty if the newest policy is in force."""
        if self.current is None or self.error is None:
            return ""
        if self.shipped:
            in_force = "the policy cannot be used, and the shipped one is in force until it can"
        else:
            in_force = "the policy does not take effect; the last good one stays"
        return f"{in_force}: {'; '.join(self.error.splitlines())}"[:1000]


def shipped_policy() -> bytes:
    """The policy that comes with the program."""
    return files("webhook.defaults").joinpath("policy.yaml").read_bytes()


class ConfigMapSink(Sink):
    """Loads the policy from its ConfigMap. An invalid policy is reported as an Event on the ConfigMap, where its author looks."""

    def __init__(self, current: CurrentPolicy, namespace: str, name: str) -> None:
        self._current, self._namespace, self._name = current, namespace, name
        self._reports: asyncio.Queue[Object] = asyncio.Queue(maxsize=8)
        self._last: tuple[str, str] | None = None

    def complete(self, keys: Set[Any]) -> None:
        if not keys:
            self._missing({"namespace": self._namespace, "name": self._name})

    def seen(self, obj: Object, *, listed: bool = False) -> None:
        metadata = obj["metadata"]
        version = (str(metadata.get("uid")), str(metadata.get("resourceVersion")))
        if version == self._last:
            return
        self._last = version
        data = obj.get("data")
        text = data.get(KEY) if isinstance(data, dict) else None
        if not isinstance(text, str):
            self._current.refuse(f"ConfigMap {self._namespace}/{self._name} has no key {KEY}: put the policy there")
        elif self._current.load(text):
            return
        self._report(metadata)

    def gone(self, obj: Object) -> None:
        self._missing(obj["metadata"])

    def _missing(self, metadata: Object) -> None:
        self._last = None
        self._current.refuse(f"ConfigMap {self._namespace}/{self._name} does not exist: apply the policy again")
        self._report(metadata)

    def _report(self, config_map: Object) -> None:
        if self._reports.full():  # the policy changes faster than Events are written: drop the oldest one
            self._reports.get_nowait()
        self._reports.put_nowait(_event(config_map, self._current.remark))

    async def report(self, api: Api, log: Logger) -> None:
        """Write the Events, one in EVENT_SECONDS. Never returns. One that cannot be written is dropped; the log has it too."""
        while True:
            event = await self._reports.get()
            try:
                await api.post(f"/api/v1/namespaces/{self._namespace}/events", event)
            except ApiError as error:
                if error.status != 409:  # 409: another replica has written it
                    log.warning("event not written", why=str(error))
            await asyncio.sleep(EVENT_SECONDS)


def _event(config_map: Object, message: str) -> Object:
    """An Event on a ConfigMap, which may not exist. All replicas give it the same name, so that only one is written."""
    version = {key: config_map[key] for key in ("uid", "resourceVersion") if config_map.get(key)}
    reference = {"namespace": config_map["namespace"], "name": config_map["name"]}
    involved = {"apiVersion": "v1", "kind": "ConfigMap", **reference, **version}
    return event_object(involved, f"{version} {message}", "Warning", "PolicyRefused", message, datetime.now(UTC))
