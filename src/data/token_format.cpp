#include "data/token_format.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "data/llmc.hpp"
#include "data/megatron.hpp"

namespace mylos::data {

Container container_of(const std::string& path, std::span<const std::byte> bytes, std::int64_t file_bytes,
                       const std::optional<Container>& declared, const std::optional<Sidecar>& sidecar) {
  std::optional<Container> found;
  std::string_view source;
  const auto stated = [&](std::optional<Container> container, std::string_view by) {
    if (!container) return;
    check(!found || *found == *container, "'{}' is {} as {} says, but {} as {} says: correct one of the two", path,
          name_of(found.value_or(*container)), source, name_of(*container), by);
    if (!found) source = by;
    found = container;
  };
  stated(declared, "the caller (data.format, --format)");
  stated(sidecar ? sidecar->container : std::nullopt, "its sidecar");
  if (path.ends_with(".npy")) stated(Container::npy, "its name");
  if (found) return *found;
  std::error_code error;  // a name that cannot be looked up is a file that is not there
  if (path.ends_with(".bin") && std::filesystem::exists(megatron_index_path(path), error)) return Container::megatron;
  check(!begins_like_llmc(bytes, file_bytes),
        "'{}' begins with the header of an llm.c shard, but nothing says that it is one: set data.format to \"llmc\" "
        "(or to \"raw\"), or write \"container\": \"llmc\" into '{}'",
        path, sidecar_path(path));
  return Container::raw;
}

TokenLayout raw_layout(DType dtype, std::int64_t file_bytes, const std::string& name) {
  const std::int64_t width = size_of(dtype);
  check(file_bytes % width == 0, "'{}': {} bytes are no whole number of {} tokens: cut off, or of another dtype", name,
        file_bytes, name_of(dtype));
  return {dtype, 0, file_bytes / width};
}

}  // namespace mylos::data
