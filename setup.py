"""Builds the package: as Python, or with `GPU_ADMISSION_COMPILED=1` with its innermost modules compiled by mypyc.

Those are the modules that every review goes through. They stay plain Python, checked by mypy, and decide the same either way
(`make test` runs their tests both ways); compiled they take about half the time. A C compiler is needed, and the packages of
requirements-dev.txt: types decide what is compiled, so types of other versions would give another program.
"""

import os
import sys
from pathlib import Path

from setuptools import setup

COMPILED = """
    errors text
    admission.pods admission.record admission.response
    cluster.freshness cluster.history cluster.journal cluster.ledger cluster.node_table
    cluster.nodes cluster.replicas cluster.state cluster.state_view cluster.usage
    framework.cluster_view
    kube.json_patch kube.review
    placement.filters placement.fragmentation placement.node_scores placement.node_states placement.placer
    placement.ranker placement.request placement.strategies placement.whole
    server.handlers server.process
    telemetry.decision_log telemetry.metrics
""".split()  # noqa: SIM905  one on a line each would be all there is to see
"""Not those with pydantic models or classes within functions: mypyc has neither."""


def extensions() -> list[object]:
    if os.environ.get("GPU_ADMISSION_COMPILED") != "1":
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        sys.exit(
            "GPU_ADMISSION_COMPILED=1 wants mypy, and there is none where the package is built. "
            "Try: pip install --require-hashes -r requirements-dev.txt, then pip wheel --no-build-isolation --no-deps ."
        )
    paths = [Path("webhook", *name.split(".")) for name in COMPILED]
    files = [path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for path in paths]
    return mypycify([str(file) for file in files], group_name="gpu_admission")


if __name__ == "__main__":
    setup(ext_modules=extensions())
