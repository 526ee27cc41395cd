"""Several vendors and models in one cluster, and slices of GPUs."""

from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import job, preferred, required
from tests.e2e.behaviour.case import Case, Json, as_chosen, runs
from tests.e2e.behaviour.made import goes_to, goes_to_b, taken

H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"
MODEL = "nvidia.com/gpu.product"
MODELS = [node("a", product=L4), node("b", product=H100)]


def other(name: str, resource: str, count: int, **more: object) -> Json:
    """A node with the GPUs of another vendor."""
    return node(name, 0, resources={resource: str(count)}, **more)  # type: ignore[arg-type]


CHIP, CORE = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
NEURON = [node(name, 0, resources={CHIP: "4", CORE: "8"}) for name in "ab"]
AMD_TAINT = "amd.com/gpu=present:NoSchedule"
MIXED = [
    node("a", 8, taints=[GPU_TAINT]),
    other("b", "amd.com/gpu", 8, taints=[AMD_TAINT]),
    other("c", "gpu.intel.com/i915", 4),
]
CASES = [
    goes_to("b", "a pod of AMD's goes to AMD's node", MIXED, resource="amd.com/gpu", also=[as_chosen()]),
    goes_to(
        "b",
        "a node whose taint has the name of its GPUs",
        [MIXED[0], other("b", "qualcomm.com/qaic", 8, taints=["qualcomm.com/qaic=true:NoSchedule"])],
        resource="qualcomm.com/qaic",
        also=[as_chosen()],
    ),
    goes_to(
        "b",
        "a core of Neuron goes where chips are free, though the scheduler sees cores on taken ones",
        NEURON,
        resource=CORE,
        there=[taken("a", 4, resource=CHIP), taken("b", 2, resource=CHIP)],
        also=[as_chosen()],
    ),
    goes_to(
        "b",
        "chips of Neuron are taken where no pod has their cores, though the scheduler sees them free",
        NEURON,
        4,
        resource=CHIP,
        there=[taken("a", 1, resource=CORE)],
        also=[as_chosen()],
    ),
    goes_to_b("a model by selector", MODELS, nodeSelector={MODEL: H100}, also=[as_chosen()]),
    goes_to_b(
        "memory above so much", MODELS, affinity=required("nvidia.com/gpu.memory", "Gt", "40000"), also=[as_chosen()]
    ),
    goes_to_b("a model that the pod prefers comes first", MODELS, affinity=preferred(MODEL, "In", H100, weight=1)),
    goes_to(
        "b",
        "a slice goes to a node with slices",
        [node("a"), node("b", mig={"1g.10gb": 14, "3g.40gb": 4})],
        resource="nvidia.com/mig-1g.10gb",
        also=[as_chosen()],
    ),
    Case(
        "slices of two sizes are filled",
        [node("a", mig={"1g.10gb": 2, "3g.40gb": 2}), node("b", mig={"1g.10gb": 2, "3g.40gb": 2})],
        [job("small", 4, resource="nvidia.com/mig-1g.10gb"), job("large", 4, resource="nvidia.com/mig-3g.40gb")],
        [runs(count=8)],
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
