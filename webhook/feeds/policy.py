"""The policy in force: read from the ConfigMap through the API, swapped whole, the last good one kept.

A replica that starts and finds none that it can use takes the shipped one: there is no other that it could know of, and one
replica after another that never gets ready would end in a namespace where no pod can be created.
"""

from __future__ import annotations

import asyncio
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
"""Between two Events, however often somebody changes the policy."""


class CurrentPolicy:
    """`current` is what decides; None until a first one was seen. `error` is why the newest one is not in force, and
    `shipped` whether the shipped one is in force because there was no good one."""

    def __init__(self, metrics: Metrics, log: Logger) -> None:
        self.current: Policy | None = None
        self.error: str | None = "none was seen yet"
        self.shipped = False
        self._metrics = metrics
        self._log = log
        metrics.gauges("policy_info", "The policy in force.", "hash", self._info)
        metrics.gauge("policy_valid", "1 if the newest policy is in force.", lambda: float(self.error is None))
        shipped = "1 if the shipped policy is in force because no other can be used."
        metrics.gauge("policy_shipped", shipped, lambda: float(self.shipped))

    def load(self, text: str | bytes) -> bool:
        """Put a policy in force. False where it does not parse: `error` says why, and the last good one stays."""
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
        """The newest policy cannot be used: the last good one stays, or else the shipped one is put in force."""
        if self.current is None:
            self.current, self.shipped = Policy.load(shipped_policy()), True
        self.error = why
        self._metrics.policy_errors.inc()
        self._log.error("policy refused", why=why.splitlines(), stays=self.current.hash, shipped=self.shipped)

    @property
    def remark(self) -> str:
        """What /readyz adds to "ok"; empty where all is well."""
        if self.current is None or self.error is None:
            return ""
        return f"{self._stand_in}: {'; '.join(self.error.splitlines())}"[:1000]

    @property
    def _stand_in(self) -> str:
        if self.shipped:
            return "the policy cannot be used, and the shipped one is in force until it can"
        return "the policy does not take effect; the last good one stays"

    def _info(self) -> dict[str, Any]:
        return {self.current.hash: 1} if self.current else {}


def shipped_policy() -> bytes:
    """The policy that comes with the program."""
    return files("webhook.defaults").joinpath("policy.yaml").read_bytes()


class ConfigMapSink(Sink):
    """The ConfigMap on its way into `CurrentPolicy`. A bad one is reported where its author looks: as an Event on it."""

    def __init__(self, current: CurrentPolicy, namespace: str, name: str) -> None:
        self._current, self._namespace, self._name = current, namespace, name
        self._listed = False
        self._reports: asyncio.Queue[Object] = asyncio.Queue(maxsize=8)
        self._last: tuple[str, str] | None = None

    def list_begins(self) -> None:
        self._listed = False

    def list_ends(self) -> None:
        if not self._listed:
            self._missing({"namespace": self._namespace, "name": self._name})

    def seen(self, obj: Object) -> None:
        self._listed = True
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
        if self._reports.full():  # somebody writes faster than we report: the newest counts
            self._reports.get_nowait()
        self._reports.put_nowait(_event(config_map, self._current.remark))

    async def report(self, api: Api, log: Logger) -> None:
        """Write the Events, one in EVENT_SECONDS. For ever; one that cannot be written is given up: the log has it too."""
        while True:
            event = await self._reports.get()
            try:
                await api.post(f"/api/v1/namespaces/{self._namespace}/events", event)
            except ApiError as error:
                if error.status != 409:  # 409: another replica was quicker
                    log.warning("event not written", why=str(error))
            await asyncio.sleep(EVENT_SECONDS)


def _event(config_map: Object, message: str) -> Object:
    """An Event on a ConfigMap, which may be gone. All replicas give it the same name, so that it is there once."""
    version = {key: config_map[key] for key in ("uid", "resourceVersion") if config_map.get(key)}
    reference = {"namespace": config_map["namespace"], "name": config_map["name"]}
    involved = {"apiVersion": "v1", "kind": "ConfigMap", **reference, **version}
    return event_object(involved, f"{version} {message}", "Warning", "PolicyRefused", message, datetime.now(UTC))
