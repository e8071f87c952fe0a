"""The text of a train report."""

import math

import numpy as np


def clean(value, most=300):
    """A value of the file as one line that cannot break out of a Markdown table."""
    text = " ".join(str(value).split())
    text = text if len(text) <= most else text[:most] + " ..."
    for character in "\\`|<>[]*_#":
        text = text.replace(character, "\\" + character)
    return text


def fenced(text, language):
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def size(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.2f} {unit}"
        count /= 1024


def duration(seconds):
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"


def real(value, digits=4):
    return "not known" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def table(header, rows):
    if not rows:
        return ""
    alignment = ["---"] + ["--:"] * (len(header) - 1) if len(header) > 2 else ["---", "---"]
    lines = [header, alignment, *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def points(count, most):
    """Up to `most` indices spread over [0, count), the first and last among them."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int))) if count else []


def summary_lines(bundle, steps, evaluation, summary):
    done = len(steps["step"])
    lines = [
        f"{done:,} steps, {summary.get('tokens', 0):,.0f} tokens, "
        f"{duration(float(np.sum(steps['step_time'])))} of training."
    ]
    if done:
        lines.append(
            f"Training loss {real(summary.get('train_loss_last_10_mean'))} (mean of the last {min(10, done)} steps)."
        )
    if len(evaluation.get("step", [])):
        bits = summary.get("validation_bits_per_byte_last")
        lines.append(
            f"Validation loss {real(summary.get('validation_loss_last'))} nats per token"
            + (f", {bits:.3f} bits per byte." if bits is not None and math.isfinite(bits) else ".")
        )
    if "tokens_per_s" in summary:
        lines.append(
            f"**{summary['tokens_per_s']:,.0f} tokens/s** over the steady window "
            f"(median of steps {summary['tokens_per_s_median']:,.0f}, "
            f"95 % interval {summary['tokens_per_s_median_low']:,.0f} to {summary['tokens_per_s_median_high']:,.0f})."
        )
    return lines


def mfu_section(bundle):
    lines = []
    rows = []
    for name in ("mfu_causal", "mfu_palm", "mfu_total", "sol"):
        value = bundle.number("/derived/" + name)
        if value is not None:
            rows.append(
                (f"`{name}`", f"{100 * value:.1f} %", clean(bundle.about["/derived/" + name].get("description", "")))
            )
    if rows:
        peak = bundle.about.get("/derived/mfu_causal", {})
        lines.append(
            "| figure | value | definition |\n|---|--:|---|\n" + "\n".join(f"| {a} | {b} | {c} |" for a, b, c in rows)
        )
        if "peak_flops" in peak:
            lines.append(
                f"Peak: {peak['peak_flops'] / 1e12:,.1f} TFLOP/s, dense ({clean(peak.get('peak_source', ''))})."
            )
    else:
        lines.append(f"No MFU: {clean(bundle.attribute('/derived', 'no_mfu', 'no step was recorded'))}.")
        rate = bundle.number("/derived/model_flop_rate_causal")
        if rate:
            lines.append(f"Model FLOPs, causal definition: {rate / 1e9:,.1f} GFLOP/s on each device.")
    return lines


def caveats(bundle, steps, summary):
    found = []
    status = bundle.attribute("/", "status", "unknown")
    if not bundle.attribute("/", "complete"):
        found.append(
            f"**The run is not complete** (status: {clean(status)}): the bundle holds what was published until "
            f"{clean(bundle.attribute('/', 'published', 'an unknown time'))}."
        )
    if bundle.attribute("/provenance", "dirty"):
        found.append("The program was built from sources that differ from the commit; the bundle holds the difference.")
    if bundle.attribute("/provenance", "commit", "unknown") == "unknown":
        found.append("The commit of the program is not known.")
    if bundle.attribute("/summary", "steady_window_is_short"):
        found.append("Fewer than 10 steps are in the steady window: throughput is indicative only.")
    median = summary.get("tokens_per_s_median", 0)
    if median and (summary["tokens_per_s_median_high"] - summary["tokens_per_s_median_low"]) / median > 0.05:
        found.append("The interval of the median throughput is wider than 5 %: the machine was not quiet.")
    if summary.get("data_wait_fraction", 0) > 0.05:
        found.append(f"{100 * summary['data_wait_fraction']:.1f} % of the steady window was spent waiting for data.")
    broken = int(np.count_nonzero(~np.isfinite(steps["loss"])))
    if broken:
        found.append(f"The loss of {broken} steps is not finite.")
    if not bundle.attribute("/hardware", "is_gpu"):
        found.append("The run used the CPU; its speed says nothing about GPUs.")
    return found


def config_table(config):
    rows = []
    for section in ("model", "train", "optimizer", "schedule"):
        keys = config.get(section)
        if isinstance(keys, dict):
            rows.append(
                (
                    f"`{section}`",
                    ", ".join(f"{clean(k)} {clean(v, 60)}" for k, v in keys.items() if not isinstance(v, (dict, list))),
                )
            )
    return table(("section", "values"), rows)


def report(bundle, figures):
    root, summary = bundle.attributes["/"], {}
    for name in bundle.datasets:
        if name.startswith("/summary/") and bundle.number(name) is not None:
            summary[name[len("/summary/") :]] = bundle.number(name)
    steps, evaluation = bundle.table("/samples/steps"), bundle.table("/samples/evaluation")
    config = bundle.config()
    out = [f"# Training run {clean(bundle.path.stem)}", ""]
    out += [" ".join(summary_lines(bundle, steps, evaluation, summary)), ""]
    notes = caveats(bundle, steps, summary)
    note = bundle.text("/provenance/note")
    if note:
        out += [f"Note of the user: {clean(note)}", ""]
    if notes:
        out += ["## Caveats", "", *[f"- {n}" for n in notes], ""]

    out += ["## Loss", ""]
    if "loss" in figures:
        out += [f"![training and validation loss over steps]({figures['loss']})", ""]
    rows = [
        (
            f"{steps['step'][i]:.0f}",
            real(steps["loss"][i]),
            real(steps["grad_norm"][i], 3),
            f"{steps['learning_rate'][i]:.3e}",
            f"{steps['tokens_per_s'][i]:,.0f}",
        )
        for i in points(len(steps["step"]), 9)
    ]
    out += [table(("step", "training loss", "gradient norm", "learning rate", "tokens/s"), rows), ""]
    rows = [
        (
            f"{evaluation['step'][i]:.0f}",
            real(evaluation["loss"][i]),
            real(evaluation["bits_per_byte"][i], 3),
            f"{evaluation['tokens'][i]:,.0f}",
        )
        for i in points(len(evaluation.get("step", [])), 9)
    ]
    if rows:
        out += [table(("step", "validation loss", "bits per byte", "tokens evaluated"), rows), ""]
    if "optimization" in figures:
        out += [f"![learning rate and gradient norm over steps]({figures['optimization']})", ""]

    out += ["## Throughput", ""]
    if "throughput" in figures:
        out += [f"![tokens per second over time]({figures['throughput']})", ""]
    if "tokens_per_s" in summary:
        interval = bundle.about.get("/summary/tokens_per_s_median", {}).get("interval", "")
        out += [
            table(
                ("figure", "value"),
                [
                    ("tokens/s over the steady window", f"{summary['tokens_per_s']:,.1f}"),
                    ("median tokens/s of its steps", f"{summary['tokens_per_s_median']:,.1f}"),
                    (
                        clean(interval) or "interval",
                        f"{summary['tokens_per_s_median_low']:,.1f} to {summary['tokens_per_s_median_high']:,.1f}",
                    ),
                    (
                        "steps in the window",
                        f"{summary['steady_window_end'] - summary['steady_window_first']:,.0f} of "
                        f"{summary['steps']:,.0f}",
                    ),
                    ("waiting for data", f"{100 * summary['data_wait_fraction']:.2f} %"),
                ],
            ),
            "",
        ]
        out += [f"Steady window: {clean(bundle.attribute('/summary', 'steady_window_rule', 'not stated'))}.", ""]
    out += ["\n\n".join(mfu_section(bundle)), ""]

    out += ["## Memory and work", ""]
    sizes = bundle.datasets.get("/plan/memory/bytes", np.array([], dtype=np.int64))
    rows = [(clean(name), size(int(value))) for name, value in zip(bundle.texts("/plan/memory/category"), sizes)]
    if rows:
        rows.append(("**planned**", f"**{size(int(sizes.sum()))}**"))
    peak = summary.get("device_memory_peak")
    if peak:
        rows.append(("measured peak", size(peak)))
    out += [table(("device memory", "size"), rows), ""]
    parameters = bundle.plan().get("parameters")
    parameters = parameters.get("total") if isinstance(parameters, dict) else None
    if isinstance(parameters, int):
        out += [f"{parameters:,} parameters.", ""]
    ledger = bundle.table("/plan/flop_ledger")
    phases = np.array(bundle.texts("/plan/flop_ledger/phase"))
    if len(phases) and len(phases) == len(ledger.get("flops", [])):
        rows = [
            (
                phase,
                f"{ledger['flops'][phases == phase].sum() / 1e9:,.2f}",
                f"{ledger['bytes'][phases == phase].sum() / 2**20:,.1f}",
            )
            for phase in dict.fromkeys(phases.tolist())
        ]
        out += [table(("phase of one step", "GFLOP", "MiB moved at least"), [(clean(a), b, c) for a, b, c in rows]), ""]

    out += ["## Configuration", "", config_table(config), ""]
    out += [
        "<details><summary>All keys</summary>",
        "",
        fenced(bundle.text("/config/toml"), "toml"),
        "",
        "</details>",
        "",
    ]

    libraries = zip(bundle.texts("/provenance/libraries/name"), bundle.texts("/provenance/libraries/version"))
    environment = zip(bundle.texts("/provenance/environment/name"), bundle.texts("/provenance/environment/value"))
    memory = bundle.number("/hardware/device_memory")
    dirty = ", with changes" if bundle.attribute("/provenance", "dirty") else ""
    rows = [
        ("started", clean(root.get("created"))),
        ("status", clean(root.get("status"))),
        ("commit", clean(bundle.attribute("/provenance", "commit")) + dirty),
        ("program", clean(bundle.attribute("/provenance", "program"))),
        ("command", clean(" ".join(bundle.texts("/provenance/command_line")))),
        (
            "device",
            f"{clean(bundle.attribute('/hardware', 'devices'))} x {clean(bundle.attribute('/hardware', 'device'))} "
            f"({clean(bundle.attribute('/hardware', 'backend'))}), {size(memory or 0)}",
        ),
        (
            "CPU",
            f"{clean(bundle.attribute('/hardware', 'cpu'))}, "
            f"{clean(bundle.attribute('/hardware', 'cpu_cores'))} cores, "
            f"{clean(bundle.attribute('/hardware', 'threads'))} threads",
        ),
        (
            "host",
            f"{clean(bundle.attribute('/provenance', 'host'))}, "
            f"{clean(bundle.attribute('/provenance', 'operating_system'))}",
        ),
        ("compiler", clean(bundle.attribute("/provenance", "compiler"))),
        ("build", clean(bundle.text("/provenance/build_options"), 400)),
        ("libraries", ", ".join(f"{clean(n)} {clean(v)}" for n, v in libraries)),
        ("environment", ", ".join(f"{clean(n)}={clean(v)}" for n, v in environment) or "nothing set"),
    ]
    out += ["## Provenance", "", table(("", "value"), rows), ""]
    out += [
        f"Every dataset's SHA-256 was verified. Schema {clean(root.get('schema'))} "
        f"{clean(root.get('schema_version'))}.",
        "",
    ]
    return "\n".join(out)
