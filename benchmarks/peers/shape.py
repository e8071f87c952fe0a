"""The model of a mylos configuration file, without torch: its shape, parameter counts and FLOPs a token.

Widths and defaults follow src/model/config.hpp, FLOPs a token src/model/flops.hpp (causal, palm, total). `include` is not
followed: the presets in configs/model hold their own [model].
"""
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRESETS = ROOT / "configs/model"
DEFAULTS = {"dim": 256, "layers": 4, "heads": 4, "kv_heads": 0, "head_size": 0, "ffn": 0, "ffn_multiplier": 1.0, "vocab": 512,
            "max_seq_len": 512, "rope_theta": 10000.0, "norm_eps": 1e-5, "tied_head": False, "qk_norm": False, "init_std": 0.02}


def read_toml(path: pathlib.Path) -> dict:
    try:
        toml = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        sys.exit(f"{path}: {getattr(e, 'strerror', None) or e}")
    if "include" in toml:
        sys.exit(f"{path}: include is not followed here; give a configuration that holds its own [model]")
    return toml


def model_shape(toml: dict) -> dict:
    s = DEFAULTS | toml.get("model", {})
    if s["qk_norm"]:
        sys.exit("qk_norm = true: the peers' model has no norm of q and k; compare a configuration without")
    s["kv_heads"] = s["kv_heads"] or s["heads"]
    s["head_size"] = s["head_size"] or s["dim"] // s["heads"]
    s["ffn"] = s["ffn"] or 256 * -(-int(8 * s["dim"] / 3 * s["ffn_multiplier"]) // 256)
    return s


def preset(name: str) -> dict:
    """`name` is a preset ("7b") or the path of a configuration."""
    path = pathlib.Path(name) if name.endswith(".toml") else PRESETS / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in PRESETS.glob("*.toml")))
        sys.exit(f"there is no preset '{name}' ({path}); known: {known}")
    return model_shape(read_toml(path))


def parameter_counts(s: dict) -> tuple[int, int]:
    """All parameters, and those in matrix products: without the norms and an untied input embedding."""
    D, h, F = s["dim"], s["head_size"], s["ffn"]
    block = D * (s["heads"] + 2 * s["kv_heads"]) * h + D * s["heads"] * h + 3 * D * F
    products = s["layers"] * block + s["vocab"] * D
    return products + (0 if s["tied_head"] else s["vocab"] * D) + (2 * s["layers"] + 1) * D, products


def flops_per_token(s: dict, sequence: int) -> dict:
    """Model FLOPs a token, forward and backward, under each definition of docs/bundle.md."""
    total, products = parameter_counts(s)
    scores = s["layers"] * s["heads"] * s["head_size"] * sequence
    return {"causal": 6 * products + 6 * scores, "palm": 6 * products + 12 * scores, "total": 6 * total + 12 * scores}
