"""What becomes of the manifests in a folder with us and without us: `python -m bench.corpus FOLDER [--prereqs FILE]`.

Prints what each rule said, what was refused with us alone, and what we repaired.
"""

import argparse
import asyncio
import re
import sys
from pathlib import Path

from tests.controlplane import clusters
from tests.controlplane.api import Api
from tests.controlplane.objects import made
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.controlplane.settings import Options
from tests.corpus import Tally, compare, documents, generous, pods, workload
from tests.installed import Installed, opt_in


def show(what: str, tally: Tally) -> None:
    total = len(tally.both) + len(tally.neither) + len(tally.refused) + len(tally.repaired)
    print(f"\n{total} {what}: {len(tally.both)} admitted either way, {len(tally.refused)} refused with us alone,")
    ours = sum("gpu-admission.io" in with_us for _, _, with_us in tally.neither)
    print(f"{len(tally.repaired)} repaired, {len(tally.neither)} refused either way, {ours} of them in our words")
    for title, counts in (("findings in refusals", tally.rules), ("warnings", tally.warned)):
        print(f"{title}: {', '.join(f'{rule} {count}' for rule, count in counts.most_common())}")
    for title, entries in (("refused with us alone", tally.refused), ("repaired", tally.repaired)):
        print(f"\n# {title}")
        for name, words in entries:
            print(f"{name}\n    {words[:700]}")
    print("\n# refused either way")
    for name, without, with_us in tally.neither:
        print(f"{name}\n    without: {without[:400]}\n    with us: {with_us[:700]}")


async def _run(plane: ControlPlane, folder: Path, prereqs: Path | None) -> tuple[Tally, Tally]:
    """Of the pods, and of the workloads."""
    if prereqs is not None:
        plane.kubectl("apply", "-f", str(prereqs))
    found = [pod for name, document in documents(folder) for pod in pods(name, document)]
    whole = [each for name, document in documents(folder) for each in workload(name, document)]
    async with Api.of(plane.kubeconfig) as api:
        await clusters.apply(api, generous(found))
        for namespace in ("plain", "ours"):
            await api.namespace(namespace)
            accounts = {str(p["spec"].get("serviceAccountName", "default")) for _, p in found} - {"default"}
            for account in sorted(name for name in accounts if re.fullmatch(r"[a-z0-9-]+", name)):
                await api.create(made("ServiceAccount", account), namespace)
        await opt_in(api, "ours")
        return await compare(api, found, "plain", "ours"), await compare(api, whole, "plain", "ours")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prereqs", type=Path, help="what the manifests expect to be there")
    parser.add_argument("--without", metavar="PLUGIN", help="an admission plugin to switch off, as ServiceAccount")
    given = parser.parse_args()
    flags = (f"--disable-admission-plugins={given.without}",) if given.without else ()
    with ControlPlane(find(), Options(apiserver=flags)) as plane, Installed(plane):
        for what, tally in zip(
            ("pods", "workloads"), asyncio.run(_run(plane, given.folder, given.prereqs)), strict=True
        ):
            show(what, tally)
    return 0


if __name__ == "__main__":
    sys.exit(main())
