"""Writing a bundle as src/checkpoint/writer.cpp does: the same format bounds, types, attributes and checksums."""

import contextlib
import hashlib
import os

import h5py
import numpy as np

CHUNK_BYTES = 4 << 20
DTYPES = {"f8": "f64", "i8": "i64"}


def _padded(text):
    data = text.encode("utf-8")
    if b"\0" in data:
        raise ValueError("a text has a NUL inside")
    return data or b"\0"


class Writer:
    """A file under a temporary name; leaving the `with` block without an exception puts it at `path`."""

    def __init__(self, path):
        self.path = str(path)
        self._temporary = f"{self.path}.tmp-{os.getpid()}"

    def __enter__(self):
        self._file = h5py.File(self._temporary, "w", libver=("v110", "v110"))
        return self

    def __exit__(self, kind, value, trace):
        self._file.close()
        if kind is None:
            with open(self._temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(self._temporary, self.path)
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)

    def group(self, path, **attributes):
        self._attributes(self._file.require_group(path), attributes)

    def _attributes(self, item, attributes):
        for name, value in attributes.items():
            if isinstance(value, bool):
                item.attrs.create(name, np.uint8(value), dtype="u1")
            elif isinstance(value, int):
                item.attrs.create(name, np.int64(value), dtype="<i8")
            elif isinstance(value, float):
                item.attrs.create(name, np.float64(value), dtype="<f8")
            else:
                data = _padded(str(value))
                item.attrs.create(name, np.bytes_(data), dtype=h5py.string_dtype("utf-8", len(data)))

    def _dataset(self, path, values, dtype, stated, units, description, more):
        layout = {}
        if values.shape and values.size:
            rows = max(1, CHUNK_BYTES // values.dtype.itemsize)
            layout = {"chunks": tuple(min(rows, n) for n in values.shape), "fletcher32": True}
        item = self._file.create_dataset(path, values.shape, dtype=dtype, track_times=False, **layout)
        if values.size:
            item.id.write(h5py.h5s.ALL, h5py.h5s.ALL, values, item.id.get_type())
        hashed = hashlib.sha256(values.tobytes()).hexdigest()
        self._attributes(item, {"dtype": stated, "units": units, "description": description, "sha256": hashed} | more)

    def number(self, path, values, units, description, **more):
        """A scalar or a series: f64, or i64 when it is of integers."""
        values = np.asarray(values)
        values = np.ascontiguousarray(values.astype("<i8" if values.dtype.kind in "iu" else "<f8")).reshape(values.shape)
        self._dataset(path, values, values.dtype, DTYPES[values.dtype.str[1:]], units, description, more)

    def text(self, path, value, description):
        data = _padded(value)
        self._dataset(path, np.array(data, f"S{len(data)}"), h5py.string_dtype("utf-8", len(data)), "text", "1", description, {})

    def texts(self, path, values, description):
        data = [_padded(v) for v in values]
        longest = max(map(len, data), default=1)
        self._dataset(
            path, np.array(data, f"S{longest}"), h5py.string_dtype("utf-8", longest), "text", "1", description, {}
        )
