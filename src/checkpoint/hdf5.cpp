#include "checkpoint/detail/hdf5.hpp"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "checkpoint/store.hpp"

// Buffers are written and hashed as they lie in memory, and the file is little-endian.
static_assert(std::endian::native == std::endian::little, "the store needs a little-endian machine");

namespace mylos::checkpoint {

std::string hdf5_version() {
  const detail::Hdf5Lock lock;
  unsigned major = 0, minor = 0, release = 0;
  check(H5get_libversion(&major, &minor, &release) >= 0, "HDF5 does not tell its version");
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace mylos::checkpoint

namespace mylos::checkpoint::detail {

namespace {

std::recursive_mutex& hdf5_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

struct Reasons {
  std::string inner, outer;
};

// What HDF5 says of a call to the system ends in numbers and addresses: "file write failed: time = ..., filename = '...', ..., errno = 28,
// error message = 'No space left on device', buf = 0x55..., total write size = ...".
std::string without_numbers(const std::string& text) {
  constexpr std::string_view kErrno = "errno = ";
  const std::size_t at = text.rfind(kErrno);
  const int number = at == text.npos ? 0 : std::atoi(text.c_str() + at + kErrno.size());
  return number == 0 ? text : fmt::format("{}: {}", text.substr(0, text.find_first_of(":,")), std::strerror(number));
}

herr_t note_reason(unsigned n, const H5E_error2_t* error, void* out) {
  auto& reasons = *static_cast<Reasons*>(out);
  const std::string text = without_numbers(error->desc ? error->desc : "");
  if (n == 0) reasons.inner = text;
  reasons.outer = text;
  return 0;
}

}  // namespace

Hdf5Lock::Hdf5Lock() : guard_(hdf5_mutex()) {
  // Files are whole when they are committed; at exit HDF5 would only stumble over those that could not be written.
  static const bool no_exit_work = H5dont_atexit() >= 0;
  (void)no_exit_work;
  static const bool quiet = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  check(quiet, "HDF5 does not let its error printing be switched off");
}

std::string hdf5_reason() {
  Reasons reasons;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_reason, &reasons);
  H5Eclear2(H5E_DEFAULT);
  if (reasons.inner.empty()) return "HDF5 gives no reason";
  return reasons.inner == reasons.outer ? reasons.inner : reasons.outer + ": " + reasons.inner;
}

void abandon(Handle& file) {
  if (!file) return;
  if (H5Fflush(file.id(), H5F_SCOPE_GLOBAL) >= 0) return file.reset();
  void* descriptor = nullptr;
  if (H5Fget_vfd_handle(file.id(), H5P_DEFAULT, &descriptor) >= 0 && descriptor)
    (void)!ftruncate(*static_cast<int*>(descriptor), 0);  // gives the space back, whatever it says
  file.release();
}

hid_t need(hid_t id, const std::string& file, const char* action, std::string_view object, const char* at, int line) {
  if (id < 0) throw Error(fmt::format("{}: cannot {} '{}' ({})", file, action, object, hdf5_reason()), at, line);
  return id;
}

void need_ok(herr_t status, const std::string& file, const char* action, std::string_view object, const char* at,
             int line) {
  if (status < 0) throw Error(fmt::format("{}: cannot {} '{}' ({})", file, action, object, hdf5_reason()), at, line);
}

hid_t file_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return H5T_IEEE_F32LE;
    case DType::f64:
      return H5T_IEEE_F64LE;
    case DType::i32:
      return H5T_STD_I32LE;
    case DType::i64:
      return H5T_STD_I64LE;
    case DType::u8:
      return H5T_STD_U8LE;
    case DType::bf16:
    case DType::u16:
      return H5T_STD_U16LE;
    case DType::u32:
      return H5T_STD_U32LE;
  }
  fail("the store has no type for dtype {}", int(dtype));
}

Handle string_type(std::size_t length) {
  Handle type(need(H5Tcopy(H5T_C_S1), "HDF5", "make", "string type"), H5Tclose);
  need_ok(H5Tset_size(type.id(), length), "HDF5", "size", "string type");
  need_ok(H5Tset_cset(type.id(), H5T_CSET_UTF8), "HDF5", "set UTF-8 of", "string type");
  need_ok(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "HDF5", "set padding of", "string type");
  return type;
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check(context_ && EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr) == 1,
        "libcrypto gives no SHA-256");
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::update(const void* data, std::size_t bytes) {
  check(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), data, bytes) == 1, "SHA-256 of {} bytes failed", bytes);
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  check(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest, &length) == 1, "SHA-256 failed");
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::int64_t row_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

std::int64_t rows_per_slice(const std::vector<std::int64_t>& shape, std::int64_t element_size, std::int64_t bytes) {
  if (shape.empty()) return 1;
  const std::int64_t row_bytes = std::max<std::int64_t>(1, row_elements(shape) * element_size);
  return std::clamp<std::int64_t>(bytes / row_bytes, 1, std::max<std::int64_t>(1, shape[0]));
}

}  // namespace mylos::checkpoint::detail
