"""The interface of units: their base classes, what they may read (`Context`), and what they return.

A unit is an injector, which changes a pod, or a rule, which finds violations. It is a frozen pydantic model: its fields
are its settings in the policy, and its one method is its behaviour. Units are pure: no I/O, no clock, no randomness, no
logging.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from webhook.framework.cluster_view import Cluster, Placement, Unschedulable, Workload
from webhook.kube.asked import AskedPod
from webhook.kube.cel import Check
from webhook.kube.claim_requests import ClaimRequest
from webhook.kube.gpus import Gpus
from webhook.kube.json_patch import Edit
from webhook.kube.pod import (
    Container,
    Pod,
)
from webhook.text import bare

__all__ = ("Check", "Edit", "Gpus", "Pod")
"""What units need of the kinds of Kubernetes, beside the interface itself."""
Action = Literal["deny", "warn", "off"]
LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
LabelKey = Annotated[str, Field(pattern=LABEL_KEY, max_length=317)]
"""The key of a label or taint: a qualified name."""
LabelValue = Annotated[str, Field(pattern=LABEL_VALUE, max_length=63)]


class Settings(BaseModel):
    """Base class of all sections of a policy: immutable, with keys in camelCase; unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )


class Finding(NamedTuple):
    """One violation. Every part is a plain phrase. A tenant's text in it has passed through `text.quoted`."""

    path: str
    """The path of the field within the pod: `spec.containers[0].resources.limits[nvidia.com/gpu]`."""
    seen: str
    wanted: str
    fix: str
    """The next step, as an imperative without a full stop."""
    only_warn: bool = False
    """Report it as a warning even if the action of the rule is `deny`."""
    cause: str = ""
    """Findings of different rules with the same cause are reported once. "" if no other rule finds this violation."""

    @property
    def message(self) -> str:
        return f"{self.path}: saw {self.seen}, wanted {self.wanted}. {self.fix}."

    def brief(self, room: int) -> str:
        """A short message for a warning: the value, the next step and, if that fits into `room` characters, what is wanted.

        The field is left out if `seen` names the container or is not a bare value.
        """
        bare_value = self.seen.startswith(('"', "true")) and " container " not in self.seen
        short = f"{self._field if bare_value else ''}{self.seen}. {self.fix}."
        long = f"{short} Wanted {self.wanted}."
        return long if len(long) <= room else short

    @property
    def _field(self) -> str:
        """The field without `metadata.` or `spec.`, followed by a space: "hostPID ", "annotations[a.b/c] "."""
        head, bracket, rest = self.path.partition("[")
        return f"{head.rpartition('spec.')[2].rpartition('metadata.')[2]}{bracket}{rest} "


class Outcome(NamedTuple):
    """What an injector did. `result` is a constant word, since metrics count it; `detail` is small JSON for the record."""

    result: str
    detail: Any = None
    warning: str | None = None
    placement: Placement | None = None
    """The nodes that were ranked for the pod, if the injector asked for them."""

    @property
    def recorded(self) -> list[Any]:
        """As the decision record has it."""
        return [self.result] if self.detail is None else [self.result, self.detail]


class Template(NamedTuple):
    """What is known of a workload whose template is checked in place of a pod."""

    replicas: int | None
    """The number of pods that it asks for; None if it does not say."""
    kind: str = ""
    """Its kind if it is built into Kubernetes, else ""; `Context.pod.owner` has its name."""


class Places(Protocol):
    """Chooses nodes for one pod as it is now, or as it may be changed."""

    def place(self, pod: AskedPod) -> Placement:
        """Rank nodes for this version of the pod."""

    def choose(self, pod: AskedPod, edit: Edit) -> Placement:
        """Rank nodes for the pod, which `edit` has. The choice of an earlier call stays if it still holds; if not, its terms are
        removed."""

    def unschedulable(self, pod: AskedPod) -> tuple[Unschedulable, ...]:
        """Why no node could take it even if all nodes were up and empty."""

    def labels(self, pod: AskedPod, keys: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
        """The values of these labels on nodes that could take it if they were up and empty: those of each node together, "" for
        a label that it does not have. Empty if no node could, or if that cannot be told."""


class Context(NamedTuple):
    """Everything that a unit may read besides the pod. One per request, or per template of a workload."""

    namespace: str
    gpus: Gpus
    cluster: Cluster
    """The state of the cluster now. No node is chosen by it unless `cluster.fresh`."""
    workload: Workload
    pod: AskedPod
    """The pod as it came, before any injector; for the one that chooses the node, as the others leave it. Of a template, what its
    pods will be."""
    other_gpus: frozenset[str] = frozenset()
    """The vendors of GPUs that the pod gets in other ways: by DRA, from HAMi, Volcano or Aliyun, or as a fraction."""
    claimed: tuple[ClaimRequest, ...] = ()
    """What its claims ask for, as far as that is known; in a review of a claim, what that asks for."""
    left_alone: bool = False
    """The author of the pod switched injection off."""
    written: Pod | None = None
    """The pod as its author wrote it, before any injector. None: the same as the pod, or not known."""
    groups: tuple[str, ...] = ()
    operation: str = "CREATE"
    old: Pod | None = None
    """The pod before an UPDATE."""
    template: Template | None = None
    """The pod is made from the template of this workload (`as_stored`). What the cluster adds to pods may not be known."""
    nodes: Places | None = None
    """Chooses nodes for the pod. None if that is not possible here."""
    spreads: bool = False
    """Whether the strategy of its class spreads the pods of one owner over hosts and zones."""

    def field_of(self, container: Container, resource: str) -> str:
        """The field in which the author wrote the quantity of a resource: `spec.containers[0].resources.limits[a.b/c]`."""
        spec = container.spec
        if self.written is not None:
            spec = (self.written["spec"].get(container.list_name) or [])[container.position]
        limits = (spec.get("resources") or {}).get("limits") or {}
        return f"{container.field}.resources.{'limits' if resource in limits else 'requests'}[{bare(resource)}]"


class ProfileView(NamedTuple):
    """The settings of the profile that a unit belongs to, for units that take over a setting of another section."""

    injectors: Mapping[str, Any]
    """The injectors by their names in the policy."""
    rules: Mapping[str, Any]
    """The rules by their names in the policy."""
    entitled: Mapping[str, tuple[str, ...]]
    """For each PriorityClass that a class of workload gets, in this profile or else in another: the namespaces that are
    entitled to that class of workload (see `entitlement`)."""
    places_every_pod: bool = False
    """Whether nodes are chosen for pods without a GPU too."""


class Unit(Settings):
    """An injector or a rule. The first paragraph of its module, or its own docstring, and those of its fields are the comments in
    `manifests/policy.yaml`."""

    not_exported: ClassVar[str] = ""
    """Why there is no equivalent in CEL; "" if `exported` returns one."""
    differs: ClassVar[str] = ""
    """Where the equivalent in CEL decides otherwise; "" if nowhere."""

    def completed(self, profile: ProfileView) -> Self:
        """The same unit, with the settings that it takes over from other sections of the profile."""
        return self


class Injector(Unit):
    """Changes a pod. A second application changes nothing, and only the injector's own paths are touched."""

    enabled: bool = True
    protects: ClassVar[bool] = False
    """It keeps pods from GPUs that they did not ask for, so it cannot be switched off by the pod's author."""
    handles_claims: ClassVar[bool] = False
    """It also changes pods that name no GPU but claim devices by DRA, or get GPUs in other ways."""
    chooses: ClassVar[bool] = False
    """It chooses the node."""
    sentences: ClassVar[Mapping[str, str]] = {}
    """The sentence for each result (`Outcome.result`), as `gpu-admission why` prints it. `{}` stands for the detail,
    `{node}` for "1 node" or "2 nodes" if the detail is a number."""

    @property
    def every_pod(self) -> bool:
        """Whether it changes pods without any GPU too."""
        return False

    def apply(self, edit: Edit, context: Context) -> Outcome:
        """`inject`, unless the pod's author switched injection off."""
        if context.left_alone and not self.protects:
            return Outcome("leftAlone")
        return self.inject(edit, context)

    @abstractmethod
    def inject(self, edit: Edit, context: Context) -> Outcome:
        """Change `edit.object` through `edit`, and return what was done."""

    def variables(self) -> Iterable[tuple[str, str]]:
        """Names and expressions of the CEL variables that `exported` reads besides `containers`, `gpuContainers` and `class`."""
        return ()

    def exported(self, gpus: Gpus) -> Iterable[str]:
        """The same in CEL, as far as it needs no state of the cluster: expressions that each yield a list of JSONPatch. They are
        idempotent, since the API server evaluates them again after another hook has changed the pod."""
        return ()


class Rule(Unit):
    """Finds violations. `action`: `deny` refuses the pod, `warn` only tells the client, `off` skips the rule."""

    action: Action = "deny"
    early: ClassVar[bool] = False
    """The mutating hook runs the rule too, after the injectors: the API server would refuse the pod before the validating hook
    sees it."""
    of_claims: ClassVar[bool] = False
    """It also checks ResourceClaims and their templates, when these are created: `Context.claimed` of a pod without anything."""
    everywhere: ClassVar[bool] = False
    """It keeps pods from GPUs that they did not ask for, so it may be exported for namespaces that have not opted in."""
    of_whole_pods: ClassVar[bool] = False
    """What it finds may be because something is missing, so it checks no template that its controller completes from another
    object."""

    @abstractmethod
    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        """Every violation in `pod`, in field order."""

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        """The same in CEL, as far as it follows from the pod alone."""
        return ()

    def matched(self, gpus: Gpus) -> Iterable[Check]:
        """In which pods that ask for no device it may find something, in CEL: about these the API server asks. At least what
        `check` finds there. It knows the namespace by its name alone."""
        return self.exported(gpus) if self.everywhere else ()
