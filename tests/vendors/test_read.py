"""Every fact of the catalogue is read: something acts on it, by the defaults of the settings or by what is asked of a node."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.builders import case, container
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from webhook.cli.cluster.anonymous import _PUBLIC_LABELS
from webhook.devices.sources import SOURCES
from webhook.feeds.gpu_source import _GPU, _INSTANCE
from webhook.framework.device_variables import DEVICES, PROGRAMS
from webhook.framework.interface import Rule
from webhook.injectors.node_affinity import UNNAMED
from webhook.kube.gates import gate_of
from webhook.kube.gpus import MODEL_LABELS, labelled_count, one_on
from webhook.kube.kinds import GROUPS, KINDS
from webhook.kube.other_gpus import CLASS_VENDORS, FRACTIONS, KAI, PART_CONFIGMAP, other_gpus
from webhook.kube.schedulers import ORDERED_BY_OTHERS
from webhook.kube.taints import Taint, kind_of
from webhook.nodes.gpu_metrics import GpuMetricsSettings, Queries
from webhook.placement.settings import Gangs, Health
from webhook.policy.exemptions import OPERATORS
from webhook.policy.model import Policy
from webhook.policy.vocabulary import _LABELS
from webhook.rules.device_annotations import DeviceAnnotations
from webhook.rules.device_env import DeviceEnv
from webhook.rules.device_mounts import DeviceMounts
from webhook.rules.gpu_names import GpuNames
from webhook.rules.host_devices import HostDevices
from webhook.rules.runtime_class import RuntimeClass
from webhook.rules.shared_memory import _LIBRARIES
from webhook.vendors import VENDORS, model
from webhook.vendors.catalogue import conditions
from webhook.vendors.model import Fact
from webhook.whatif.cluster.report import has_gpus, pool_of

POLICY: Final = Policy.load("{}")


def one(pattern: str) -> str:
    """Something that a pattern matches."""
    return pattern.replace("*", "4")


def finds(rule: Rule, made: Any) -> bool:
    return bool(list(case(made).findings(rule)))


def resource(of: model.Resource) -> bool:
    name = one(of.name)
    asking = pod("p", 0, limits={name: "1"})
    if of.one in ("whole", "slice", "share"):
        return POLICY.gpus.kind(name) == of.one
    return bool(other_gpus(asking)) if of.one == "part" else not finds(GpuNames(), asking)


def label(of: model.Label) -> bool:
    key = one(of.key)
    labelled = node("n", 0, labels={key: "4"})
    read: dict[str, bool] = {
        "model": key in MODEL_LABELS,
        "count": labelled_count({key: "4"}) == 4,
        "present": has_gpus(labelled, POLICY.gpus),
        "pool": pool_of(node("n", 0, labels={key: "4", "kubernetes.io/hostname": "n"})) != "",
        "domain": key in Gangs().keys,
    }
    return read.get(of.says, key.startswith(_PUBLIC_LABELS) or of.key in _LABELS)


def divided(of: model.Divided) -> bool:
    return one_on(of.resource, "whole", {of.key: one(of.value)}).kind == of.one


def profile(of: model.Profile) -> bool:
    ways = [each for vendor in VENDORS for of_source in vendor.facts.values() for each in of_source]
    slices = [way for way in ways if isinstance(way, model.Divided) and way.one == "slice"]
    size = of.size.replace("*", "")
    found = [one_on(way.resource, "whole", {way.key: way.value.replace("*", "") + size + "8gb"}) for way in slices]
    return any(each.slices == of.per_gpu for each in found)


def taint(of: model.Taint) -> bool:
    return kind_of(Taint(one(of.key), of.value or "", "NoSchedule")) == of.says


def variable(of: model.Variable) -> bool:
    if of.gives in ("own", "nothing"):
        return of.name in PROGRAMS
    named = finds(DeviceEnv(), pod("p", 0, env={one(of.name): "all"}))
    return named and (of.gives != "devices" or of.name in DEVICES)


def condition(of: model.Condition) -> bool:
    known = conditions(of_parts=True) if of.of_parts else Health().conditions
    return known[of.type] == of.sick


def mounted(of: model.DeviceMount) -> bool:
    mount = {"name": "v", "mountPath": f"/var/run/{of.name}/all"}
    return finds(DeviceMounts(), pod("p", containers=[container("main", volumeMounts=[mount])]))


def host_path(of: model.HostPath) -> bool:
    volume = {"name": "v", "hostPath": {"path": of.path}}
    return finds(HostDevices(), pod("p", volumes=[volume])) is (of.gives == "node" or bool(of.label))


READ: Final[dict[type[Any], Callable[[Any], bool]]] = {
    model.Resource: resource,
    model.DeviceClass: lambda of: CLASS_VENDORS[of.name] == of.vendor,
    model.Label: label,
    model.Divided: divided,
    model.Profile: profile,
    model.Unhealthy: lambda of: Health().labels[of.key] == of.values,
    model.Condition: condition,
    model.Taint: taint,
    model.Variable: variable,
    model.Annotation: lambda of: finds(DeviceAnnotations(), pod("p", 0, annotations={one(of.key): "0"})),
    model.Part: lambda of: of.key in FRACTIONS,
    model.SharedCards: lambda of: of.name in [source.name for source in SOURCES],
    model.SharedMemory: lambda of: of.name in [source.name for source in SOURCES],
    model.SharedGroups: lambda of: of.name in [source.name for source in SOURCES],
    model.SharedBy: lambda of: of.config_map == PART_CONFIGMAP,
    model.HostPath: host_path,
    model.DeviceMount: mounted,
    model.RuntimeClass: lambda of: finds(RuntimeClass(), pod("p", 0, runtimeClassName=one(of.name))),
    model.Namespace: lambda of: of.name in OPERATORS,
    model.Scheduler: lambda of: of.name in KAI,
    model.Gate: lambda of: getattr(gate_of(one(of.name)), "owner", "") == of.owner,
    model.Metric: lambda of: of.name in Queries().model_dump().values(),
    model.Collectives: lambda of: _LIBRARIES[of.vendor] == of.name,
    model.SeriesLabel: lambda of: of.name in (*_GPU, _INSTANCE, *GpuMetricsSettings().node_labels),
    model.MeasuringPods: lambda of: GpuMetricsSettings(source=of.source).asked.selector == {"app": of.app},
    model.GangKind: lambda of: KINDS[of.kind].path().endswith(f"{of.api}/{of.plural}") and of.kind in GROUPS,
    model.OwnQueues: lambda of: of.name in ORDERED_BY_OTHERS,
    model.UnnamedNode: lambda of: of.name in UNNAMED,
}
FACTS = [(vendor, fact) for vendor in VENDORS for facts in vendor.facts.values() for fact in facts]


@pytest.mark.parametrize("fact", [pytest.param(fact, id=f"{vendor.name}-{fact}"[:90]) for vendor, fact in FACTS])
def test_something_acts_on_each_fact(fact: Fact) -> None:
    if type(fact) in READ:
        assert READ[type(fact)](fact)


def test_no_kind_of_fact_is_left_out() -> None:
    # tests/kube/test_other_gpus.py, tests/rules/test_cuda_driver.py, tests/rules/test_gpu_fraction.py
    other = {model.ContainerPart, model.PartLimit, model.CudaImage, model.DriverVariable, model.ForDesktops}
    assert {type(fact) for _, fact in FACTS} - other == set(READ)
