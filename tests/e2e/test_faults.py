"""Watch faults: whatever breaks between us and the API server, the state equals a fresh list soon after."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import pytest

from tests.controlplane.api import Api as Client
from tests.controlplane.api import wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.proxy import Proxy
from tests.state.objects import facts
from webhook.feeds import cluster, watch
from webhook.feeds.access import Access, from_kubeconfig
from webhook.feeds.api import CONNECT_SECONDS, Api
from webhook.feeds.tasks import Tasks
from webhook.state.state import ClusterState
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

pytestmark = pytest.mark.controlplane

RECOVERY = 120.0
MAX_AGE = 6.0


@dataclass
class Fed:
    """A state that is fed through a proxy, and what may go wrong."""

    state: ClusterState
    proxy: Proxy
    plane: ControlPlane
    api: Client

    async def equal_to_a_fresh_list(self) -> bool:
        """The same facts as a state that is filled from lists of this moment, every required kind heard of lately."""
        fresh = ClusterState(max_age=1.0)
        for kind, name in (("nodes", "Node"), ("pods", "Pod"), ("namespaces", "Namespace")):
            fresh.replace(kind, await self.api.list(name), 0.0)
        fresh.replace("priorityclasses", await self.api.list("PriorityClass"), 0.0)
        seen, wanted = facts(self.state), facts(fresh)
        differing = [key for key in wanted if seen[key] != wanted[key]]
        assert not differing, differing
        assert self.state.fresh(time.monotonic()), self.state.freshness.heard_at
        return True


@pytest.fixture
async def fed(
    control_plane: ControlPlane, api: Client, monkeypatch: pytest.MonkeyPatch, nodes: MakeNodes
) -> AsyncIterator[Fed]:
    """Watches last seconds here instead of half a minute: a silent one is noticed that much sooner."""
    monkeypatch.setattr(watch, "WATCH_SECONDS", 7)
    monkeypatch.setattr(watch, "SILENCE_SECONDS", 4.0)
    await nodes("2x8")
    metrics, log = Metrics(), logs.configure()
    state = ClusterState(max_age=MAX_AGE)
    state.ledger.ttl = 1.0
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(Proxy(control_plane.port))

        async def access() -> Access:
            found = await from_kubeconfig(control_plane.kubeconfig)
            return found._replace(base=f"https://127.0.0.1:{proxy.port}")

        ours = await stack.enter_async_context(Api(access, CONNECT_SECONDS))
        tasks = await stack.enter_async_context(Tasks(metrics, log))
        cluster.start(tasks, ours, state, metrics, log, time.monotonic)
        found = Fed(state, proxy, control_plane, api)
        await wait_until(found.equal_to_a_fresh_list, RECOVERY, "the first list")
        yield found


async def restarted(fed: Fed, meanwhile: Callable[[], Awaitable[None]]) -> None:
    await asyncio.to_thread(fed.plane.stop, "kube-apiserver", 0)
    await asyncio.to_thread(fed.plane.start, "kube-apiserver")
    await meanwhile()


async def cut(fed: Fed, meanwhile: Callable[[], Awaitable[None]]) -> None:
    fed.proxy.cut()
    await meanwhile()
    fed.proxy.cut()


async def silent_then_back(fed: Fed, meanwhile: Callable[[], Awaitable[None]]) -> None:
    fed.proxy.silence()
    await meanwhile()

    async def too_old() -> bool:
        return not fed.state.fresh(time.monotonic())

    await wait_until(too_old, 120, "a state that heard nothing and must not choose")
    fed.proxy.resume()


async def half_open_for_ever(fed: Fed, meanwhile: Callable[[], Awaitable[None]]) -> None:
    fed.proxy.silence()
    fed.proxy.forget()
    await meanwhile()


@pytest.mark.parametrize(
    "fault", [restarted, cut, silent_then_back, half_open_for_ever], ids=lambda fault: fault.__name__
)
async def test_the_state_equals_a_fresh_list_after(
    fault: Callable[[Fed, Callable[[], Awaitable[None]]], Awaitable[None]], fed: Fed, namespace: str, nodes: MakeNodes
) -> None:
    """Pods come and go and a node is cordoned while nobody listens: deletions in the gap are noticed too."""
    await fed.api.create(pod("before"), namespace)
    await fed.api.running(namespace, 1)

    async def meanwhile() -> None:
        await wait_until(partial(fed.api.list, "Node"), 120, "the API server")
        (name, _) = sorted(n["metadata"]["name"] for n in await fed.api.list("Node"))[:2]
        await fed.api.patch("Node", name, {"spec": {"unschedulable": True}})
        await fed.api.create(pod("during"), namespace)
        await fed.api.delete("Pod", "before", namespace, grace=0)

    await fault(fed, meanwhile)
    noticed = watch.SILENCE_SECONDS if fault is half_open_for_ever else 0.0
    await wait_until(fed.equal_to_a_fresh_list, RECOVERY + noticed, f"the truth after {fault.__name__}")
