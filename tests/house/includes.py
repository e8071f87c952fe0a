"""A layer includes only itself and the layers before it; only kernels/ and the files that own streams see Kokkos or CUDA."""
import re

from tree import CPP, ROOT, files, lines, report

LAYERS = ["base", "tensor", "kernels", "comm", "model", "parallel", "optimizer", "data", "checkpoint", "measure", "plan", "train", "cli"]
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
DEVICE_HEADERS = re.compile(r"(Kokkos_|OpenMP/|Cuda/|cuda|cublas|cudnn|nccl|cutlass|nvml|cupti|nvtx)")
# src/ files that may see them: what a Stream is, and the calls of the runtime.
OWN_STREAMS = {"src/tensor/device.cpp", "src/tensor/async.cpp", "src/tensor/detail/exec.hpp"}
# The storage type converts with the device's own instruction when nvcc compiles it.
DEVICE_TYPE = {"src/tensor/bf16.hpp": "cuda_bf16.h"}
# Layers that talk to a vendor's library for something other than kernels.
VENDOR_LAYERS = {"comm", "measure"}

findings = []
checked = 0
for path in files(CPP, "src", "kernels"):
    name = path.relative_to(ROOT).as_posix()
    parts = name.split("/")
    layer = "kernels" if parts[0] == "kernels" else parts[1]
    if layer not in LAYERS:
        findings.append(f"{name}: '{layer}' is not a layer; they are {', '.join(LAYERS)}")
        continue
    for number, line in lines(path):
        match = INCLUDE.match(line)
        if not match:
            continue
        checked += 1
        bracket, header = match.groups()
        where = f"{name}:{number}"
        if bracket == '"':
            if header.startswith("."):
                findings.append(f"{where}: include \"{header}\" by its full name from src/ or the root")
            target = header.split("/")[0]
            if target in LAYERS and LAYERS.index(target) > LAYERS.index(layer):
                findings.append(f"{where}: {layer} includes {header}, but {target} comes after {layer}")
            if header == "tensor/detail/exec.hpp" and layer != "kernels" and name not in OWN_STREAMS:
                findings.append(f"{where}: only kernels/ and {', '.join(sorted(OWN_STREAMS))} may include {header}")
        elif DEVICE_HEADERS.match(header) and layer != "kernels" and name not in OWN_STREAMS:
            if DEVICE_TYPE.get(name) != header and (layer not in VENDOR_LAYERS or header.startswith("Kokkos")):
                findings.append(f"{where}: only kernels/ and {', '.join(sorted(OWN_STREAMS))} may include <{header}>")
report(findings, checked, "includes")
