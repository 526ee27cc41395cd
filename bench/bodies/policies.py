"""Policies that are applied."""

from collections.abc import Callable

from bench.bodies.parts import (
    Json,
    add,
    review,
)


def _policy(name: str, make: Callable[[], str]) -> None:
    add(name, lambda: config_map({"policy.yaml": make()}), "validate")


def config_map(data: Json) -> bytes:
    obj = {"metadata": {"name": "gpu-admission-policy", "namespace": "gpu-admission"}, "data": data}
    return review(obj, "ConfigMap", "", "configmaps", namespace="gpu-admission")


_policy("policy: a number to the base 60 of 120,000 digits", lambda: "a: 1" + ":1" * 120_000)
_policy("policy: 10,000 numbers to the base 60", lambda: "a: [" + "1:1:1:1:1:1:1:1:1.0, " * 10_000 + "1]")
_policy("policy: a number of 250,000 digits", lambda: "a: " + "1" * 250_000)
_policy("policy: a binary number of 250,000 digits", lambda: "a: 0b1" + "1" * 250_000)
_policy("policy: 250,000 lists in lists", lambda: "[" * 250_000)
_policy("policy: aliases of aliases", lambda: "a: &a [x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(10_000)))
_policy("policy: 20,000 unknown keys", lambda: "".join(f"profilez{n}: 1\n" for n in range(20_000)))
_policy("policy: 40,000 equal keys in one line", lambda: "{" + "a: 1, " * 40_000 + "}")
_policy(
    "policy: 8,000 unknown keys in a profile",
    lambda: "profiles: {default: {rules: {" + ", ".join(f"gpuLimitz{n}: {{}}" for n in range(8_000)) + "}}}",
)
_policy("policy: 8,000 profiles", lambda: "profiles: {" + ", ".join(f"a{n}: {{}}" for n in range(8_000)) + "}")
_policy(
    "policy: 100 profiles of a large default",
    lambda: (
        "profiles:\n  default: {rules: {hostDevices: {paths: ["
        + ", ".join(f"/a/{n}" for n in range(15_000))
        + "]}}}\n"
        + "".join(f"  a{n}: {{dryRun: true}}\n" for n in range(98))
    ),
)
_policy(
    "policy: 100 profiles of a large wrong default",
    lambda: (
        "profiles:\n  default: {rules: {hostDevices: {paths: ["
        + ", ".join("[]" for n in range(15_000))
        + "]}}}\n"
        + "".join(f"  a{n}: {{dryRun: true}}\n" for n in range(98))
    ),
)
_policy("policy: 8,000 names of GPUs", lambda: "gpus: [" + ", ".join(f"{{name: a.b/c{n}}}" for n in range(8_000)) + "]")
_policy(
    "policy: 5,000 classes",
    lambda: "classes: [" + ", ".join(f"{{class: a{n}, labels: {{b: [c]}}}}" for n in range(5_000)) + "]",
)
_policy("policy: 250 kB of !!binary", lambda: "a: !!binary " + "AAAA" * 60_000)
_policy("policy: 20,000 timestamps", lambda: "a: [" + "2001-01-01, " * 20_000 + "]")
_policy("policy: a word of 250 kB", lambda: "profiles: " + "x" * 250_000)
_policy("policy: 8 MB", lambda: "# x\n" * 1_600_000)
add("policy: 600,000 other keys", lambda: config_map({f"{n:x}": "" for n in range(600_000)}), "validate")
