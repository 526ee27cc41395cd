"""ResourceClaims whose expressions were made to cost much."""

from typing import Final

from bench.bodies.parts import Json, add, review
from bench.hostile_cel import EXPRESSIONS

DRIVER: Final = "gpu.nvidia.com"
MODELS: Final = 8


def devices(node: str, model: int) -> list[Json]:
    """What must be there for expressions to be looked at: a node with 8 GPUs of a model, and their class."""
    found = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "type": {"string": "gpu"},
                "productName": {"string": f"NVIDIA model {model} {'x' * 47}"},
                "index": {"int": index},
                "driverVersion": {"version": "550.54.15"},
                "links": {"strings": [f"link {number} {'x' * 50}" for number in range(15)]},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for index in range(8)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": found}
    of_class = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    return [
        {"kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec},
        {"kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": of_class},
    ]


def claim(*requests: Json) -> bytes:
    made = [{"name": f"r{number}", **each} for number, each in enumerate(requests)]
    obj = {"metadata": {"name": "claim", "namespace": "serving"}, "spec": {"devices": {"requests": made}}}
    return review(obj, "ResourceClaim", "resource.k8s.io", "resourceclaims")


def asking(*expressions: str) -> Json:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return {"name": "a", "deviceClassName": DRIVER, "count": 1, "selectors": selectors}


def exactly(*expressions: str) -> Json:
    return {"exactly": asking(*expressions)}


def _different(number: int, text: str) -> str:
    return f"{number} < 0 || {text}"


def _many(text: str, requests: int = 32, alternatives: int = 8, selectors: int = 1) -> bytes:
    """No two of its expressions are alike."""
    numbers = iter(range(1 << 20))
    return claim(
        *[
            {
                "firstAvailable": [
                    asking(*[_different(next(numbers), text) for _ in range(selectors)]) for _ in range(alternatives)
                ]
            }
            for _ in range(requests)
        ]
    )


for _name, _text in EXPRESSIONS.items():
    add(f"claim: {_name}", lambda text=_text: claim(exactly(text)), "validate")  # type: ignore[misc]
for _name in (
    "a class of Unicode, counted",
    "every place is reached",
    "a loop with much in it",
    "many ors",
    "spaces",
    "a long list",
):
    add(f"claim: 256 times {_name}", lambda text=EXPRESSIONS[_name]: _many(text), "validate")  # type: ignore[misc]
add("claim: every expression at once", lambda: claim(*[exactly(text) for text in EXPRESSIONS.values()]), "validate")
add("claim: 8,192 expressions", lambda: _many("device.driver != 'x'", selectors=32), "validate")
add("claim: 300 requests", lambda: _many(EXPRESSIONS["classes of Unicode, in rows"], 300, 1), "validate")
add(
    "claim: 256 expressions that select nothing",
    lambda: claim(*[exactly(f'device.attributes["{DRIVER}"].productName == "{n}"') for n in range(256)]),
    "validate",
)
