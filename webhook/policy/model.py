"""The models of the policy: every unit with its settings, in run order.

A new injector or rule is one line here: a field of `Injectors` or `Rules`. The order of the fields is the run order.
`manifests/policy.yaml` is generated from these models and their docstrings.
"""

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import model_validator

from webhook.framework.cluster_view import Workload
from webhook.framework.interface import Context, Finding, Injector, ProfileView, Rule, Settings
from webhook.injectors.cpu_per_gpu import CpuPerGpuRequests
from webhook.injectors.gpu_resources import GpuResources
from webhook.injectors.node_affinity import NodeAffinity
from webhook.injectors.priority_class import PriorityClassName
from webhook.injectors.tolerations import Tolerations
from webhook.injectors.topology_spread import TopologySpread
from webhook.injectors.void_devices import VoidDevices
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import GpuName, Gpus
from webhook.kube.pod import Owner, Pod
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.placement.settings import PlacementSettings
from webhook.placement.strategies import spreads
from webhook.policy.exemptions import OPERATORS, Exemption
from webhook.policy.loader import read
from webhook.policy.templates import Templates
from webhook.policy.vocabulary import problems
from webhook.policy.workload_classes import CLASSES, GPUS, ClassRule, GpuResource, classify, entitled
from webhook.rules.capabilities import Capabilities
from webhook.rules.claim_tolerations import ClaimTolerations
from webhook.rules.cpu_per_gpu import CpuPerGpu
from webhook.rules.cpu_pod_on_gpu_node import CpuPodOnGpuNode
from webhook.rules.cuda_driver import CudaDriver
from webhook.rules.cuda_visible_devices import CudaVisibleDevices
from webhook.rules.device_annotations import DeviceAnnotations
from webhook.rules.device_env import DeviceEnv
from webhook.rules.device_env_from import DeviceEnvFrom
from webhook.rules.device_mounts import DeviceMounts
from webhook.rules.gpu_fits import GpuFits
from webhook.rules.gpu_fraction import GpuFraction
from webhook.rules.gpu_limit import GpuLimit
from webhook.rules.gpu_mixing import GpuMixing
from webhook.rules.gpu_names import GpuNames
from webhook.rules.gpu_parallelism import GpuParallelism
from webhook.rules.gpu_quantity import GpuQuantity
from webhook.rules.gpu_sharing import GpuSharing
from webhook.rules.gpu_zero import GpuZero
from webhook.rules.host_devices import HostDevices
from webhook.rules.host_namespaces import HostNamespaces
from webhook.rules.node_name import NodeName
from webhook.rules.node_wide_resources import NodeWideResources
from webhook.rules.priority_class import PriorityClassAllowed
from webhook.rules.privileged import Privileged
from webhook.rules.restart_policy import RestartPolicy
from webhook.rules.runtime_class import RuntimeClass
from webhook.rules.shared_memory import SharedMemory
from webhook.rules.spread_missing import SpreadMissing
from webhook.rules.volume_access import VolumeAccess

Model = TypeVar("Model", bound=Settings)
DEFAULT_PROFILE = "default"


class Injectors(Settings):
    """The injectors in run order: first those whose changes placement reads (resources, tolerations), last the chosen node."""

    gpu_resources: GpuResources = GpuResources()
    tolerations: Tolerations = Tolerations()
    priority_class: PriorityClassName = PriorityClassName()
    void_devices: VoidDevices = VoidDevices()
    cpu_per_gpu: CpuPerGpuRequests = CpuPerGpuRequests()
    topology_spread: TopologySpread = TopologySpread()
    node_affinity: NodeAffinity = NodeAffinity()

    @model_validator(mode="after")
    def _pin_and_spread(self) -> Self:
        node, spread = self.node_affinity, self.topology_spread
        hard = [c.key for c in spread.constraints if c.when_unsatisfiable == "DoNotSchedule"]
        spreads = spread.enabled and spread.mode == "constraints"
        if node.enabled and node.mode == "required" and spreads and hard:
            raise ValueError(
                f"nodeAffinity.mode required makes a DoNotSchedule spread over {', '.join(hard)} void: the pinned node "
                "is the only domain. Use preferred, or ScheduleAnyway"
            )
        return self


class Rules(Settings):
    """The rules in run order, which is the order of findings."""

    gpu_quantity: GpuQuantity = GpuQuantity()
    """--- Pods that cannot run"""
    gpu_zero: GpuZero = GpuZero()
    gpu_mixing: GpuMixing = GpuMixing()
    gpu_names: GpuNames = GpuNames()
    gpu_sharing: GpuSharing = GpuSharing()
    gpu_fraction: GpuFraction = GpuFraction()
    gpu_fits: GpuFits = GpuFits()
    cuda_driver: CudaDriver = CudaDriver()
    gpu_limit: GpuLimit = GpuLimit()
    priority_class: PriorityClassAllowed = PriorityClassAllowed()
    device_env: DeviceEnv = DeviceEnv()
    """--- Pods that take more than they ask for"""
    device_env_from: DeviceEnvFrom = DeviceEnvFrom()
    device_mounts: DeviceMounts = DeviceMounts()
    node_wide_resources: NodeWideResources = NodeWideResources()
    device_annotations: DeviceAnnotations = DeviceAnnotations()
    host_devices: HostDevices = HostDevices()
    host_namespaces: HostNamespaces = HostNamespaces()
    privileged: Privileged = Privileged()
    capabilities: Capabilities = Capabilities()
    runtime_class: RuntimeClass = RuntimeClass()
    node_name: NodeName = NodeName()
    cpu_per_gpu: CpuPerGpu = CpuPerGpu()
    """--- Pods that run badly"""
    gpu_parallelism: GpuParallelism = GpuParallelism()
    shared_memory: SharedMemory = SharedMemory()
    cpu_pod_on_gpu_node: CpuPodOnGpuNode = CpuPodOnGpuNode()
    cuda_visible_devices: CudaVisibleDevices = CudaVisibleDevices()
    claim_tolerations: ClaimTolerations = ClaimTolerations()
    restart_policy: RestartPolicy = RestartPolicy()
    spread_missing: SpreadMissing = SpreadMissing()
    volume_access: VolumeAccess = VolumeAccess()


class Profile(Settings):
    """One complete set of units with their settings. A namespace's label names its profile."""

    dry_run: bool = False
    """true: decide, but change and refuse nothing. Use it to try a policy on real pods. Events on the pod or its controller say
    what would have been done (PodWouldBeRefused, PodWouldBeChanged), if the component manifests/components/events is applied;
    so do `gpu-admission why POD`, the log of the server, and the audit log of the API server."""
    injectors: Injectors = Injectors()
    """What is added to a pod, in run order. `enabled: false` turns an injector off."""
    placement: PlacementSettings = PlacementSettings()
    """How nodes are chosen."""
    rules: Rules = Rules()
    """What is refused. Every rule has an action: deny (the pod is refused) | warn (its author gets a warning) | off.

    Findings are reported in this order."""
    exempt: tuple[Exemption, ...] = (Exemption(namespaces=OPERATORS),)
    """Pods that the rules do not check: operators, exporters, debuggers of the platform team. An entry applies if every list in
    it has a match (name patterns).

    For example:
      [{namespaces: [monitoring], serviceAccounts: [dcgm-exporter]},
       {namespaces: ["*"], users: ["system:serviceaccount:gpu-operator:*"]}]

    The default exempts the vendors' operators, since device plugins and drivers need what tenants must not have. A name counts
    whether or not the namespace exists, so let no tenant create a namespace of such a name."""
    templates: Templates = Templates()
    """Deployments, Jobs and other objects from which pods are created."""


class PolicyFile(Settings):
    """The complete policy of GPU admission: every key with its default. A key that you leave out has the value that it has here.

    A list that you write replaces the one here; to add to it, end yours with `...`. A map whose keys are names, for example
    `reserved` or `strategies`, replaces the one here if it is in `default`; in another profile it adds to that of `default`.

    It is the key policy.yaml of the ConfigMap gpu-admission-policy; a change takes effect within seconds, without a restart.

    A policy with a mistake has no effect: the last good one stays, and the ConfigMap's Events say what is wrong and where.

    Check a policy before you apply it: `gpu-admission policy lint policy.yaml`.

    A name pattern is an exact name, or ends in `*` for "begins with".
    """

    gpus: tuple[GpuResource, ...] = GPUS
    """--- Resources that are GPUs"""
    classes: tuple[ClassRule, ...] = CLASSES
    """--- Classes of workload

    The first entry that matches gives the class of a pod; profiles say what a class means. You may add classes of your own."""
    gpu_metrics: GpuMetricsSettings = GpuMetricsSettings()
    """--- GPU metrics

    Nodes with idle GPUs are ranked first. Without metrics nodes are ranked by allocation alone, and every record says so."""
    profiles: dict[str, Profile] = {DEFAULT_PROFILE: Profile()}
    """--- Profiles

    A namespace opts in by the label gpu-admission.io/profile. Its value is the name of a profile; if there is no profile of that
    name, `default` is used. `default` is complete; another profile states only its differences."""


Checks = Sequence[tuple[str, Rule, Callable[[AskedPod, Context], Iterable[Finding]]]]
"""Rules by name, with the method `check` of each: to read it of a model at each review takes as long as some checks."""


class Units(NamedTuple):
    """A profile, and its units that are not off, by name, in run order."""

    profile: Profile
    injectors: tuple[tuple[str, Injector], ...]
    rules: tuple[tuple[str, Rule], ...]
    checks: Checks
    early: Checks
    """Those of rules that the mutating hook runs too."""
    of_claims: Checks
    """Those of rules that check ResourceClaims and their templates too."""
    of_parts: Checks
    """Those of rules whose findings hold whatever a controller adds to a pod."""

    @classmethod
    def of(cls, profile: Profile) -> Self:
        injectors = [pair for pair in named(profile.injectors) if pair[1].enabled]
        rules = [pair for pair in named(profile.rules) if pair[1].action != "off"]
        checks = [(name, rule, rule.check) for name, rule in rules]
        early, of_claims = [each for each in checks if each[1].early], [each for each in checks if each[1].of_claims]
        of_parts = [each for each in checks if not each[1].of_whole_pods]
        return cls(
            profile, tuple(injectors), tuple(rules), tuple(checks), tuple(early), tuple(of_claims), tuple(of_parts)
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """A parsed policy. It is immutable, and replaced as a whole. Every decision record contains its `hash`."""

    hash: str
    gpus: Gpus
    file: PolicyFile
    units: dict[str, Units] = field(repr=False)
    """By the name of the profile."""

    @classmethod
    def load(cls, text: str | bytes) -> Self:
        """Read a policy from YAML. Raises PolicyError with all problems."""
        return cls.of(read(text, PolicyFile, lambda file: problems(file.model_dump(mode="json", by_alias=True))))

    @classmethod
    def of(cls, file: PolicyFile) -> Self:
        # The order of keys counts: in some maps the first entry that matches decides.
        digest = hashlib.sha256(file.model_dump_json().encode()).hexdigest()
        entitlements = entitled(file.classes, {n: p.injectors.priority_class.classes for n, p in file.profiles.items()})
        return cls(
            hash=digest[:12],
            gpus=Gpus(GpuName(g.name, g.kind) for g in file.gpus),
            file=file,
            units={name: Units.of(completed(p, entitlements[name])) for name, p in file.profiles.items()},
        )

    def for_parts(self) -> Self:
        """The same policy for pods that their controllers complete."""
        return replace(self, units={name: each._replace(checks=each.of_parts) for name, each in self.units.items()})

    def profile(self, name: str) -> tuple[str, Profile]:
        """The profile of that name, or else the default one; and its name."""
        if name not in self.file.profiles:
            name = DEFAULT_PROFILE
        return name, self.units[name].profile

    def spreads(self, profile: str, workload: str) -> bool:
        """Whether a profile spreads the replicas of this class of workload, since they serve. "" is no class."""
        return bool(workload) and spreads(self.profile(profile)[1].placement.strategy(workload))

    def injectors_for(self, profile: str, pod: AskedPod) -> tuple[tuple[str, Injector], ...]:
        """The enabled injectors that run on this pod."""
        units, claims = self.units[profile].injectors, pod.claims_devices or bool(pod.other_gpus)
        if pod.gpu_names:
            return units
        zero = pod.names_zero_gpus
        every = [u for _, u in units if u.every_pod or (claims and u.handles_claims) or (zero and u.protects)]
        return tuple([each for each in units if each[1] in every])

    def classify(self, pod: Pod, owner: Owner | None, namespace: str, labels: Container[str] = ()) -> Workload:
        """The class of workload of a pod in a namespace with these labels: see `workload_classes.classify`."""
        return classify(self.file.classes, pod, owner, namespace, labels)


def named(section: Settings) -> Iterator[tuple[str, Any]]:
    """The fields of a section with their names in the policy, in run order."""
    for name, info in type(section).model_fields.items():
        yield info.alias or name, getattr(section, name)


def completed(profile: Profile, entitled: Mapping[str, tuple[str, ...]]) -> Profile:
    """The profile with the settings that units take over from other units or from the classes of workload (`entitled`)."""
    sections = {name: getattr(profile, name) for name in ("injectors", "rules")}
    view = ProfileView(
        dict(named(sections["injectors"])), dict(named(sections["rules"])), entitled, profile.placement.every_pod
    )
    for name, section in sections.items():
        units = {unit: getattr(section, unit).completed(view) for unit in type(section).model_fields}
        sections[name] = section.model_copy(update=units)
    return profile.model_copy(update=sections)
