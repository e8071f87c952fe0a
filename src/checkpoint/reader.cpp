
#include <algorithm>

#include "checkpoint/detail/hdf5.hpp"
#include "checkpoint/detail/inspection.hpp"
#include "checkpoint/isolate.hpp"
#include "checkpoint/store.hpp"

namespace mylos::checkpoint {

using namespace detail;

std::int64_t DatasetInfo::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t e : shape) n *= e;
  return n;
}

std::int64_t DatasetInfo::bytes() const { return elements() * (is_text ? text_length : size_of(dtype)); }

std::string DatasetInfo::text(const char* attribute) const {
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) return "";
  const auto* value = std::get_if<std::string>(&found->second);
  return value ? *value : "";
}

struct Reader::Impl {
  std::string path;
  std::int64_t file_bytes = 0;
  Handle file;
  std::map<std::string, ObjectKind> objects;  // found through hard links alone; nothing else is ever opened

  bool has(const std::string& object, ObjectKind kind) const {
    const auto found = objects.find(object);
    return found != objects.end() && found->second == kind;
  }
  Handle open(const std::string& object, ObjectKind kind) const {
    check(has(object, kind), "{}: there is no {} '{}'", path, kind == ObjectKind::group ? "group" : "dataset", object);
    return {need(H5Oopen(file.id(), object.c_str(), H5P_DEFAULT), path, "open", object), H5Oclose};
  }
  std::vector<std::string> children(const std::string& group, ObjectKind kind) const {
    check(has(group, ObjectKind::group), "{}: there is no group '{}'", path, group);
    const std::string prefix = group == "/" ? "/" : group + "/";
    std::vector<std::string> names;
    for (auto it = objects.upper_bound(prefix); it != objects.end() && it->first.compare(0, prefix.size(), prefix) == 0;
         ++it) {
      const std::string name = it->first.substr(prefix.size());
      if (it->second == kind && name.find('/') == std::string::npos) names.push_back(name);
    }
    return names;
  }
  DatasetInfo info_of(hid_t set, const std::string& name) const { return dataset_info(set, name, path, file_bytes); }

  void compare_hash(const DatasetInfo& info, const std::string& name, Sha256& hash) const {
    const std::string stated = info.text("sha256"), found = hash.hex();
    check(!stated.empty(), "{}: dataset '{}' has no sha256 attribute, so it cannot be trusted", path, name);
    check(stated == found, "{}: dataset '{}' is damaged: its SHA-256 is {}, the file states {}", path, name, found,
          stated);
  }

  // All elements at once into `out` of info.bytes().
  void read_whole(hid_t set, const DatasetInfo& info, const std::string& name, void* out) const {
    Sha256 hash;
    if (info.elements() > 0) {
      const Handle type(need(H5Dget_type(set), path, "read the type of", name), H5Tclose);
      need_ok(H5Dread(set, type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out), path, "read dataset", name);
      hash.update(out, std::size_t(info.bytes()));
    }
    compare_hash(info, name, hash);
  }

  void read_slices(hid_t set, const DatasetInfo& info, const std::string& name, const Drain& drain) const {
    Sha256 hash;
    const std::int64_t element_size = info.is_text ? info.text_length : size_of(info.dtype);
    const std::int64_t row = row_elements(info.shape), rows = info.shape.empty() ? 1 : info.shape[0];
    if (info.elements() > 0) {
      const Handle type(need(H5Dget_type(set), path, "read the type of", name), H5Tclose);
      const Handle space(need(H5Dget_space(set), path, "read the space of", name), H5Sclose);
      const std::int64_t step = rows_per_slice(info.shape, element_size, kSliceBytes);
      std::vector<std::byte> slice(std::size_t(step * row * element_size));
      for (std::int64_t first = 0; first < rows; first += step) {
        const std::int64_t n = std::min(step, rows - first), count = n * row;
        if (info.shape.empty()) {
          need_ok(H5Dread(set, type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, slice.data()), path, "read dataset", name);
        } else {
          std::vector<hsize_t> start(info.shape.size(), 0), extent(info.shape.begin(), info.shape.end());
          start[0] = hsize_t(first);
          extent[0] = hsize_t(n);
          need_ok(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr), path,
                  "select rows of", name);
          // Of the slice's own shape: HDF5 goes from a space of another rank element by element, 6 times slower as a whole.
          const Handle memory(
              need(H5Screate_simple(int(extent.size()), extent.data(), nullptr), path, "make the space of", name),
              H5Sclose);
          need_ok(H5Dread(set, type.id(), memory.id(), space.id(), H5P_DEFAULT, slice.data()), path, "read dataset",
                  name);
        }
        hash.update(slice.data(), std::size_t(count * element_size));
        if (drain) drain(first * row, count, slice.data());
      }
    }
    compare_hash(info, name, hash);
  }
};

Reader::Reader(const std::string& path, Trust trust) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->file_bytes = check_container(path);
  if (trust == Trust::none) {
    run_isolated(path, reading_limit_s(path), [&] {
      const Reader probe(path, Trust::isolated);
      for (const auto& [name, kind] : probe.impl_->objects) {
        if (kind == ObjectKind::dataset)
          probe.info(name);
        else
          probe.attributes(name);
      }
      return std::string();
    });
  }
  const Hdf5Lock lock;
  const Handle access(need(H5Pcreate(H5P_FILE_ACCESS), path, "set up access to", "/"), H5Pclose);
  // Published files never change, and a lock would keep readers on read-only and network file systems out.
  need_ok(H5Pset_file_locking(access.id(), false, true), path, "switch off locking of", "/");
  impl_->file = Handle(need(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), path, "open", "/"), H5Fclose);
  impl_->objects = find_objects(impl_->file.id(), path);
}

Reader::~Reader() {
  if (!impl_) return;
  try {
    const Hdf5Lock lock;
    impl_->file.reset();
  } catch (const std::exception&) {  // a destructor has nobody to tell, and nothing was written
  }
}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

const std::string& Reader::path() const { return impl_->path; }
bool Reader::has_group(const std::string& path) const { return impl_->has(path, ObjectKind::group); }
bool Reader::has_dataset(const std::string& path) const { return impl_->has(path, ObjectKind::dataset); }
std::vector<std::string> Reader::groups(const std::string& group) const {
  return impl_->children(group, ObjectKind::group);
}
std::vector<std::string> Reader::datasets(const std::string& group) const {
  return impl_->children(group, ObjectKind::dataset);
}

Attributes Reader::attributes(const std::string& object) const {
  const Hdf5Lock lock;
  const auto found = impl_->objects.find(object);
  check(found != impl_->objects.end(), "{}: there is no object '{}'", impl_->path, object);
  return read_attributes(impl_->open(object, found->second).id(), object, impl_->path);
}

DatasetInfo Reader::info(const std::string& dataset) const {
  const Hdf5Lock lock;
  return impl_->info_of(impl_->open(dataset, ObjectKind::dataset).id(), dataset);
}

namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string kind_text(const DatasetInfo& info) {
  return (info.is_text ? std::string("text") : std::string(name_of(info.dtype))) + shape_text(info.shape);
}

}  // namespace

void Reader::read(const std::string& dataset, DType dtype, const std::vector<std::int64_t>& shape, void* out) const {
  const Hdf5Lock lock;
  const Handle set = impl_->open(dataset, ObjectKind::dataset);
  const DatasetInfo info = impl_->info_of(set.id(), dataset);
  check(!info.is_text && info.dtype == dtype && info.shape == shape, "{}: dataset '{}' is {}, expected {}{}", path(),
        dataset, kind_text(info), name_of(dtype), shape_text(shape));
  impl_->read_whole(set.id(), info, dataset, out);
}

void Reader::read(const std::string& dataset, const Drain& drain) const {
  const Hdf5Lock lock;
  const Handle set = impl_->open(dataset, ObjectKind::dataset);
  impl_->read_slices(set.id(), impl_->info_of(set.id(), dataset), dataset, drain);
}

void Reader::verify(const std::string& dataset) const { read(dataset, Drain()); }

std::vector<double> Reader::reals(const std::string& dataset) const {
  const DatasetInfo i = info(dataset);
  check(!i.is_text && i.dtype == DType::f64, "{}: dataset '{}' is {}, expected f64", path(), dataset, kind_text(i));
  std::vector<double> values(std::size_t(i.elements()));
  read(dataset, DType::f64, i.shape, values.data());
  return values;
}

double Reader::real(const std::string& dataset) const {
  double value = 0;
  read(dataset, DType::f64, {}, &value);
  return value;
}

std::int64_t Reader::integer(const std::string& dataset) const {
  std::int64_t value = 0;
  read(dataset, DType::i64, {}, &value);
  return value;
}

std::vector<std::string> Reader::texts(const std::string& dataset) const {
  const Hdf5Lock lock;
  const Handle set = impl_->open(dataset, ObjectKind::dataset);
  const DatasetInfo info = impl_->info_of(set.id(), dataset);
  check(info.is_text, "{}: dataset '{}' is {}, expected text", path(), dataset, kind_text(info));
  std::string all(std::size_t(info.bytes()), '\0');
  impl_->read_whole(set.id(), info, dataset, all.data());
  std::vector<std::string> values;
  for (std::int64_t i = 0; i < info.elements(); ++i) {
    std::string value = all.substr(std::size_t(i * info.text_length), std::size_t(info.text_length));
    value.resize(value.find_last_not_of('\0') + 1);
    values.push_back(std::move(value));
  }
  return values;
}

std::string Reader::text(const std::string& dataset) const {
  const DatasetInfo i = info(dataset);
  check(i.shape.empty(), "{}: dataset '{}' is {}, expected one text", path(), dataset, kind_text(i));
  return texts(dataset).at(0);
}

std::vector<std::string> Reader::walk() const {
  std::vector<std::string> names;
  for (const auto& [name, kind] : impl_->objects) names.push_back(name);
  return names;
}

}  // namespace mylos::checkpoint
