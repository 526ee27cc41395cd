"""Only pods that ask for a GPU use the GPU runtime.

Under a GPU runtime the environment of the image alone can give devices: a CUDA image asks for all of them. A RuntimeClass may
have any name; its handler says which runtime it stands for.

Fields read:   spec.runtimeClassName; the handler of that RuntimeClass, if it is known; resources of all containers
Refused:       the classes of `classes`, by name or by handler, in a pod that asks for no GPU, nor for a part of one by KAI or
               Run:ai
DRA:           a claim does not count as a GPU: CDI gives its devices under any runtime
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.text import matches_any, quoted
from webhook.vendors import model as vendors
from webhook.vendors.catalogue import every


class RuntimeClass(Rule):
    of_whole_pods: ClassVar[bool] = True
    everywhere: ClassVar[bool] = True
    differs: ClassVar[str] = "knows a RuntimeClass by its name alone, not by its handler"

    classes: tuple[str, ...] = tuple([each.name for each in every(vendors.RuntimeClass)])
    """GPU runtimes: the name of a RuntimeClass or its handler (name patterns)."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        name = pod.spec.get("runtimeClassName")
        if not name:
            return
        by_name, handler = matches_any(self.classes, name), context.cluster.runtime_handler(name)
        if not (by_name or (handler and matches_any(self.classes, handler))) or pod.asks_for_gpu:
            return
        runtime = "" if by_name else f", the runtime {quoted(handler)},"
        yield Finding(
            path="spec.runtimeClassName",
            seen=f"{quoted(name)}{runtime} in a pod that asks for no GPU",
            wanted="a GPU limit beside it: without one the image may see every GPU of the node",
            fix="Remove it, or ask for a GPU in the limits of a container",
        )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        name = 'object.spec.?runtimeClassName.orValue("")'
        bad = cel.all_of([f'{name} != ""', cel.matches(name, self.classes), "!variables.asksForGpu"])
        yield Check("pod", bad, "a GPU limit beside the GPU runtime class")

    def matched(self, gpus: Gpus) -> Iterable[Check]:
        """Any RuntimeClass: the API server does not know the handler."""
        yield Check("pod", 'object.spec.?runtimeClassName.orValue("") != ""', "no runtime class")
