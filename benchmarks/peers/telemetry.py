"""Power, clocks and energy of one GPU while a program runs, sampled through NVML on a thread.

Columns as in a bundle's /telemetry/gpu (docs/bundle.md). Without pynvml or a GPU `reason` says why there are none.
"""
import threading
import time

COLUMNS = ("time", "power", "sm_clock", "memory_clock", "temperature", "throttle_reasons", "energy")


class Telemetry:
    def __init__(self, uuid: str | None, interval_s: float = 0.05):
        self.columns = {name: [] for name in COLUMNS}
        self.reason = ""
        self.origin = time.perf_counter()
        self._stop = threading.Event()
        self._thread = None
        if not uuid:
            self.reason = "the run used no GPU"
            return
        try:
            import pynvml as nvml
        except ModuleNotFoundError:
            self.reason = "Python has no module pynvml (package nvidia-ml-py)"
            return
        try:
            nvml.nvmlInit()
            self._device = nvml.nvmlDeviceGetHandleByUUID(uuid)
            self._nvml, self._interval = nvml, interval_s
            self._sample()
        except nvml.NVMLError as error:
            self.reason = f"NVML: {error}"
            return
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _sample(self):
        nvml, device = self._nvml, self._device
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        values = (time.perf_counter() - self.origin, nvml.nvmlDeviceGetPowerUsage(device) / 1e3,
                  nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM), nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM),
                  nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU), reasons(device),
                  nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1e3)
        for name, value in zip(COLUMNS, values):
            self.columns[name].append(float(value))

    def _run(self):
        while not self._stop.wait(self._interval):
            try:
                self._sample()
            except self._nvml.NVMLError as error:
                self.reason = f"NVML stopped answering: {error}"
                return

    def power_limit_w(self) -> float | None:
        return self._nvml.nvmlDeviceGetEnforcedPowerLimit(self._device) / 1e3 if self._thread else None

    def stop(self) -> dict:
        """The columns; what was sampled stays valid when NVML failed on the way."""
        self._stop.set()
        if self._thread:
            self._thread.join()
        return {"gpu": self.columns} if self.columns["time"] else {"reason": self.reason}
