"""How the peers' components are timed: the same rules for every case, on the device's clock where there is one, all samples kept.

measure(calls, ...) takes the same work on different operands, one callable a set, so that no set is still in the cache when its turn comes
(rotating() says how many sets that takes); what a captured call returns has memory of its own as well. A round is one call of each. Captured, a round is a CUDA graph and samples start behind a
kernel that keeps the device busy until all of them are queued: launches cost nothing. Not captured, the host queues as fast as it can,
as it would in training, and where it is slower than the device its time counts.

Warm-up and samples have the rules of mylos' own harness (benchmarks/harness/rules.hpp): in its first tenths of a second a GPU draws more
power than its limit allows, and a peer that was timed then would have been timed on another device. Warm-up lasts a quarter of a
second on a GPU and ends when the medians of two batches of rounds in a row differ by less than 2 %, or when its part of the budget is
spent. Sampling ends when the 95 % interval of the median (order statistics) is narrower than 1 % of it after 20 samples, or with the budget.
"""
import contextlib
import math
import statistics
import time

import torch

COLD_BYTES = 512 << 20  # ten times the L2 of an H200
WARM_UP_S = 0.25  # on a GPU
WARM_UP_PART = 0.3  # of the budget, at most
WARM_UP_RULE = (f"batches of rounds until two medians in a row differ by less than 2 %, for at least {WARM_UP_S:g} s on a GPU; at most "
                f"{100 * WARM_UP_PART:g} % of the budget")
STOP_RULE = "95 % interval of the median below 1 % of it with 20 samples or more ('width'), or the budget"
MOST_SAMPLES = 2000
BATCH = 5  # samples queued at once
SAMPLE_S = 5e-3  # a sample is at least so long: events resolve about a microsecond


def rotating(bytes_of_a_set: float, device: str) -> int:
    """Sets of operands that together exceed the cache by far; on a CPU three, which is what small shapes need."""
    return min(32, max(2, math.ceil(COLD_BYTES / max(1, bytes_of_a_set)))) if device == "cuda" else 3


def relative_width(values: list) -> float:
    """Of the median's 95 % interval by order statistics (normal limit of the binomial)."""
    n, ordered = len(values), sorted(values)
    half = 0.98 * math.sqrt(n)
    low, high = max(0, math.floor(n / 2 - half)), min(n - 1, math.ceil(n / 2 + half))
    return (ordered[high] - ordered[low]) / statistics.median(ordered)


class HostRounds:
    """Rounds on a CPU, timed by the host's clock."""

    def __init__(self, calls):
        self.calls = calls

    def samples(self, count: int, rounds: int) -> list:
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            for _ in range(rounds):
                for call in self.calls:
                    call()
            times.append((time.perf_counter() - begin) / (rounds * len(self.calls)))
        return times


class DeviceRounds:
    """Rounds on a GPU, between events. `captured` records one as a CUDA graph."""

    def __init__(self, calls, captured: bool):
        self.calls, self.graph, self.results, self.queueing_s = calls, None, [], 0.0
        side = torch.cuda.Stream()  # PyTorch wants two runs on a side stream before a capture; they also compile and allocate
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                for call in calls:
                    call()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        if captured:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                # Held, or all calls would write their results to the same memory, which then stays in the cache.
                self.results = [call() for call in calls]
            torch.cuda.synchronize()

    def _round(self):
        if self.graph:
            self.graph.replay()
            return
        for call in self.calls:
            call()

    def samples(self, count: int, rounds: int) -> list:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        if self.graph:
            # As long as it took to queue the last batch and a half more; about 2e9 cycles are a second.
            torch.cuda._sleep(int(2e9 * min(0.05, 1.5 * self.queueing_s + 1e-4)))
        begin = time.perf_counter()
        events[0].record()
        for event in events[1:]:
            for _ in range(rounds):
                self._round()
            event.record()
        self.queueing_s = time.perf_counter() - begin
        events[-1].synchronize()
        return [a.elapsed_time(b) * 1e-3 / (rounds * len(self.calls)) for a, b in zip(events, events[1:])]


def measure(calls: list, device: str, budget_s: float, captured: bool = False, least: int = 20, host: bool = False) -> dict:
    """Samples (seconds a call) and how they came about; `host` times on the host whatever the device."""
    on_device = device == "cuda" and not host
    source = DeviceRounds(calls, captured) if on_device else HostRounds(calls)
    least_warm = WARM_UP_S if on_device else 0.0
    begin = time.perf_counter()
    first = source.samples(1, 1)[0] * len(calls)
    rounds = max(1, math.ceil(SAMPLE_S / max(first, 1e-9)))
    batch = max(1, min(BATCH, int(0.1 * budget_s / max(first * rounds, 1e-9))))
    warm, last, warm_up_calls = None, None, 0
    while time.perf_counter() - begin < WARM_UP_PART * budget_s:
        last, warm = statistics.median(source.samples(batch, rounds)), last
        warm_up_calls += batch * rounds * len(calls)
        rounds = max(1, math.ceil(SAMPLE_S / (last * len(calls))))
        if warm and abs(last - warm) < 0.02 * warm and time.perf_counter() - begin > least_warm:
            break
    start, times, stop = time.perf_counter(), [], "budget"
    while not times or time.perf_counter() - begin < budget_s:
        times += source.samples(batch, rounds)
        if len(times) >= least and relative_width(times) < 0.01:
            stop = "width"
            break
        if len(times) >= MOST_SAMPLES:
            stop = "samples"
            break
    return {"samples_s": times, "calls_per_sample": rounds * len(calls), "warm_up_calls": warm_up_calls, "warm_up_s": start - begin,
            "stop": stop, "clock": "device" if on_device else "host", "captured": captured and on_device}


@contextlib.contextmanager
def attention_by(backend: str, device: str):
    """scaled_dot_product_attention by one backend ('cudnn', 'flash'), or an error of PyTorch's; on a CPU its only one."""
    if device != "cuda":
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel({"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[backend]):
        yield
