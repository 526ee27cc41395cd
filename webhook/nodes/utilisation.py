"""GPU metrics by node: idle GPUs, mean utilisation, temperature and sick GPUs, smoothed over a window.

One poll of a source is a round: `discard`, `add` for each number, `discard` again if the poll failed, then `commit`, which moves
the time. Then `changed` is asked for each of the `nodes`, some in each turn of the event loop: 10,000 take a fifth of a second.

    nothing -- commit --> measured -- `staleAfter` without a sample --> gone
                            |    ^
                            +----+  commit

A GPU is idle if utilisation and memory stayed below their limits in every sample of the window: the time of the last
sample that did not is kept. So a pause between two batches does not look idle. The mean utilisation is weighted
exponentially, with the window as its time constant.

A GPU that is split into MIG instances is counted as its instances; they have its temperature and its Xid errors. No pod
needs metrics to be admitted: if they are missing or stale, `status` says so, and nodes are ranked by allocation alone.

The numbers of GPUs in all and per node are bounded. Names come from metrics, so from outside: they are compared, never
parsed. The name of a pod says whose an idle GPU is; nodes are not ranked by it.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from math import exp, inf, isnan, nan
from typing import Final, NamedTuple

from webhook.framework.cluster_view import MetricsStatus
from webhook.nodes.gpu_metrics import GpuMetricsSettings

MAX_GPUS = 500_000
MAX_PER_NODE = 256
"""Twice what 16 GPUs with 7 MIG instances each need."""
NONE_YET = "no GPU metrics yet"
STALE = "GPU metrics are stale"
IDLE_FOR: Final[Mapping[str, float]] = {"1h": 3600.0, "6h": 21600.0, "1d": 86400.0}
"""How long GPUs have been idle is counted by these words: the seconds of each."""
_FULL = 98.0
"""Percent of its memory from which on a GPU is full."""


class Reading(IntEnum):
    """What a number measures: the names of the fields of `gpuMetrics.queries`."""

    UTILISATION = 0
    """Percent."""
    ENGINE = 1
    """Part of the time that the engine is active, 0 to 1: the utilisation of a MIG instance."""
    MEMORY_USED = 2
    """MiB."""
    MEMORY_FREE = 3
    """MiB."""
    TEMPERATURE = 4
    """Degrees Celsius."""
    XID = 5
    """1 if the GPU needs a reset or a repair, else 0."""


RANGES = ((0.0, 100.0), (0.0, 1.01), (0.0, 2.0**30), (0.0, 2.0**30), (-50.0, 200.0), (0.0, 1.0))
"""Valid values of each reading. DCGM marks unknown values by numbers from 2**31 - 16 and from 2**47 upwards."""


class Sample(NamedTuple):
    """One number about one GPU. `gpu` is unique on its node. `instance` is the MIG instance, `pod` its namespace/name, or ""."""

    node: str
    gpu: str
    reading: Reading
    value: float
    instance: str = ""
    pod: str = ""


class PodUse(NamedTuple):
    """The measured GPUs of a node that a pod has, as the source says. Nobody has checked that there is such a pod."""

    pod: str
    gpus: int
    idle: int
    idle_for: tuple[int, ...]


class NodeUse(NamedTuple):
    """The metrics of the GPUs of one node."""

    measured: int
    idle: int
    """Idle ones among the measured GPUs, allocated or not."""
    utilisation: float
    """Mean, 0 to 1; NaN if no GPU is measured."""
    hottest: float
    """Degrees Celsius; NaN if not known."""
    hot: int
    sick: int
    avoid: int
    """GPUs to avoid by the policy because they are hot or sick; without those that count as busy."""
    busy: int = 0
    """Measured GPUs that are not idle; 0 if the policy does not avoid busy GPUs."""
    known: int = 0
    """GPUs with any metric."""
    full: int = 0
    """GPUs with nearly no memory left."""
    idle_for: tuple[int, ...] = (0,) * len(IDLE_FOR)
    """GPUs that have been idle for each of IDLE_FOR."""
    pods: tuple[PodUse, ...] = ()
    """By the pods that have the GPUs, where the source names them."""


UNKNOWN = NodeUse(0, 0, nan, nan, 0, 0, 0)
_NOTHING = array("f", [nan] * len(Reading))
_SEVERAL = "/"  # pods that have a GPU together


class _Gpu:
    """A GPU or MIG instance. `fresh` and `named`: the numbers and the pod of the round, until they are looked at."""

    __slots__ = (
        *("average", "first", "fresh", "full", "heard", "measured"),
        *("named", "pod", "sick", "temperature", "used"),
    )

    def __init__(self) -> None:
        self.fresh: array[float] | None = None
        self.heard = self.measured = self.used = -inf
        """The times of the last number, of the last utilisation, and of the last sample by which it was not idle."""
        self.first = inf
        """The time of the first utilisation since the pod has it."""
        self.named = self.pod = ""
        self.average, self.temperature, self.sick, self.full = 0.0, -inf, False, False

    def read(self, now: float, instance: str, settings: GpuMetricsSettings) -> None:
        """Take over the numbers of the round, if there are any."""
        if self.fresh is None:
            return
        percent, engine, used, free, temperature, sick = self.fresh
        self.fresh, self.heard = None, now
        if self.named != self.pod:
            self.pod, self.first = self.named, now
        self.temperature, self.sick = -inf if isnan(temperature) else temperature, sick > 0
        memory = used * 100 / (used + free) if used + free > 0 else 0.0
        self.full = memory >= _FULL
        if instance or isnan(percent):
            percent = min(engine, 1) * 100
        if isnan(percent):
            return
        if percent >= settings.idle.utilisation or memory >= settings.idle.memory:
            self.used = now
        keep = exp((self.measured - now) / settings.window)
        self.average, self.measured = self.average * keep + percent * (1 - keep), now
        self.first = min(self.first, now)


class Utilisation:
    """The metrics of all GPUs. Times are seconds of one clock that never goes back."""

    def __init__(self, settings: GpuMetricsSettings) -> None:
        self._settings = settings
        self._nodes: dict[str, dict[tuple[str, str], _Gpu]] = {}
        """The GPUs of each node, by name and instance."""
        self._round: list[_Gpu] = []
        """The GPUs with numbers in the round."""
        self._measures = False
        """Whether one of these numbers is a utilisation."""
        self._now, self._newest = -inf, -inf
        self._reported: dict[str, NodeUse] = {}
        """The metrics of each node that has any, as `changed` gave them last."""
        self.gpus = 0
        """Number of GPUs and MIG instances with metrics."""
        self.ignored: Counter[str] = Counter()
        """Numbers that were not used, by a constant reason."""

    def configure(self, settings: GpuMetricsSettings) -> None:
        """Apply the settings of a new policy. With another source all metrics are forgotten."""
        if settings.source != self._settings.source:
            self._nodes, self.gpus, self._newest = {}, 0, -inf
        self._settings = settings

    def add(self, node: str, gpu: str, reading: Reading, value: float, instance: str = "", pod: str = "") -> None:
        """Add a number to the round. Of two for the same GPU the busier one counts, and two pods have it together."""
        low, high = RANGES[reading]
        if not low <= value <= high:
            # NaN alone differs from itself; `isnan` would raise for an integer that no float can hold.
            self.ignored["not a number" if value != value else "out of range"] += 1  # noqa: PLR0124
            return
        gpus = self._nodes.get(node, {})
        if (found := gpus.get((gpu, instance))) is None:
            if self.gpus >= MAX_GPUS or len(gpus) >= MAX_PER_NODE:
                self.ignored["too many GPUs"] += 1
                return
            found = gpus[gpu, instance] = _Gpu()
            self._nodes[node] = gpus
            self.gpus += 1
        if found.fresh is None:
            found.fresh, found.named = _NOTHING[:], ""
            self._round.append(found)
        if pod and pod != found.named:
            found.named = _SEVERAL if found.named else pod
        before = found.fresh[reading]
        if not isnan(before):
            self.ignored["duplicate"] += 1
            if (value >= before) == (reading is Reading.MEMORY_FREE):
                return
        found.fresh[reading] = value
        self._measures |= reading is Reading.ENGINE or (reading is Reading.UTILISATION and not instance)

    def discard(self) -> None:
        """Begin a round: forget the numbers of the last one that nobody has looked at."""
        for gpu in self._round:
            gpu.fresh = None
        self._round, self._measures = [], False

    def commit(self, now: float) -> None:
        """Complete the round, which may be empty: time passes, and metrics become stale."""
        if self._measures:
            self._newest = now
        self._now = now

    def observe(self, samples: Iterable[Sample], now: float) -> None:
        """Add and complete a whole round, for all nodes."""
        self.discard()
        for sample in samples:
            self.add(*sample)
        self.commit(now)
        for name in [*self._nodes]:
            self.node(name)

    def nodes(self) -> list[str]:
        """The nodes that `changed` may be asked for."""
        return [*dict.fromkeys((*self._reported, *self._nodes))]

    def changed(self, name: str) -> NodeUse | None:
        """The metrics of a node if they have changed since this was asked last; UNKNOWN if there are none any more."""
        use = self.node(name)
        if use == self._reported.get(name, UNKNOWN):
            return None
        if use is UNKNOWN:
            del self._reported[name]
        else:
            self._reported[name] = use
        return use

    def node(self, name: str) -> NodeUse:
        """The metrics of a node as of the last `commit`. Those that are stale are dropped."""
        gpus, oldest = self._nodes.get(name, {}), self._now - self._settings.stale_after
        for (gpu, instance), found in [*gpus.items()]:
            found.read(self._now, instance, self._settings)
            if found.heard < oldest:
                del gpus[gpu, instance]
                self.gpus -= 1
        if not gpus:
            self._nodes.pop(name, None)
            return UNKNOWN
        return self._use(gpus, oldest)

    def status(self, now: float) -> MetricsStatus:
        """Whether there are samples to rank by, and if not, why."""
        source, age = self._settings.source, now - self._newest
        if source == "off":
            return MetricsStatus()
        if age == inf:
            return MetricsStatus(source, NONE_YET)
        return MetricsStatus(source, "" if age <= self._settings.stale_after else STALE, age)

    def _use(self, gpus: dict[tuple[str, str], _Gpu], oldest: float) -> NodeUse:
        settings, split = self._settings, {gpu for gpu, instance in gpus if instance}
        measured = idle = hot = sick = avoid = busy = known = full = 0
        total, hottest, since, by_pod = 0.0, -inf, list[float](), dict[str, list[float]]()
        for (name, instance), gpu in gpus.items():
            if name in split and not instance:
                continue
            whole = gpus.get((name, ""), gpu)
            temperature = max(gpu.temperature, whole.temperature)
            is_hot = temperature >= settings.hot.temperature
            is_sick = gpu.sick or whole.sick  # a GPU that is lost reports an Xid but no utilisation
            is_measured = gpu.measured >= oldest
            is_idle = is_measured and gpu.used < self._now - settings.window
            is_busy = is_measured and not is_idle and settings.busy.avoid
            known, measured, idle, busy = known + 1, measured + is_measured, idle + is_idle, busy + is_busy
            full += gpu.full
            since.append(max(gpu.used, gpu.first) if is_idle else inf)
            if is_measured and gpu.pod not in ("", _SEVERAL):
                by_pod.setdefault(gpu.pod, []).append(since[-1])
            hot, sick, hottest = hot + is_hot, sick + is_sick, max(hottest, temperature)
            avoid += not is_busy and ((is_hot and settings.hot.avoid) or (is_sick and settings.sick.avoid))
            total += gpu.average if is_measured else 0.0
        utilisation = round(round(total / measured) / 100, 2) if measured else nan
        hottest = hottest if hottest > -inf else nan
        pods = [PodUse(pod, len(of), sum([at < inf for at in of]), self._for(of)) for pod, of in by_pod.items()]
        more = self._for(since), tuple(sorted(pods))
        return NodeUse(measured, idle, utilisation, hottest, hot, sick, avoid, busy, known, full, *more)

    def _for(self, since: list[float]) -> tuple[int, ...]:
        """How many have been idle for each of IDLE_FOR, by the times since which they are idle."""
        return tuple([sum([begin <= self._now - long for begin in since]) for long in IDLE_FOR.values()])
