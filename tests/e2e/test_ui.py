"""A person with the page and a real cluster: finds the waiting pod, reads why, does what the page says, and sees the pod run."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.browser import Tab, browser
from tests.controlplane.api import Api
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def address(control_plane: ControlPlane) -> Iterator[str]:
    """Where the command serves the page."""
    command = [sys.executable, "-m", "webhook", "ui", "--kubeconfig", str(control_plane.kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield running.stdout.readline().strip()
        running.send_signal(signal.SIGINT)
        assert running.wait(600) == 0


@pytest.fixture
async def tab(address: str, nodes: MakeNodes) -> AsyncIterator[Tab]:
    """The page of a cluster with one node of four GPUs, which is cordoned. The node comes after the page."""
    async with browser() as found:
        await found.look()
        await found.open(address)
        await nodes([node("ui-a", 4, cordoned=True)])
        await found.until("!!document.querySelector('[data-node=\"ui-a\"]')")
        yield found
        assert found.errors == []


async def test_the_way_from_a_waiting_pod_to_one_that_runs(
    tab: Tab, control_plane: ControlPlane, api: Api, namespace: str
) -> None:
    await tab.until("document.querySelector('[data-node=\"ui-a\"]').textContent.includes('cordoned')")
    await api.create(pod("waits", 3), namespace)
    row = f'[data-pod="{namespace}/waits"]'
    await tab.until(f"!!document.querySelector('{row}')")
    await tab.click(f"{row} > button")
    await tab.until(f"document.querySelector('{row} .says')?.innerText.includes('unschedulable')")
    await tab.until("document.querySelector('[data-node=\"ui-a\"] .say').textContent === 'cordoned'")
    assert (await tab.texts(f"{row} .why")) == ["cordoned"]

    copied = await tab.value(f"document.querySelector('{row} .cause button').getAttribute('aria-label')")
    assert copied == "Copy: kubectl uncordon ui-a"
    await asyncio.to_thread(control_plane.kubectl, *copied.split()[2:])

    await tab.until(f"!document.querySelector('{row}')")
    await tab.until("document.querySelectorAll('[data-node=\"ui-a\"] .held').length === 3")
    said = await tab.value("document.querySelector('[data-node=\"ui-a\"] .held').getAttribute('aria-label')")
    assert f"held by {namespace}/waits" in said
    assert (await api.bound(namespace, "waits"))["spec"]["nodeName"] == "ui-a"
    points = await tab.value("document.querySelector('.spark').getAttribute('aria-label')")
    assert points.startswith("GPUs in use since ")
    assert await tab.value("document.getElementById('banner').hidden")


async def test_old_data_are_called_old(tab: Tab, control_plane: ControlPlane) -> None:
    await tab.until("document.getElementById('fresh').innerText === 'live'")
    await asyncio.to_thread(control_plane.stop, "kube-apiserver", 0)
    try:
        await tab.until("document.getElementById('banner').innerText.includes('the API server cannot be asked')")
        assert await tab.value("document.getElementById('fresh').innerText") == "old"
        await tab.click("[data-question=drain]")
        said = await tab.until("document.querySelector('#answer .command .label')?.innerText")
        banner = await tab.value("document.getElementById('banner').innerText")
        assert said.removeprefix("as of ") in banner, "an answer is as old as what it was made of"
    finally:
        await asyncio.to_thread(control_plane.start, "kube-apiserver")
    await tab.until("document.getElementById('fresh').innerText === 'live'")
