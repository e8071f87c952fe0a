#include "data/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace mylos::data {

FolderLock::FolderLock(const std::string& folder, const char* what)
    : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ < 0) fail("cannot open the folder '{}': {}", folder, std::strerror(errno));
  if (::flock(folder_, LOCK_EX | LOCK_NB) == 0) return;
  // Some parallel file systems are mounted without locks: they must do without the protection.
  if (errno != EWOULDBLOCK) return;
  ::close(folder_);
  fail("another process does {} into '{}': wait until it has ended, or name another folder", what, folder);
}

FolderLock::~FolderLock() { ::close(folder_); }

}  // namespace mylos::data
