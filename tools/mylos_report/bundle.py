"""Reading a bundle: every checksum is verified before a value is used."""

import functools
import hashlib
import json
import os
import tomllib

import h5py
import numpy as np


class BundleError(Exception):
    """What is wrong with the file, for the user."""


ODD = (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError, ZeroDivisionError)


def of_bundle(function):
    """A function of a bundle, whose foreign content (a column that is not there, or is of another type or length) is a BundleError."""

    @functools.wraps(function)
    def guarded(bundle):
        try:
            with np.errstate(all="ignore"):  # what is no number is said by the rules
                return function(bundle)
        except ODD as error:
            what = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise BundleError(f"'{bundle.path}' lacks what its figures follow from, or has another type of it ({what})") from error

    return guarded


def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _attributes(item):
    values = {}
    for name, value in item.attrs.items():
        if isinstance(value, (bytes, str)):
            values[name] = _text(value)
        elif np.ndim(value) == 0:
            values[name] = value.item()
    return values


class Bundle:
    """Attributes by group, datasets by path; all of it is in memory after the constructor."""

    def __init__(self, path):
        self.path = path
        self.attributes = {}
        self.datasets = {}
        self.about = {}
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe would never open
            raise BundleError(f"'{path}' is not a regular file")
        try:
            with h5py.File(path, "r") as file:
                self.attributes["/"] = _attributes(file)
                self._require_bundle()
                self._read(file, "")
        except (OSError, RuntimeError, ValueError, KeyError, UnicodeError) as error:
            raise BundleError(f"'{path}' cannot be read: {error}") from error

    def _require_bundle(self):
        root = self.attributes["/"]
        if root.get("schema") != "mylos-bundle":
            raise BundleError(f"'{self.path}' is no mylos bundle: its root has no attribute schema='mylos-bundle'")
        version = str(root.get("schema_version", ""))
        if not version.startswith("1."):
            raise BundleError(f"'{self.path}' has schema version '{version}'; this report reads 1.x")

    def _read(self, group, prefix):
        for name in group:
            where = f"{prefix}/{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise BundleError(f"'{self.path}': '{where}' is a link; bundles have none")
            item = group[name]
            if isinstance(item, h5py.Group):
                if prefix.count("/") > 16:
                    raise BundleError(f"'{self.path}': '{where}' lies too deep")
                self.attributes[where] = _attributes(item)
                self._read(item, where)
            elif isinstance(item, h5py.Dataset):
                self._read_dataset(item, where)
            else:
                raise BundleError(f"'{self.path}': '{where}' is neither a group nor a dataset")

    def _read_dataset(self, item, where):
        about = _attributes(item)
        if item.dtype.kind not in "SfiuV" or item.dtype.hasobject or item.nbytes > item.id.get_storage_size():
            raise BundleError(f"'{self.path}': '{where}' has a type or size that mylos does not write")
        values = np.empty(item.shape, item.dtype)
        if values.size:
            item.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values)
        found = hashlib.sha256(values.tobytes()).hexdigest()
        if about.get("sha256") != found:
            raise BundleError(
                f"'{self.path}': '{where}' is damaged: its SHA-256 is {found}, the file states {about.get('sha256')}"
            )
        self.datasets[where] = values
        self.about[where] = about

    def attribute(self, group, name, default=None):
        return self.attributes.get(group, {}).get(name, default)

    def number(self, path):
        """The scalar at `path`, or None."""
        values = self.datasets.get(path)
        return values.item() if values is not None and values.ndim == 0 and values.dtype.kind in "fiu" else None

    def text(self, path):
        values = self.datasets.get(path)
        return _text(values.item()) if values is not None and values.ndim == 0 and values.dtype.kind == "S" else ""

    def texts(self, path):
        values = self.datasets.get(path)
        return (
            [_text(v) for v in values] if values is not None and values.ndim == 1 and values.dtype.kind == "S" else []
        )

    def table(self, path):
        """Columns of one table of series, by name."""
        start = path + "/"
        return {
            name[len(start) :]: values
            for name, values in self.datasets.items()
            if name.startswith(start) and values.ndim == 1 and values.dtype.kind == "f"
        }

    def config(self):
        try:
            return tomllib.loads(self.text("/config/toml"))
        except tomllib.TOMLDecodeError as error:
            raise BundleError(f"'{self.path}': /config/toml is not TOML: {error}") from error

    def plan(self):
        text = self.text("/plan/json")
        try:
            return json.loads(text) if text else {}
        except json.JSONDecodeError as error:
            raise BundleError(f"'{self.path}': /plan/json is not JSON: {error}") from error
