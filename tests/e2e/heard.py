"""Waits until the API server calls webhooks by their configurations as they are stored. It learns of them by a watch."""

import uuid
from typing import Any, Self

from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.manifests.files import HOOKS


class Heard:
    """A watch shows writes in their order. So two configurations more, whose hooks nobody serves, show how far it is."""

    def __init__(self, api: Api) -> None:
        self._api, self._name, self._number = api, f"heard-{uuid.uuid4().hex[:6]}", 0

    async def __aenter__(self) -> Self:
        await self._api.namespace(self._name)
        for kind in HOOKS:
            head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": self._name}}
            await self._api.create({**head, "webhooks": [self._hook()]})
        return self

    async def __aexit__(self, *unused: object) -> None:
        for kind in HOOKS:
            await self._api.delete(kind, self._name)
        await remove_namespace(self._api, self._name)

    async def all(self) -> None:
        """Wait until the API server has heard of all that is stored now."""
        self._number += 1
        for kind in HOOKS:
            await self._api.patch(kind, self._name, {"webhooks": [self._hook()]})
        probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"probe-{self._number}"}}

        async def passes() -> bool:
            return not await refusal(self._api.create(probe, self._name, dryRun="All"))

        await wait_until(passes, 120, "the API server to hear of a webhook configuration")

    def _hook(self) -> dict[str, Any]:
        """It refuses every ConfigMap of the namespace but that of the number."""
        condition = {"name": "another", "expression": f"object.metadata.name != 'probe-{self._number}'"}
        return {
            "name": "heard.gpu-admission.io",
            "clientConfig": {"url": "https://127.0.0.1:1"},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._name}},
            "matchConditions": [condition],
            "rules": [
                {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
            ],
        }
