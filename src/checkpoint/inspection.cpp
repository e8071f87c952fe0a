#include "checkpoint/detail/inspection.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "checkpoint/detail/hdf5.hpp"

namespace mylos::checkpoint::detail {

namespace {

constexpr std::size_t kMaxObjects = 200'000;
constexpr int kMaxLevels = 16;
constexpr std::size_t kMaxAttributes = 1000;
constexpr std::size_t kMaxName = 1024;

struct Names {
  std::vector<std::string> found;
  std::string refused;  // first link that is not a hard one
  std::size_t most;
};

// Called by C code: no exception may leave.
herr_t note_link(hid_t, const char* name, const H5L_info_t* link, void* out) noexcept {
  auto& names = *static_cast<Names*>(out);
  if (link->type != H5L_TYPE_HARD) {
    names.refused.assign(name, strnlen(name, kMaxName));
    return 1;
  }
  if (names.found.size() >= names.most || strnlen(name, kMaxName + 1) > kMaxName) return -1;
  names.found.emplace_back(name);
  return 0;
}

herr_t note_attribute(hid_t, const char* name, const H5A_info_t*, void* out) noexcept {
  auto& names = *static_cast<Names*>(out);
  if (names.found.size() >= names.most || strnlen(name, kMaxName + 1) > kMaxName) return -1;
  names.found.emplace_back(name);
  return 0;
}

void visit(hid_t group, const std::string& name, int level, const std::string& path, std::set<haddr_t>& seen,
           std::map<std::string, ObjectKind>& objects) {
  check(level <= kMaxLevels, "{}: '{}' lies deeper than {} levels; mylos does not write such files", path, name,
        kMaxLevels);
  Names links{{}, "", kMaxObjects};
  need_ok(H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, note_link, &links), path, "list group", name);
  check(links.refused.empty(), "{}: '{}' in '{}' is a soft or external link; mylos follows none", path, links.refused,
        name);
  for (const std::string& link : links.found) {
    const std::string child = name == "/" ? name + link : name + "/" + link;
    const Handle object(need(H5Oopen(group, link.c_str(), H5P_DEFAULT), path, "open", child), H5Oclose);
    H5O_info_t info;
    need_ok(H5Oget_info2(object.id(), &info, H5O_INFO_BASIC), path, "look at", child);
    check(seen.insert(info.addr).second, "{}: '{}' is linked from two places; mylos does not write such files", path,
          child);
    check(objects.size() < kMaxObjects, "{}: more than {} objects", path, kMaxObjects);
    check(info.type == H5O_TYPE_GROUP || info.type == H5O_TYPE_DATASET, "{}: '{}' is neither a group nor a dataset",
          path, child);
    objects[child] = info.type == H5O_TYPE_GROUP ? ObjectKind::group : ObjectKind::dataset;
    if (info.type == H5O_TYPE_GROUP) visit(object.id(), child, level + 1, path, seen, objects);
  }
}

AttributeValue read_attribute(hid_t attribute, const std::string& where, const std::string& path) {
  const Handle type(need(H5Aget_type(attribute), path, "read the type of attribute", where), H5Tclose);
  const Handle space(need(H5Aget_space(attribute), path, "read the space of attribute", where), H5Sclose);
  check(H5Sget_simple_extent_npoints(space.id()) == 1, "{}: attribute '{}' is not a single value", path, where);
  const std::size_t size = H5Tget_size(type.id());
  const H5T_class_t kind = H5Tget_class(type.id());
  check(size >= 1 && size <= (64u << 10), "{}: attribute '{}' has {} bytes; at most 64 kB are read", path, where, size);
  if (kind == H5T_STRING) {
    check(H5Tis_variable_str(type.id()) == 0,
          "{}: attribute '{}' is a string of variable length; mylos writes fixed ones", path, where);
    std::string text(size, '\0');
    need_ok(H5Aread(attribute, type.id(), text.data()), path, "read attribute", where);
    text.resize(text.find_last_not_of('\0') + 1);
    return text;
  }
  if (kind == H5T_INTEGER && size <= 8) {
    std::int64_t value = 0;
    need_ok(H5Aread(attribute, H5T_NATIVE_INT64, &value), path, "read attribute", where);
    if (H5Tequal(type.id(), H5T_STD_U8LE) > 0) return value != 0;
    return value;
  }
  check(kind == H5T_FLOAT && size <= 8, "{}: attribute '{}' has a type that mylos does not write", path, where);
  double value = 0;
  need_ok(H5Aread(attribute, H5T_NATIVE_DOUBLE, &value), path, "read attribute", where);
  return value;
}

std::uint64_t little_endian(const unsigned char* at, int bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= std::uint64_t(at[i]) << (8 * i);
  return value;
}

void check_layout(hid_t set, const DatasetInfo& info, std::int64_t element_size, const std::string& name,
                  const std::string& path, std::int64_t file_bytes) {
  const Handle made(need(H5Dget_create_plist(set), path, "read the layout of", name), H5Pclose);
  const H5D_layout_t layout = H5Pget_layout(made.id());
  check(layout == H5D_CONTIGUOUS || layout == H5D_CHUNKED || layout == H5D_COMPACT,
        "{}: dataset '{}' has a layout that mylos does not write", path, name);
  check(H5Pget_external_count(made.id()) == 0, "{}: dataset '{}' keeps its data in another file; mylos reads none",
        path, name);
  const int filters = H5Pget_nfilters(made.id());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(made.id(), unsigned(i), &flags, &values, nullptr, 0, nullptr, &config);
    check(filter == H5Z_FILTER_FLETCHER32, "{}: dataset '{}' is stored through filter {}; mylos reads Fletcher32 alone",
          path, name, int(filter));
  }
  if (info.elements() == 0) return;
  const hsize_t stored = H5Dget_storage_size(set);
  check(stored <= hsize_t(file_bytes) && stored >= hsize_t(info.bytes()),
        "{}: dataset '{}' claims {} bytes in {} stored ones of a file of {}; the file is damaged", path, name,
        info.bytes(), stored, file_bytes);
  if (layout != H5D_CHUNKED) return;
  hsize_t chunk[H5S_MAX_RANK] = {};
  check(H5Pget_chunk(made.id(), H5S_MAX_RANK, chunk) == int(info.shape.size()),
        "{}: the chunks of '{}' do not fit its shape", path, name);
  hsize_t chunk_bytes = hsize_t(element_size);
  for (std::size_t i = 0; i < info.shape.size(); ++i) {
    check(chunk[i] > 0 && !__builtin_mul_overflow(chunk_bytes, chunk[i], &chunk_bytes) && chunk_bytes <= stored,
          "{}: a chunk of dataset '{}' is larger than what is stored of it; the file is damaged", path, name);
  }
}

}  // namespace

std::int64_t check_container(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  check(fd >= 0, "cannot open '{}': {}", path, std::strerror(errno));
  struct stat status {};
  unsigned char head[64] = {};
  const bool known = fstat(fd, &status) == 0;
  const ssize_t got = known && S_ISREG(status.st_mode) ? pread(fd, head, sizeof head, 0) : -1;
  close(fd);
  check(known && S_ISREG(status.st_mode), "'{}' is not a regular file", path);
  static const unsigned char kSignature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  check(got >= 48 && std::memcmp(head, kSignature, 8) == 0,
        "'{}' ({} bytes) is not an HDF5 file, or its beginning is damaged", path, std::int64_t(status.st_size));
  // Superblock 2 and 3 (what mylos writes) have the end of the file at byte 28, 0 and 1 at byte 40 (8-byte offsets).
  const int version = head[8], offset_size = version >= 2 ? head[9] : head[13];
  check(version <= 3 && offset_size == 8,
        "'{}' has an HDF5 superblock (version {}, {}-byte offsets) that mylos does not read", path, version,
        offset_size);
  const std::uint64_t end = little_endian(head + (version >= 2 ? 28 : 40), 8);
  check(end <= std::uint64_t(status.st_size), "'{}' is cut off: it has {} bytes and should have {}", path,
        std::int64_t(status.st_size), end);
  return status.st_size;
}

std::map<std::string, ObjectKind> find_objects(hid_t file, const std::string& path) {
  std::map<std::string, ObjectKind> objects{{"/", ObjectKind::group}};
  const Handle root(need(H5Gopen2(file, "/", H5P_DEFAULT), path, "open group", "/"), H5Gclose);
  H5O_info_t info;
  need_ok(H5Oget_info2(root.id(), &info, H5O_INFO_BASIC), path, "look at", "/");
  std::set<haddr_t> seen{info.addr};
  visit(root.id(), "/", 0, path, seen, objects);
  return objects;
}

Attributes read_attributes(hid_t object, const std::string& name, const std::string& path) {
  Names names{{}, "", kMaxAttributes};
  need_ok(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, note_attribute, &names), path,
          "list the attributes of", name);
  Attributes attributes;
  for (const std::string& key : names.found) {
    const std::string where = name + ":" + key;
    const Handle attribute(need(H5Aopen(object, key.c_str(), H5P_DEFAULT), path, "open attribute", where), H5Aclose);
    attributes[key] = read_attribute(attribute.id(), where, path);
  }
  return attributes;
}

DatasetInfo dataset_info(hid_t set, const std::string& name, const std::string& path, std::int64_t file_bytes) {
  DatasetInfo info;
  info.attributes = read_attributes(set, name, path);
  const Handle type(need(H5Dget_type(set), path, "read the type of", name), H5Tclose);
  const Handle space(need(H5Dget_space(set), path, "read the space of", name), H5Sclose);
  const H5S_class_t kind = H5Sget_simple_extent_type(space.id());
  check(kind == H5S_SCALAR || kind == H5S_SIMPLE, "{}: dataset '{}' has no extent", path, name);
  const std::string stated = info.text("dtype");
  if (H5Tget_class(type.id()) == H5T_STRING) {
    check(H5Tis_variable_str(type.id()) == 0,
          "{}: dataset '{}' has strings of variable length; mylos writes fixed ones", path, name);
    info.is_text = true;
    info.text_length = std::int64_t(H5Tget_size(type.id()));
    check(info.text_length > 0, "{}: dataset '{}' has strings of length 0", path, name);
  } else {
    bool known = false;
    for (const DType d :
         {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::bf16, DType::u16, DType::u32}) {
      if (known || H5Tequal(type.id(), file_type(d)) <= 0 || (!stated.empty() && stated != name_of(d))) continue;
      if (d == DType::bf16 && stated.empty()) continue;  // without the attribute it is u16
      info.dtype = d;
      known = true;
    }
    check(known, "{}: dataset '{}' has a type that mylos does not write, or one that is not the '{}' it states", path,
          name, stated);
  }
  const std::int64_t element_size = info.is_text ? info.text_length : size_of(info.dtype);
  const int rank = H5Sget_simple_extent_ndims(space.id());
  check(rank >= 0 && rank <= 8, "{}: dataset '{}' has {} dimensions, at most 8 are read", path, name, rank);
  hsize_t extent[H5S_MAX_RANK] = {};
  if (rank > 0)
    check(H5Sget_simple_extent_dims(space.id(), extent, nullptr) == rank, "{}: the extents of '{}' cannot be read",
          path, name);
  std::int64_t bytes = element_size;
  bool empty = false;
  for (int i = 0; i < rank; ++i) empty = empty || extent[i] == 0;
  for (int i = 0; i < rank; ++i) {
    check(extent[i] <= hsize_t(INT64_MAX) &&
              (empty || (!__builtin_mul_overflow(bytes, std::int64_t(extent[i]), &bytes) && bytes <= file_bytes)),
          "{}: dataset '{}' has an extent of {}, more than the file's {} bytes can hold", path, name, extent[i],
          file_bytes);
    info.shape.push_back(std::int64_t(extent[i]));
  }
  for (const std::int64_t e : info.shape) {  // so that no product of extents overflows
    check(!empty || (e <= (1 << 20) && rank <= 3), "{}: dataset '{}' is empty but has an extent of {}", path, name, e);
  }
  check_layout(set, info, element_size, name, path, file_bytes);
  return info;
}

}  // namespace mylos::checkpoint::detail
