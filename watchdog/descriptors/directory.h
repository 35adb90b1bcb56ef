// One directory, opened and checked once and kept: what lies in it is opened below its descriptor, and no link in it is
// followed. So nobody can put another directory, or a link, in its place between the check and the use.
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <memory>
#include <string>

namespace ncclwatch::descriptors {

class Directory {
 public:
  Directory() = default;  // none: nothing can be opened in it
  // Ours alone: it is no link, belongs to us, nobody else may write to it, and nobody but us and root can put another
  // in its place: each directory above belongs to us or root, and others may write there only under the sticky bit.
  static Directory Own(const std::string& path);
  // Anybody's, named by whoever runs the command. Only links in it are not followed.
  static Directory Named(const std::string& path);

  explicit operator bool() const { return state_ != nullptr; }
  const std::string& reason() const { return reason_; }  // why it is none, with its path, in one line
  const std::string& path() const { return path_; }      // as it was asked for: for people, and to be given to programs
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }
  uid_t owner() const;
  bool IsAtItsPath() const;  // for programs that are given the path: no other has its name

  // `name`: of a file in it, or in folders below it ("stacks/12.txt"). As the system calls: -1, null or false, and
  // errno. Descriptors have high numbers (high.h), O_CLOEXEC and O_NOFOLLOW.
  int Open(const std::string& name, int flags, mode_t mode = 0) const;
  DIR* List(const std::string& folder = ".") const;
  bool Stat(const std::string& name, struct stat* info) const;  // of a link: of the link itself
  bool MakeFolder(const std::string& name) const;               // 0700; also true if it is there, and a folder
  bool Rename(const std::string& from, const std::string& to) const;
  bool Link(const std::string& from, const std::string& to) const;
  bool Unlink(const std::string& name) const;

 private:
  struct State;
  class Place;
  static Directory Opened(const std::string& path, bool own);
  int At() const;
  std::string path_, reason_;
  std::shared_ptr<State> state_;
};

}  // namespace ncclwatch::descriptors
