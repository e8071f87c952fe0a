#include "base/write_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace mylos {

WriteLock::WriteLock(const std::string& path, const char* what)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  // NFS locks only what may be written; a folder never may.
  if (descriptor_ < 0) descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail("cannot open '{}': {}", path, std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  // Some parallel file systems are mounted without locks: they must do without the protection.
  if (errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  fail("another process does {} into '{}': wait until it has ended, or name another output", what, path);
}

WriteLock::~WriteLock() { ::close(descriptor_); }

}  // namespace mylos
