// The distrustful half of reading: what is in the file, and whether it may be read at all.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <map>
#include <string>

#include "checkpoint/store.hpp"

namespace mylos::checkpoint::detail {

enum class ObjectKind { group, dataset };

// Checks what can be checked without HDF5 (a regular file, signature, end of file as the superblock has it); returns
// the file's size.
std::int64_t check_container(const std::string& path);
// All groups and datasets reachable from the root; throws Error at a soft or external link, an object linked twice (a
// cycle, perhaps), a named datatype, too many objects or levels.
std::map<std::string, ObjectKind> find_objects(hid_t file, const std::string& path);
Attributes read_attributes(hid_t object, const std::string& name, const std::string& path);
// Throws Error unless the dataset is of a type, layout and size that mylos writes and the file can hold.
DatasetInfo dataset_info(hid_t set, const std::string& name, const std::string& path, std::int64_t file_bytes);

}  // namespace mylos::checkpoint::detail
