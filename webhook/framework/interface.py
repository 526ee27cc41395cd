"""What a unit gets and gives back.

A unit is an injector (changes a pod) or a rule (finds violations). It is a frozen pydantic model: its fields are its
settings in the policy, its one method is its behaviour, so the two cannot drift apart. Units are pure: no I/O, no
clock, no randomness, no logging.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from webhook.framework.cluster_view import Cluster, Obstacle, Placement, Workload
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.kube.json_patch import Edit
from webhook.kube.pod import Container, Owner, Pod, asks_for_gpu, claims_devices, containers
from webhook.text import Hint, bare

Action = Literal["deny", "warn", "off"]
LabelKey = Annotated[
    str,
    Field(
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        max_length=317,
    ),
]
"""Key of a label or taint: what Kubernetes calls a qualified name."""
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]


class Settings(BaseModel):
    """Base of everything that is written in a policy: immutable, camelCase, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )


class Finding(NamedTuple):
    """One violation. Every part is a plain phrase; tenant text in it went through `text.quoted`."""

    path: str
    """Field path as kubectl explains it: `spec.containers[0].resources.limits[nvidia.com/gpu]`. Of a template it is the path
    in the template."""
    seen: str
    wanted: str
    fix: str | Hint
    """What to do next, as an imperative without a full stop."""
    only_warn: bool = False
    """Reported as a warning even where the rule denies: what it found is bad for the user, and no more than that."""
    cause: str = ""
    """Of what several rules may find, in the same words: one of them reports it. "" where no other rule finds it."""

    @property
    def message(self) -> str:
        return f"{self.path}: saw {self.seen}, wanted {self.wanted}. {self.fix}."

    def brief(self, room: int) -> str:
        """For a warning, which the API server wants short: the value, the next step, and what is wanted if it has room, in whole
        sentences. Where `seen` names the container the path can go."""
        bare_value = self.seen.startswith(('"', "true")) and " container " not in self.seen
        said = f"{self._field if bare_value else ''}{self.seen}. {self.fix}."
        whole = f"{said} Wanted {self.wanted}."
        return whole if len(whole) <= room else said

    @property
    def _field(self) -> str:
        """The field within the pod's metadata or spec: "hostPID ", "annotations[a.b/c] "."""
        head, bracket, rest = self.path.partition("[")
        return f"{head.rpartition('spec.')[2].rpartition('metadata.')[2]}{bracket}{rest} "


class Outcome(NamedTuple):
    """What an injector did. `result` is a constant word (countable); `detail` small JSON for the decision record."""

    result: str
    detail: Any = None
    warning: str | None = None


@dataclass(slots=True)
class Context:
    """Everything a unit may know besides the pod. One per request."""

    namespace: str
    gpus: Gpus
    cluster: Cluster
    """The cluster at this moment; `cluster.fresh` is False where it must not be relied on."""
    workload: Workload
    owner: Owner | None
    gpu_names: frozenset[str] = frozenset()
    """The GPU resources that the pod names."""
    other_gpus: frozenset[str] = frozenset()
    """The vendors of GPUs that it gets by other ways: by DRA, from HAMi, Volcano or Aliyun, by fraction."""
    written: Pod | None = None
    """The pod as its author wrote it, before any injector; None where it is the pod itself, or not known."""
    groups: tuple[str, ...] = ()
    operation: str = "CREATE"
    old: Pod | None = None
    """The pod before an UPDATE."""
    obstacles: Callable[[Pod], tuple[Obstacle, ...]] | None = None
    """Why no node could take a pod even if all nodes were up and empty. None where nobody can tell."""
    replicas: int | None = None
    """How many pods the workload asks for; only of a template, and only where it says so."""
    template: bool = False
    """The pod is the template of a workload: it has no namespace defaults and no admission defaults yet."""
    template_of: str = ""
    """The kind of that workload, where it is of the group apps; `owner` has its name."""
    strategy: str = "off"
    """How the node is chosen, by its name in the policy."""
    keeps_apart: bool = False
    """Whether that keeps the pods of one owner apart."""
    place: Callable[[Pod], Placement] | None = None
    """What placement would find for a pod in place of this one, now. None where nobody can tell."""
    placement: Placement | None = None
    """The ranked nodes. Set before the injectors that need it run: topology spread and node affinity must agree."""
    _walked: tuple[Pod, tuple[Container, ...]] | None = field(default=None, init=False, repr=False)
    _variable_names: tuple[Pod, frozenset[str]] | None = field(default=None, init=False, repr=False)

    def containers(self, pod: Pod) -> tuple[Container, ...]:
        """As `pod.containers`, walked once for all rules. Not for injectors, which change what was walked."""
        if self._walked is None or self._walked[0] is not pod:
            self._walked = pod, tuple(containers(pod))
        return self._walked[1]

    def variables(self, pod: Pod) -> frozenset[str]:
        """The names of all environment variables of all containers: most rules look no further."""
        if self._variable_names is None or self._variable_names[0] is not pod:
            every = [entry.get("name") or "" for c in self.containers(pod) for entry in c.spec.get("env") or ()]
            self._variable_names = pod, frozenset(every)
        return self._variable_names[1]

    def asks_for_gpu(self, pod: Pod) -> bool:
        """Whether a container asks for at least one GPU: what is for GPU pods only is then for this pod."""
        asks = any([c.gpu_counts(self.gpus) for c in self.containers(pod)])
        return asks or any([asks_for_gpu(c.spec, self.gpus) for c in self.containers(pod)])

    def has_gpu(self, pod: Pod) -> bool:
        """Whether it asks for a GPU, in whatever quantity, or claims devices by DRA, which may be GPUs. For advice: nothing is
        allowed by it."""
        return bool(self.gpu_names or self.other_gpus) or claims_devices(pod) or self.asks_for_gpu(pod)

    def node_is_fixed(self, pod: Pod) -> bool:
        """Whether no scheduler has a choice of nodes for it: its node is named, or it is one pod for each node."""
        return bool(pod["spec"].get("nodeName")) or (
            self.owner is not None and self.owner.kind in ("DaemonSet", "Node")
        )

    def field_of(self, container: Container, resource: str) -> str:
        """Where the author wrote how much of a resource the container gets: `spec.containers[0].resources.limits[a.b/c]`."""
        spec = container.spec
        if self.written is not None:
            spec = (self.written["spec"].get(container.kind) or [])[container.position]
        limits = (spec.get("resources") or {}).get("limits") or {}
        return f"{container.field}.resources.{'limits' if resource in limits else 'requests'}[{bare(resource)}]"


class ProfileView(NamedTuple):
    """The profile that a unit stands in, as it is written: for a setting that is written elsewhere in it."""

    injectors: Mapping[str, Any]
    """By their names in the policy; so are the rules."""
    rules: Mapping[str, Any]
    entitled: Mapping[str, tuple[str, ...]]
    """PriorityClass to the namespaces that are entitled to a class of workload which gets it (name patterns): in this profile,
    else in others."""


class Unit(Settings):
    """An injector or a rule: its docstring and those of its fields are the comments of `manifests/policy.yaml`."""

    not_exported: ClassVar[str] = ""
    """Why the API server cannot do the same by itself; empty where `exported` says it in CEL."""

    def completed(self, profile: ProfileView) -> Self:
        """The same unit, with the settings that it takes from elsewhere in the profile."""
        return self


class Injector(Unit):
    """Changes a pod. Applied twice it equals applied once; it touches only its own paths."""

    enabled: bool = True
    needs_placement: ClassVar[bool] = False
    """It runs once the node is chosen, for the pod as it is then, and after all that do not. It never refuses, and changes
    nothing that the pod asks for: the node was chosen for that."""
    claims: ClassVar[bool] = False
    """It also changes pods that name no GPU, but claim devices by DRA or get GPUs by other ways."""
    sentences: ClassVar[Mapping[str, str]] = {}
    """What people read for each result (`Outcome.result`), in `gpu-admission explain` for example. `{}` stands for the detail."""

    @property
    def every_pod(self) -> bool:
        """Whether it also changes pods that name no GPU."""
        return False

    @abstractmethod
    def inject(self, edit: Edit, context: Context) -> Outcome:
        """Change `edit.object` through `edit`, and say what was done."""

    def variables(self) -> Iterable[tuple[str, str]]:
        """Name and expression of what `exported` reads, besides `containers`, `gpuContainers` and `class`."""
        return ()

    def exported(self, gpus: Gpus) -> Iterable[str]:
        """The same in CEL, as far as it can be done without the cluster: each is a list of JSONPatch, and idempotent, since it
        is asked again when another hook changed the pod."""
        return ()


class Rule(Unit):
    """Finds violations. `action`: `deny` refuses the pod, `warn` tells the caller, `off` does not look."""

    action: Action = "deny"
    early: ClassVar[bool] = False
    """Asked in the mutating hook too, after the injectors: the API server would refuse the pod before it validates."""
    everywhere: ClassVar[bool] = False
    """It keeps a pod from GPUs that it did not ask for: it may be exported for namespaces that have not opted in."""

    @abstractmethod
    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        """Every violation in `pod`, in field order."""

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        """The same in CEL, as far as the pod alone decides."""
        return ()
