#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "checkpoint/detail/hdf5.hpp"
#include "checkpoint/store.hpp"

namespace mylos::checkpoint {

using namespace detail;
namespace fs = std::filesystem;

namespace {

// A process that was killed while it wrote leaves its temporary file; whoever writes the same file next takes it away.
void remove_stale(const fs::path& path) {
  const std::string prefix = path.filename().string() + ".tmp-";
  std::error_code ignored;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string digits = name.substr(prefix.size());
    int pid = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || pid <= 0) continue;
    if (kill(pid, 0) != 0 && errno == ESRCH) fs::remove(entry.path(), ignored);
  }
}

void sync_path(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  check(fd >= 0, "cannot open '{}' to flush it: {}", path, std::strerror(errno));
  const int status = fsync(fd);
  const int reason = errno;
  close(fd);
  // Some file systems cannot flush a folder; the file itself must be flushed.
  check(status == 0 || (flags & O_DIRECTORY), "cannot flush '{}' to disk: {}", path, std::strerror(reason));
}

std::vector<hsize_t> extents(const std::vector<std::int64_t>& shape) { return {shape.begin(), shape.end()}; }

// Whole rows when a row is small, else a piece of one row.
std::vector<hsize_t> chunk_of(const std::vector<std::int64_t>& shape, std::int64_t element_size) {
  std::vector<hsize_t> chunk(shape.size(), 1);
  std::int64_t budget = std::max<std::int64_t>(1, kChunkBytes / element_size);
  for (std::size_t i = shape.size(); i-- > 0;) {
    chunk[i] = hsize_t(std::clamp<std::int64_t>(budget, 1, shape[i]));
    budget /= std::int64_t(chunk[i]);
    if (std::int64_t(chunk[i]) < shape[i]) break;
  }
  return chunk;
}

}  // namespace

struct Writer::Impl {
  std::string path, temporary;
  Handle file;
  bool committed = false;

  Handle open_object(const std::string& object) const {
    return {need(H5Oopen(file.id(), object.c_str(), H5P_DEFAULT), path, "open", object), H5Oclose};
  }

  void put_attribute(hid_t object, const std::string& where, const std::string& name, hid_t type,
                     const void* value) const {
    const Handle space(need(H5Screate(H5S_SCALAR), path, "make the space of attribute", name), H5Sclose);
    const htri_t present = H5Aexists(object, name.c_str());
    if (present > 0) need_ok(H5Adelete(object, name.c_str()), path, "replace an attribute of", where + ":" + name);
    const Handle attribute(need(H5Acreate2(object, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT), path,
                                "create attribute", where + ":" + name),
                           H5Aclose);
    need_ok(H5Awrite(attribute.id(), type, value), path, "write attribute", where + ":" + name);
  }

  void put_attribute(hid_t object, const std::string& where, const std::string& name,
                     const AttributeValue& value) const {
    check(!name.empty() && name.find('/') == std::string::npos, "'{}' cannot be the name of an attribute of '{}'", name,
          where);
    if (const auto* text = std::get_if<std::string>(&value)) {
      check(text->size() <= kMaxAttributeText, "attribute {}:{} has {} bytes, at most {} fit; make it a dataset", where,
            name, text->size(), kMaxAttributeText);
      check(text->find('\0') == std::string::npos, "attribute {}:{} has a NUL inside", where, name);
      std::string padded = *text;
      padded.resize(std::max<std::size_t>(1, padded.size()), '\0');
      put_attribute(object, where, name, string_type(padded.size()).id(), padded.data());
    } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      put_attribute(object, where, name, H5T_STD_I64LE, integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
      put_attribute(object, where, name, H5T_IEEE_F64LE, real);
    } else {
      const std::uint8_t flag = std::get<bool>(value) ? 1 : 0;
      put_attribute(object, where, name, H5T_STD_U8LE, &flag);
    }
  }

  // `type` is the type in the file and in memory; fill is asked for slices of whole rows.
  void put_dataset(const std::string& name, hid_t type, std::int64_t element_size, const char* dtype,
                   const std::vector<std::int64_t>& shape, const void* data, const Fill& fill,
                   const About& about) const {
    check(file.id() >= 0, "{}: '{}' cannot be written after commit()", path, name);
    check(name.size() > 1 && name[0] == '/', "{}: '{}' must be an absolute path like /group/name", path, name);
    check(!about.units.empty() && !about.description.empty(), "{}: dataset '{}' needs units and a description", path,
          name);
    std::int64_t elements = 1;
    for (const std::int64_t n : shape) {
      check(n >= 0 && !__builtin_mul_overflow(elements, n, &elements), "{}: dataset '{}' has an impossible extent {}",
            path, name, n);
    }
    const Handle links(need(H5Pcreate(H5P_LINK_CREATE), path, "make links for", name), H5Pclose);
    need_ok(H5Pset_create_intermediate_group(links.id(), 1), path, "make links for", name);
    const Handle layout(need(H5Pcreate(H5P_DATASET_CREATE), path, "make the layout of", name), H5Pclose);
    const std::vector<hsize_t> extent = extents(shape);
    if (!shape.empty() && elements > 0) {
      need_ok(H5Pset_chunk(layout.id(), int(shape.size()), chunk_of(shape, element_size).data()), path, "chunk", name);
      need_ok(H5Pset_fletcher32(layout.id()), path, "checksum the chunks of", name);
      need_ok(H5Pset_fill_time(layout.id(), H5D_FILL_TIME_NEVER), path, "lay out", name);
    }
    const Handle space(
        need(shape.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(int(shape.size()), extent.data(), nullptr), path,
             "make the space of", name),
        H5Sclose);
    const Handle set(need(H5Dcreate2(file.id(), name.c_str(), type, space.id(), links.id(), layout.id(), H5P_DEFAULT),
                          path, "create dataset", name),
                     H5Dclose);
    Sha256 hash;
    if (data) {
      hash.update(data, std::size_t(elements * element_size));
      if (elements > 0)
        need_ok(H5Dwrite(set.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), path, "write dataset", name);
    } else {
      write_slices(set.id(), space.id(), name, type, element_size, shape, elements, fill, hash);
    }
    put_attribute(set.id(), name, "dtype", std::string(dtype));
    put_attribute(set.id(), name, "units", about.units);
    put_attribute(set.id(), name, "description", about.description);
    put_attribute(set.id(), name, "sha256", hash.hex());
    for (const auto& [key, value] : about.more) put_attribute(set.id(), name, key, value);
  }

  void write_slices(hid_t set, hid_t space, const std::string& name, hid_t type, std::int64_t element_size,
                    const std::vector<std::int64_t>& shape, std::int64_t elements, const Fill& fill,
                    Sha256& hash) const {
    if (elements == 0) return;
    const std::int64_t row = row_elements(shape), rows = shape.empty() ? 1 : shape[0];
    const std::int64_t step = rows_per_slice(shape, element_size, kSliceBytes);
    std::vector<std::byte> slice(std::size_t(step * row * element_size));
    for (std::int64_t first = 0; first < rows; first += step) {
      const std::int64_t n = std::min(step, rows - first), count = n * row;
      fill(first * row, count, slice.data());
      hash.update(slice.data(), std::size_t(count * element_size));
      if (shape.empty()) {
        need_ok(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, slice.data()), path, "write dataset", name);
        continue;
      }
      std::vector<hsize_t> start(shape.size(), 0), extent = extents(shape);
      start[0] = hsize_t(first);
      extent[0] = hsize_t(n);
      need_ok(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr), path,
              "select rows of", name);
      // Of the slice's own shape: HDF5 goes from a space of another rank element by element, 6 times slower as a whole.
      const Handle memory(
          need(H5Screate_simple(int(extent.size()), extent.data(), nullptr), path, "make the space of", name),
          H5Sclose);
      need_ok(H5Dwrite(set, type, memory.id(), space, H5P_DEFAULT, slice.data()), path, "write dataset", name);
    }
  }
};

Writer::Writer(const std::string& path) : impl_(std::make_unique<Impl>()) {
  const Hdf5Lock lock;
  impl_->path = path;
  impl_->temporary = path + ".tmp-" + std::to_string(getpid());
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  std::error_code ignored;
  check(fs::is_directory(folder, ignored),
        "cannot write '{}': the folder '{}' does not exist; create it or name another", path, folder.string());
  check(!fs::exists(path, ignored) || fs::is_regular_file(path, ignored),
        "cannot write '{}': it exists and is not a regular file", path);
  remove_stale(path);
  unlink(impl_->temporary.c_str());
  const Handle access(need(H5Pcreate(H5P_FILE_ACCESS), path, "set up access to", "/"), H5Pclose);
  // From 1.10 on the format has checksums on all metadata, so that a flipped bit anywhere is found.
  need_ok(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110), path, "set the format of", "/");
  impl_->file = Handle(need(H5Fcreate(impl_->temporary.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.id()),
                            impl_->temporary, "create", "/"),
                       H5Fclose);
}

Writer::~Writer() {
  if (impl_->committed) return;
  try {
    const Hdf5Lock lock;
    abandon(impl_->file);
  } catch (const std::exception&) {  // a destructor has nobody to tell; the file is removed either way
  }
  unlink(impl_->temporary.c_str());
}

void Writer::group(const std::string& path, const Attributes& attributes) {
  const Hdf5Lock lock;
  check(!path.empty() && path[0] == '/', "{}: '{}' must be an absolute path like /group", impl_->path, path);
  for (std::size_t end = 1; path.size() > 1 && end != std::string::npos;) {
    end = path.find('/', end);
    const std::string part = path.substr(0, end);
    if (end != std::string::npos) ++end;
    if (H5Lexists(impl_->file.id(), part.c_str(), H5P_DEFAULT) > 0) continue;
    const Handle made(need(H5Gcreate2(impl_->file.id(), part.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                           impl_->path, "create group", part),
                      H5Gclose);
  }
  for (const auto& [name, value] : attributes) attribute(path, name, value);
}

void Writer::attribute(const std::string& object, const std::string& name, const AttributeValue& value) {
  const Hdf5Lock lock;
  impl_->put_attribute(impl_->open_object(object).id(), object, name, value);
}

void Writer::dataset(const std::string& path, DType dtype, const std::vector<std::int64_t>& shape, const void* data,
                     const About& about) {
  const Hdf5Lock lock;
  static const char nothing = 0;
  impl_->put_dataset(path, file_type(dtype), size_of(dtype), std::string(name_of(dtype)).c_str(), shape,
                     data ? data : &nothing, {}, about);
}

void Writer::dataset(const std::string& path, DType dtype, const std::vector<std::int64_t>& shape, const Fill& fill,
                     const About& about) {
  const Hdf5Lock lock;
  impl_->put_dataset(path, file_type(dtype), size_of(dtype), std::string(name_of(dtype)).c_str(), shape, nullptr, fill,
                     about);
}

void Writer::reals(const std::string& path, const std::vector<double>& values, const About& about) {
  dataset(path, DType::f64, {std::int64_t(values.size())}, values.data(), about);
}

void Writer::real(const std::string& path, double value, const About& about) {
  dataset(path, DType::f64, {}, &value, about);
}

void Writer::integer(const std::string& path, std::int64_t value, const About& about) {
  dataset(path, DType::i64, {}, &value, about);
}

void Writer::text(const std::string& path, std::string_view value, const About& about) {
  const Hdf5Lock lock;
  check(value.find('\0') == std::string_view::npos, "{}: text '{}' has a NUL inside", impl_->path, path);
  std::string padded(value);
  padded.resize(std::max<std::size_t>(1, padded.size()), '\0');
  impl_->put_dataset(path, string_type(padded.size()).id(), std::int64_t(padded.size()), "text", {}, padded.data(), {},
                     about);
}

void Writer::texts(const std::string& path, const std::vector<std::string>& values, const About& about) {
  const Hdf5Lock lock;
  std::size_t longest = 1;
  for (const std::string& v : values) {
    check(v.find('\0') == std::string::npos, "{}: a text of '{}' has a NUL inside", impl_->path, path);
    longest = std::max(longest, v.size());
  }
  std::string padded(longest * values.size() + 1, '\0');
  for (std::size_t i = 0; i < values.size(); ++i) values[i].copy(padded.data() + i * longest, values[i].size());
  impl_->put_dataset(path, string_type(longest).id(), std::int64_t(longest), "text", {std::int64_t(values.size())},
                     padded.data(), {}, about);
}

void Writer::commit() {
  const Hdf5Lock lock;
  Impl& w = *impl_;
  check(!w.committed, "{}: commit() was called twice", w.path);
  need_ok(H5Fflush(w.file.id(), H5F_SCOPE_GLOBAL), w.path, "flush", "/");
  const hid_t file = w.file.id();
  const ssize_t open_objects = H5Fget_obj_count(file, H5F_OBJ_ALL);
  check(open_objects == 1, "{}: {} HDF5 objects are still open at commit()", w.path, open_objects - 1);
  need_ok(H5Fclose(w.file.release()), w.path, "close", "/");
  sync_path(w.temporary, O_RDONLY);
  // check() would put its message together, errno in it, before the call.
  if (std::rename(w.temporary.c_str(), w.path.c_str()) != 0)
    fail("cannot rename '{}' to '{}': {}", w.temporary, w.path, std::strerror(errno));
  w.committed = true;
  const fs::path parent = fs::path(w.path).parent_path();
  sync_path(parent.empty() ? "." : parent.string(), O_RDONLY | O_DIRECTORY);
}

}  // namespace mylos::checkpoint
