"""The policy in force: read from the ConfigMap through the API, swapped whole, the last good one kept."""

from __future__ import annotations

from typing import Any, Final

from webhook.errors import PolicyError
from webhook.logs import Logger
from webhook.metrics import Metrics
from webhook.policy import Policy

KEY: Final = "policy.yaml"


class PolicyHolder:
    """`current` is what decides; None until a first policy parsed. `error` is why the newest one is not in force."""

    def __init__(self, metrics: Metrics, log: Logger) -> None:
        self.current: Policy | None = None
        self.error: str | None = "none was seen yet"
        self._metrics = metrics
        self._log = log
        metrics.gauges("policy_info", "The policy in force.", "hash", self._info)
        metrics.gauge("policy_valid", "1 if the newest policy is in force.", lambda: float(self.error is None))

    def load(self, text: str | bytes) -> bool:
        """Put a policy in force. False where it does not parse: `error` says why, and the last good one stays."""
        try:
            policy = Policy.load(text)
        except PolicyError as error:
            self.refuse(str(error))
            return False
        before, self.current, self.error = self.current, policy, None
        if before is None or before.hash != policy.hash:
            self._log.info("policy", hash=policy.hash, profiles=sorted(policy.file.profiles))
        return True

    def refuse(self, why: str) -> None:
        """The newest policy cannot be used."""
        self.error = why
        self._metrics.policy_errors.add()
        self._log.error("policy refused", why=why.splitlines(), stays=self.current.hash if self.current else None)

    def _info(self) -> dict[str, Any]:
        return {self.current.hash: 1} if self.current else {}
