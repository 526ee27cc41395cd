"""Every query answered by a real Prometheus that scrapes the webhook and the API server, once what it asks about has happened.

The panels of docs/dashboard.svg are drawn from these answers: `DRAW=1 pytest -m controlplane` on this file.
"""

import asyncio
import os
import re
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from bench.load import anybody
from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, made, pod
from tests.controlplane.plane import ControlPlane
from tests.feeds.prometheus_server import Exporter, Prometheus
from tests.installed import ROOT, SHIPPED, Installed, MakeTeam
from tests.manifests.files import documents
from tests.manifests.monitoring import drawn
from tests.manifests.monitoring.files import COMPONENT, panels, queries, without_variables
from tests.manifests.monitoring.promql import selectors, sums

pytestmark = pytest.mark.controlplane


def shrunk(name: str) -> Json:
    found = node(name)
    found["status"]["allocatable"] |= {"nvidia.com/gpu": "7"}
    return found


NODES = [node("a-hot"), node("b-sick"), node("c-full"), shrunk("d-shrunk"), node("e-empty")]
IDLE = (ROOT / "tests" / "feeds" / "data" / "dcgm-8-idle.txt").read_text()


def page(name: str, **numbers: int) -> str:
    """What the exporter of a node says; `numbers`: other values of the first GPU, by metric."""
    text = IDLE.replace("gpu-a-0", name).replace("GPU-3b5f0c1e", f"GPU-{name}")
    for metric, number in numbers.items():
        text = re.sub(rf'^({metric}\{{gpu="0".*\}}) \S+$', rf"\g<1> {number}", text, count=1, flags=re.M)
    return text


PAGE = "".join(
    [
        page("a-hot", DCGM_FI_DEV_GPU_TEMP=91),
        page("b-sick", DCGM_FI_DEV_XID_ERRORS=79),
        page("c-full", DCGM_FI_DEV_FB_USED=81000, DCGM_FI_DEV_FB_FREE=100),
        page("d-shrunk"),
        page("e-empty"),
    ]
)


def scraping(installed: Installed, plane: ControlPlane, exporter: Exporter) -> str:
    """The webhook as the Prometheus operator writes it of our PodMonitor: with labels of the pod that is scraped."""

    def job(name: str, address: str, labels: Json | None = None, **more: Any) -> Json:
        return {"job_name": name, "static_configs": [{"targets": [address], "labels": labels or {}}], **more}

    server = {
        "scheme": "https",
        "tls_config": {"ca_file": str(plane.ca)},
        "authorization": {"credentials": plane.token},
    }
    (monitor,) = documents(COMPONENT / "pod-monitor.yaml")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    pod = {"namespace": "gpu-admission", "pod": "replica-0", "container": "gpu-admission"}
    jobs = [
        job("gpu-admission", f"127.0.0.1:{installed.ops_ports[0]}", pod, honor_labels=endpoint["honorLabels"]),
        job("apiserver", plane.server.removeprefix("https://"), **server),
        job("dcgm", f"127.0.0.1:{exporter.server_address[1]}"),
    ]
    return yaml.safe_dump({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs})


@pytest.fixture
async def prometheus(installed: Installed, control_plane: ControlPlane) -> AsyncIterator[Prometheus]:
    """It scrapes the webhook, the API server and an exporter, and the webhook asks it for GPU metrics."""
    with Exporter(PAGE) as exporter:
        with Prometheus("", config=scraping(installed, control_plane, exporter)) as server:
            policy = yaml.safe_load(SHIPPED)
            policy["gpuMetrics"] |= {"source": "prometheus", "url": server.url, "interval": "1s", "staleAfter": "60s"}
            policy["gpuMetrics"] |= {"window": "1s"}
            with installed.policy(yaml.safe_dump(policy)):
                yield server
        await asyncio.to_thread(exporter.shutdown)


def broken(kind: str, hook: str, failure: str, namespace: str) -> Json:
    """A webhook with a name as ours have, where nobody listens."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    only = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    made_hook = {
        "name": f"{hook}.gpu-admission.io",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": only,
        "failurePolicy": failure,
        "timeoutSeconds": 1,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    metadata = {"name": f"monitoring-{hook.replace('.', '-')}"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "webhooks": [made_hook],
    }


async def happen(api: Api, installed: Installed, team: str, number: int) -> None:
    """One of everything: a pod that is bound, one that its node rejects, refusals by a rule, and a stranger."""
    await api.create(pod(f"p{number}"), team)
    await api.bound(team, f"p{number}")
    if number % 2:
        failed = {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}
        await api.patch("Pod", f"p{number}", failed, team, subresource="status")
    bad = pod(f"bad{number}", container={"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]})
    assert "gpu-admission" in await refusal(api.create(bad, team))
    assert "broken.validate" in await refusal(api.create(made("ConfigMap", f"c{number}", data={}), team))
    await asyncio.to_thread(stranger, installed)


def stranger(installed: Installed) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"https://127.0.0.1:{installed.ports[0]}/nothing", context=anybody())


async def test_every_query_is_answered(
    api: Api,
    installed: Installed,
    control_plane: ControlPlane,
    team_of: MakeTeam,
    nodes: MakeNodes,
    prometheus: Prometheus,
) -> None:
    """Each selector of an alert has series with the labels by which it adds up; each panel has an answer."""
    await nodes(NODES)
    team = await team_of()
    hooks = [
        broken("MutatingWebhookConfiguration", "broken.mutate", "Ignore", team),
        broken("ValidatingWebhookConfiguration", "broken.validate", "Fail", team),
    ]
    asked = [*queries()]
    left = {selector.text for query in asked for selector in selectors(query.expr)}
    left |= {without_variables(target["expr"]) for panel in panels() for target in panel["targets"]}
    left |= {f'gpu_admission_{metric}{{namespace="{team}"}}' for metric in ("namespace_gpus", "refusals_total")}
    answers: dict[str, list[Json]] = {}  # on a busy machine a later scrape may fail, and then there is none
    number = 0

    async def answered() -> bool:
        nonlocal number
        number += 1
        await happen(api, installed, team, number)
        for text in [*left]:
            if series := await prometheus.ask(text):
                answers[text] = series
                left.remove(text)
        assert not left, f"no answer to {[*left][:5]}"
        return True

    with control_plane.having(*hooks):
        await wait_until(answered, 300, "answers to all queries", every=1)
        for query in asked:
            for added in sums(query.expr):
                for selector in added.of:
                    labels = set().union(*[entry["metric"] for entry in answers[selector.text]])
                    assert added.by <= labels, (query, selector)
        if os.environ.get("DRAW"):
            for extra in range(number + 1, number + 260):
                await happen(api, installed, team, extra)
                if extra > 25 + extra % 11:
                    await api.delete("Pod", f"p{extra - 20}", team, grace=0)
            await drawn.draw(prometheus)
