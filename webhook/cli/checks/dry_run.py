"""Creates a GPU pod as a dry run: the whole way from the API server to a replica and back, and nothing is stored."""

import asyncio
from typing import Any, Final

from webhook.cli.checks.result import Result
from webhook.cli.cluster.release import Release
from webhook.errors import ApiError
from webhook.feeds.access import Access, always
from webhook.feeds.api import Api
from webhook.kube.record import record_of
from webhook.text import bare

CHECK: Final = "dryRun"
_SECONDS: Final = 30
"""The API server sees the label of a new namespace a moment after it is there."""
_DENIED: Final = ("validate.gpu-admission.io", "denied the request")
"""Words of the API server's answer if a rule refuses a pod."""


def dry_run(access: Access, release: Release, namespace: str) -> Result:
    """What happens to a pod with one GPU in a namespace that has opted in. It needs the right to create pods there."""
    return asyncio.run(_try(access, release, namespace))


async def _try(access: Access, release: Release, namespace: str) -> Result:
    async with Api(always(access)) as api:
        for _ in range(_SECONDS):
            result = await _once(api, release, namespace)
            if result.state == "ok":
                break
            await asyncio.sleep(1)
        return result


async def _once(api: Api, release: Release, namespace: str) -> Result:
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    metadata = {"name": "gpu-admission-dry-run", "namespace": namespace}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    try:
        created = await api.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    except ApiError as error:
        if all(words in str(error) for words in _DENIED):
            return Result(
                CHECK, "ok", f"the webhook is asked about a GPU pod in {namespace}, and would refuse it: {error}"
            )
        return Result(CHECK, "broken", f"a GPU pod in {namespace} cannot be created: {error}", release.logs)
    if policy := record_of(created).get("policy"):
        return Result(
            CHECK, "ok", f"the webhook is asked about a GPU pod in {namespace}, and decides by policy {bare(policy)}"
        )
    text = f"a GPU pod in {namespace} would be created without a decision: the API server did not ask, or got no answer"
    return Result(CHECK, "broken", text, f"see whether the namespace has opted in, and why: {release.logs}")
