"""Several vendors and models in one cluster, and slices of GPUs."""

from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import deployment, job, pod, preferred, required
from tests.e2e.behaviour.case import Case, Json, Side, as_chosen, counts, recorded, runs, waits
from tests.e2e.behaviour.made import goes_to, goes_to_b, taken

H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"
MODEL = "nvidia.com/gpu.product"
MODELS = [node("a", product=L4), node("b", product=H100)]


def other(name: str, resource: str, count: int, **more: object) -> Json:
    """A node with the GPUs of another vendor."""
    return node(name, 0, resources={resource: str(count)}, **more)  # type: ignore[arg-type]


def tolerates(name: str, key: str, wanted: bool = True) -> object:
    def check(side: Side) -> str:
        keys = [{each.get("key") for each in found["spec"].get("tolerations", ())} for found in side.of([name])]
        return "" if keys and all((key in each) is wanted for each in keys) else f"tolerates {keys}"

    return check


AMD_TAINT = "amd.com/gpu=present:NoSchedule"
MIXED = [
    node("a", 8, taints=[GPU_TAINT]),
    other("b", "amd.com/gpu", 8, taints=[AMD_TAINT]),
    other("c", "gpu.intel.com/i915", 4),
]
CASES = [
    goes_to("b", "a pod of AMD's goes to AMD's node", MIXED, resource="amd.com/gpu", also=[as_chosen()]),
    goes_to("a", "a pod of NVIDIA's goes to NVIDIA's node", MIXED, also=[as_chosen()]),
    goes_to("c", "a pod of Intel's goes to Intel's node", MIXED, resource="gpu.intel.com/i915", also=[as_chosen()]),
    Case(
        "a pod of AMD's does not tolerate NVIDIA's taint",
        MIXED,
        [pod("one", resource="amd.com/gpu")],
        [tolerates("one", "amd.com/gpu"), tolerates("one", "nvidia.com/gpu", False)],
    ),
    Case(
        "replicas of AMD's are apart",
        [other("a", "amd.com/gpu", 8), other("b", "amd.com/gpu", 8), node("c")],
        [deployment("chat", 4, resource="amd.com/gpu")],
        [counts(a=2, b=2)],
    ),
    Case(
        "accelerators of Habana are filled",
        [other("a", "habana.ai/gaudi", 8), other("b", "habana.ai/gaudi", 8)],
        [job("train", 8, resource="habana.ai/gaudi")],
        [runs(count=8), as_chosen()],
    ),
    goes_to_b("a model by selector", MODELS, nodeSelector={MODEL: H100}, also=[as_chosen()]),
    goes_to_b("all models but one", MODELS, affinity=required(MODEL, "NotIn", L4), also=[as_chosen()]),
    goes_to_b("a model by affinity", MODELS, affinity=required(MODEL, "In", H100), also=[as_chosen()]),
    goes_to_b(
        "memory above so much", MODELS, affinity=required("nvidia.com/gpu.memory", "Gt", "40000"), also=[as_chosen()]
    ),
    goes_to_b("a model that the pod prefers comes first", MODELS, affinity=preferred(MODEL, "In", H100, weight=1)),
    goes_to(
        "a",
        "a model that the pod prefers and that is full is no reason to wait",
        MODELS,
        affinity=preferred(MODEL, "In", H100, weight=100),
        there=[taken("b", 8)],
    ),
    goes_to_b("a model by our annotation", MODELS, annotations={"gpu-admission.io/gpu-model": "h100"}),
    goes_to_b(
        "a node by our annotation", [node("a"), node("b")], annotations={"gpu-admission.io/preferred-nodes": "@b"}
    ),
    Case(
        "a model that is full makes the pod wait, as without us",
        MODELS,
        [pod("one", nodeSelector={MODEL: H100})],
        [waits("one"), recorded("one", why="no node fits")],
        there=[taken("b", 8)],
        without=[waits("one")],
    ),
    goes_to(
        "b",
        "a slice goes to a node with slices",
        [node("a"), node("b", mig={"1g.10gb": 14, "3g.40gb": 4})],
        resource="nvidia.com/mig-1g.10gb",
        also=[as_chosen()],
    ),
    goes_to(
        "b",
        "a whole GPU does not go to a node with slices",
        [node("a", mig={"1g.10gb": 56}), node("b")],
        also=[as_chosen()],
    ),
    Case(
        "slices of two sizes are filled",
        [node("a", mig={"1g.10gb": 2, "3g.40gb": 2}), node("b", mig={"1g.10gb": 2, "3g.40gb": 2})],
        [job("small", 4, resource="nvidia.com/mig-1g.10gb"), job("large", 4, resource="nvidia.com/mig-3g.40gb")],
        [runs(count=8)],
    ),
    goes_to(
        "b",
        "two containers with a GPU each",
        [node("a", 2), node("b", 2)],
        containers=[{"name": name, "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}} for name in "xy"],
        there=[taken("a", 1)],
        also=[as_chosen()],
    ),
    goes_to(
        "a",
        "an init container uses the GPUs of the containers after it",
        [node("a", 2)],
        2,
        initContainers=[{"name": "i", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
        also=[as_chosen()],
    ),
    goes_to(
        "b",
        "a sidecar adds its GPU",
        [node("a", 2), node("b", 4)],
        2,
        initContainers=[
            {"name": "i", "image": "i", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        ],
        also=[as_chosen()],
    ),
]
